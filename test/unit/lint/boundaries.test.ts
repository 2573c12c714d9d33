import assert from "node:assert/strict";
import { brokenBoundaries } from "../../support/lint/boundaries.ts";

describe("lint: import boundaries", () => {
  /** One import for each rule, with words of its message. */
  const forbidden: readonly (readonly [file: string, specifier: string, name: string, message: RegExp])[] = [
    ["policyd/main.ts", "child_process", "*", /netlink/],
    ["cni/add/add.ts", "ipaddr.js", "default", /kernel\/ip\/address\.ts/],
    ["cni/add/add.ts", "node:fs", "writeFileSync", /store in ipam/],
    ["kernel/file_lock.ts", "node:fs", "default", /store in ipam/],
    ["policyd/main.ts", "koffi", "default", /kernel\/syscall\/syscalls\.ts/],
    ["attachment/policyd_messages.ts", "valibot", "object", /starts again for every pod/],
    ["cni/main.ts", "../kernel/syscall/koffi.ts", "nodeSyscalls", /only the daemon waits/],
    ["kernel/notifications/thread.ts", "node:worker_threads", "Worker", /second JavaScript engine/],
    ["cli/input/load.ts", "@kubernetes/client-node", "*", /only in policyd\/sources\/api\/connection\/kubeconfig\.ts/],
    ["kernel/route/link.ts", "../../ipam/store.ts", "Store", /kernel\/ may import nothing/],
    ["cni/add/add.ts", "../../policyd/record.ts", "record", /cni\/ may import only/],
    ["cni/add/add.ts", "../../test/run/result.ts", "summaryLine", /cni\/ may import only/],
    ["policyd/services/a.ts", "../../objects/semantics/services/b.ts", "c", /the evaluator checks/],
    ["objects/semantics/policies/match.ts", "../services/packet.ts", "Packet", /objects only/],
    ["objects/semantics/policies/party.ts", "node:net", "isIP", /objects only/],
    ["cli/policy/lint/a.ts", "../../../kernel/netlink/socket.ts", "b", /only `node` asks the kernel/],
    ["cli/policy/lint/a.ts", "../../../policyd/ruleset/ruleset.ts", "b", /only `rules` prints/],
    ["cli/policy/lint/a.ts", "node:fs", "readFileSync", /read files through `Io`/],
    ["cni/add/add.ts", "node:process", "exit", /process\.exitCode/],
  ];
  for (const [file, specifier, name, message] of forbidden) {
    it(`forbids ${name} of ${specifier} in ${file}`, () => {
      const messages = brokenBoundaries(file, specifier, [name]);
      assert.equal(messages.length, 1);
      assert.match(messages[0] ?? "", message);
    });
  }
});
