import { parentPort, workerData } from "node:worker_threads";
import { parseMac } from "../../kernel/ip/mac.ts";
import { currentNamespace, insideNamespace, openNamespace } from "../../kernel/network_namespace.ts";
import { createBridge, deleteLink } from "../../kernel/route/link.ts";
import { openRouteSocket } from "../../kernel/route/socket.ts";
import { nodeSyscalls } from "../../kernel/syscall/koffi.ts";
import { requestAll } from "../lab/namespace.ts";

/** Runs as a thread that creates and deletes links in a namespace, a pair in 25 ms or more, until it is terminated. */
function isInput(value: unknown): value is { readonly path: string } {
  return typeof value === "object" && value !== null && "path" in value && typeof value.path === "string";
}

const input: unknown = workerData;
if (!isInput(input)) throw new Error("link_churn: expected workerData.path");
const syscalls = nodeSyscalls();
const namespace = openNamespace(syscalls, input.path);
const socket = insideNamespace(syscalls, currentNamespace(syscalls), namespace, () => openRouteSocket(syscalls));
const mac = parseMac("0a:58:0a:f4:01:02");
const pause = new Int32Array(new SharedArrayBuffer(4));

for (let i = 0; ; i++) {
  const name = `churn${i % 3}`;
  requestAll(socket, [createBridge({ name, mac }), deleteLink({ name })]);
  Atomics.wait(pause, 0, 0, 25);
  // A thread has no origin.
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  if (i === 0) parentPort?.postMessage("churning");
}
