import assert from "node:assert/strict";
import { CLOSED_TABLES, DAEMON_TABLE_MARK, KNOWN_SETS } from "../../../cni/without_policyd.ts";
import { withVersion } from "../../../policyd/dataplane/schema.ts";
import { nodeTables } from "../../../policyd/node/tables.ts";
import { DEFAULT_POLICY_OPTIONS } from "../../../policyd/policy/compile/options.ts";
import { policyTable } from "../../../policyd/policy/compile/policy_table.ts";
import { NODE_CONFIGURATION } from "../../support/guard/guarded_node.ts";

/** The numbers of the hooks, the same for inet and bridge (linux/netfilter.h, linux/netfilter_bridge.h). */
const HOOKS = { prerouting: 0, input: 1, forward: 2, output: 3, postrouting: 4 } as const;

describe("cni/without_policyd", () => {
  const tables = [...nodeTables(NODE_CONFIGURATION), policyTable(DEFAULT_POLICY_OPTIONS)].map((table) =>
    withVersion({ ...table }),
  );

  it("REG-06: asks for the very tables that the daemon loads, for their marks and all their base chains", () => {
    for (const { family, name, chains, bridgeChain } of CLOSED_TABLES) {
      const loaded = tables.find((table) => table.family === family && table.name === name);
      assert.ok(loaded !== undefined, name);
      assert.ok(loaded.comment?.startsWith(DAEMON_TABLE_MARK));
      const based = loaded.chains.flatMap(({ name: chain, base }) =>
        base === undefined ? [] : [[chain, HOOKS[base.hook]] as const],
      );
      assert.deepEqual(new Map(based), new Map(chains));
      for (const [chain] of chains) {
        assert.ok((loaded.chains.find((found) => found.name === chain)?.rules.length ?? 0) > 0, `${chain} has rules`);
      }
      if (bridgeChain !== undefined) assert.ok(chains.some(([chain]) => chain === bridgeChain));
    }
  });

  it("REG-06: the sets of known addresses are the daemon's", () => {
    const policies = tables.find(({ name }) => name === "drawbridge-policy");
    for (const { name, key } of KNOWN_SETS) {
      assert.deepEqual(policies?.sets.find((set) => set.name === name)?.key, key, name);
    }
  });
});
