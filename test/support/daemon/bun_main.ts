import process from "node:process";
import { askPolicyd } from "../../../cni/attachment/policyd_client.ts";
import type { PolicydRequest } from "../../../cni/attachment/policyd_messages.ts";
import { bunSyscalls } from "../../../kernel/syscall/bun.ts";

const syscalls = bunSyscalls();
const socketPath = process.argv[2] ?? "";

function messageOf(action: () => unknown): string {
  try {
    action();
    return "done";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

const reply = askPolicyd(syscalls, socketPath, { type: "status" }, 5000);
const unknown: unknown = { type: "stop" };
process.stdout.write(`${reply.type === "status" ? reply.status.nodeName : reply.type}\n`);
process.stdout.write(
  `refused: ${messageOf(() => askPolicyd(syscalls, socketPath, unknown as PolicydRequest, 5000))}\n`,
);
process.stdout.write(
  `away: ${messageOf(() => askPolicyd(syscalls, `${socketPath}.none`, { type: "status" }, 5000))}\n`,
);
