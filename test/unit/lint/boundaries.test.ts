import assert from "node:assert/strict";
import { brokenBoundaries } from "../../support/lint/boundaries.ts";

describe("lint: import boundaries", () => {
  const forbidden: readonly (readonly [file: string, specifier: string, name: string, message: RegExp])[] = [
    ["kernel/link.ts", "node:child_process", "spawn", /netlink/],
    ["policyd/main.ts", "child_process", "*", /netlink/],
    ["cni/add/add.ts", "ipaddr.js", "default", /kernel\/ip\/address\.ts/],
    ["cni/add/add.ts", "node:fs", "writeFileSync", /store in ipam/],
    ["kernel/file_lock.ts", "node:fs/promises", "rm", /store in ipam/],
    ["kernel/file_lock.ts", "node:fs", "default", /store in ipam/],
    ["policyd/main.ts", "koffi", "default", /kernel\/syscall\/syscalls\.ts/],
    ["kernel/syscall/native.ts", "koffi", "default", /starts again for every pod/],
    ["cni/log.ts", "winston", "default", /starts again for every pod/],
    ["cni/add/add.ts", "../../kernel/notifications/thread.ts", "startNotificationThread", /only the daemon waits/],
    ["cni/main.ts", "../kernel/syscall/koffi.ts", "nodeSyscalls", /only the daemon waits/],
    ["policyd/main.ts", "node:worker_threads", "Worker", /kernel\/notifications\/notifications\.ts/],
    ["kernel/notifications/thread.ts", "node:worker_threads", "Worker", /second JavaScript engine/],
    [
      "policyd/main.ts",
      "@kubernetes/client-node",
      "KubeConfig",
      /only in policyd\/sources\/api\/connection\/kubeconfig\.ts/,
    ],
    ["cli/input/load.ts", "@kubernetes/client-node", "*", /only in policyd\/sources\/api\/connection\/kubeconfig\.ts/],
    ["attachment/policyd_messages.ts", "valibot", "object", /starts again for every pod/],
    ["kernel/route/link.ts", "../../ipam/store.ts", "Store", /kernel\/ may import nothing/],
    ["ipam/store.ts", "../cni/result.ts", "Result", /ipam\/ may import only kernel\//],
    ["cni/add/add.ts", "../../policyd/record.ts", "record", /cni\/ may import only/],
    [
      "policyd/services/elements/selection.ts",
      "../../../objects/semantics/services/hints.ts",
      "hintUse",
      /the evaluator checks/,
    ],
    [
      "objects/semantics/services/hints.ts",
      "../../../policyd/services/elements/selection.ts",
      "select",
      /objects\/ may import only/,
    ],
    [
      "objects/semantics/services/print.ts",
      "../../../kernel/nftables/text/text.ts",
      "formatTable",
      /objects\/ may import only/,
    ],
    ["objects/semantics/policies/match.ts", "../services/packet.ts", "Packet", /objects only/],
    [
      "objects/semantics/policies/evaluate.ts",
      "../../../kernel/nftables/text/text.ts",
      "formatTable",
      /objects\/ may import only/,
    ],
    ["objects/semantics/policies/party.ts", "node:net", "isIP", /objects only/],
    ["cni/add/add.ts", "../../test/run/result.ts", "summaryLine", /cni\/ may import only/],
    ["cni/add/add.ts", "node:process", "exit", /process\.exitCode/],
  ];
  for (const [file, specifier, name, message] of forbidden) {
    it(`forbids ${name} of ${specifier} in ${file}`, () => {
      const messages = brokenBoundaries(file, specifier, [name]);
      assert.equal(messages.length, 1);
      assert.match(messages[0] ?? "", message);
    });
  }

  const allowed: readonly (readonly [file: string, specifier: string, name: string])[] = [
    ["test/lab/node.ts", "node:child_process", "spawn"],
    ["test/lab/seccomp.ts", "koffi", "default"],
    ["kernel/ip/address.ts", "ipaddr.js", "default"],
    ["kernel/syscall/koffi.ts", "koffi", "default"],
    ["policyd/main.ts", "../kernel/notifications/thread.ts", "startNotificationThread"],
    ["ipam/store.ts", "node:fs", "renameSync"],
    ["ipam/store.ts", "../kernel/file_lock.ts", "withLock"],
    ["cni/add/add.ts", "node:fs", "readFileSync"],
    ["cni/main.ts", "node:process", "exit"],
    ["cni/main.ts", "node:fs", "writeSync"],
    ["cni/add/add.ts", "../../ipam/store.ts", "Store"],
    ["policyd/log.ts", "winston", "default"],
    ["policyd/sources/api/connection/kubeconfig_library.ts", "@kubernetes/client-node", "*"],
    ["objects/semantics/services/hints.ts", "../../model.ts", "Service"],
    ["policyd/services/elements/selection.ts", "../../../objects/model.ts", "Service"],
    ["objects/semantics/policies/party.ts", "../../model.ts", "Pod"],
    ["objects/semantics/policies/party.ts", "../../../kernel/error.ts", "DrawbridgeError"],
  ];
  for (const [file, specifier, name] of allowed) {
    it(`allows ${name} of ${specifier} in ${file}`, () => {
      assert.deepEqual(brokenBoundaries(file, specifier, [name]), []);
    });
  }
});
