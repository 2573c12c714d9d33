import assert from "node:assert/strict";
import type { PluginMachine } from "../../../../cni/host.ts";
import { DAEMON_MARK } from "../../../../attachment/our_tables.ts";
import {
  CLOSED_TABLES,
  forgetAddresses,
  KNOWN_SETS,
  VERDICT_MAPS,
} from "../../../../cni/node_rules/without_policyd.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { decodeMessages } from "../../../../kernel/netlink/message.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";
import { withVersion } from "../../../../policyd/ruleset/schema.ts";
import { nodeTables } from "../../../../policyd/node/tables/tables.ts";
import { DEFAULT_POLICY_OPTIONS } from "../../../../policyd/policies/compile/options.ts";
import { policyTable } from "../../../../policyd/policies/compile/policy_table.ts";
import { fakeNode } from "../../../support/cni/fake_node.ts";
import { NODE_CONFIGURATION } from "../../../support/guard/guarded_node.ts";
import { kernelAnswer } from "../../kernel/scripted_syscalls.ts";

/** The numbers of the hooks, which are the same for inet and bridge (linux/netfilter.h, linux/netfilter_bridge.h). */
const HOOKS = { prerouting: 0, input: 1, forward: 2, output: 3, postrouting: 4 } as const;

/** Returns a node whose kernel answers every netlink request with an error. */
function refusing(errno: number): PluginMachine {
  const answers: Uint8Array[] = [];
  const node = fakeNode("/nowhere");
  const syscalls: PluginMachine["syscalls"] = {
    ...node.syscalls,
    socket: () => 100_000,
    setsockopt: () => 0,
    close: () => 0,
    send: (_fd, data) => {
      answers.push(...decodeMessages(data).map(({ sequence }) => kernelAnswer(sequence, errno)));
      return data.length;
    },
    receiveFrom: (_fd, buffer, _flags, sender) => {
      const next = answers.shift() ?? assert.fail("nothing was asked");
      buffer.set(next);
      sender.fill(0);
      return next.length;
    },
  };
  return { ...node, syscalls };
}

describe("cni/without_policyd", () => {
  const tables = [...nodeTables(NODE_CONFIGURATION), policyTable(DEFAULT_POLICY_OPTIONS)].map((table) =>
    withVersion({ ...table }),
  );

  it("REG-06: the expected tables, marks and base chains are exactly those that the daemon loads", () => {
    for (const { family, name, chains, bridgeChain } of CLOSED_TABLES) {
      const loaded = tables.find((table) => table.family === family && table.name === name);
      assert.ok(loaded !== undefined, name);
      assert.ok(loaded.comment?.startsWith(DAEMON_MARK));
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

  it("POD-20: a kernel without conntrack has nothing to forget, and any other refusal is an error", () => {
    const addresses = ["10.244.1.2", "fd00:244:1::2"].map((text) => parseAddress(text));
    for (const errno of [Errno.EINVAL, Errno.EOPNOTSUPP]) forgetAddresses(refusing(errno), addresses);
    assert.throws(() => forgetAddresses(refusing(Errno.EPERM), addresses), /EPERM/);
  });

  it("REG-06: the sets of known addresses and the maps of their verdicts are the daemon's", () => {
    const policies = tables.find(({ name }) => name === "drawbridge-policy");
    for (const { name, key, data } of [...KNOWN_SETS, ...VERDICT_MAPS]) {
      const found = policies?.sets.find((set) => set.name === name);
      assert.deepEqual([found?.key, found?.data], [key, data], name);
    }
    const maps = policies?.sets.filter(({ data }) => data === "verdict").map(({ name }) => name);
    assert.deepEqual(new Set(VERDICT_MAPS.map(({ name }) => name)), new Set(maps), "all verdict maps are checked");
  });
});
