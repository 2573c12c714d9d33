import assert from "node:assert/strict";
import type { ReceivedMessage, Request } from "../../../kernel/netlink/message.ts";
import { forwardDrops } from "../../../kernel/nftables/decode/forward_drops.ts";
import { requestsOf, TableFlag, tableChanges } from "../../../kernel/nftables/encode/change.ts";
import { Message, nftablesRequest, tableLayout } from "../../../kernel/nftables/encode/message.ts";
import type { Chain } from "../../../kernel/nftables/model/object.ts";
import { accept, drop, jumpTo, type Rule, rule } from "../../../kernel/nftables/model/statement.ts";

const WIDTH = 3;
const DEPTH = 60;

/** Returns the chains of other programs that drop, where the kernel has one table of one. */
function found(last: Rule, flags = 0) {
  const jumps = (depth: number) => Array.from({ length: WIDTH }, (_, i) => rule(jumpTo(`chain${depth}_${i}`)));
  const chains = Array.from({ length: DEPTH }, (_, depth) =>
    jumps(depth).map((__, i): Chain => ({
      name: `chain${depth}_${i}`,
      rules: depth === DEPTH - 1 ? [last] : jumps(depth + 1),
    })),
  ).flat();
  const base = { type: "filter", hook: "forward", priority: 0, policy: "drop" } as const;
  const table = { family: "inet", name: "fw", chains: [...chains, { name: "out", base, rules: jumps(0) }] } as const;
  const written = requestsOf(tableChanges({ ...table, sets: [] }, new Map()));
  const kind = { message: Message.NEW_TABLE, family: "inet", layout: tableLayout } as const;
  const all = [
    nftablesRequest("add table", kind, { name: "fw", flags }),
    ...written.filter(({ operation }) => !operation.startsWith("add table")),
  ];
  const answer = ({ operation, body }: Request): readonly ReceivedMessage[] => {
    const what = operation.replace(/^list (\w+)s$/, "add $1");
    return all
      .filter((one) => one.operation.startsWith(what) && one.body[0] === body[0])
      .map((one) => ({ type: one.type, flags: 0, sequence: 0, body: one.body }));
  };
  return forwardDrops({ dump: answer, request: answer }, { bridge: "cni0", uplinks: ["eth0"] }, () => false);
}

describe("kernel/nftables: the forward chains that drop all that pods send", () => {
  it("STATE-09: each chain of a firewall is looked at once, however many jumps lead to it", () => {
    assert.deepEqual(found(rule(drop)), [{ family: "inet", table: "fw", chain: "out" }]);
    assert.deepEqual(found(rule(accept)), []);
  });

  it("STATE-09: a dormant table with the policy drop is not reported", () => {
    assert.deepEqual(found(rule(drop), TableFlag.DORMANT), []);
  });
});
