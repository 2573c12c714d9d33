import assert from "node:assert/strict";
import { formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import type { Lab } from "../../lab/lab.ts";
import { Prober } from "../../lab/probe/prober.ts";
import { type GuardedNode, guardedNode } from "../../support/guard/guarded_node.ts";
import { flowsTo, listenEverywhere, reach } from "../../support/guard/reachability.ts";
import { loadVirtualAddresses, PORT, VIRTUAL } from "../../support/guard/virtual_addresses.ts";
import { requireBridgeNetfilter } from "../../support/privilege.ts";
import { suiteLab } from "../../support/suite_lab.ts";

const HOOKS = ["prerouting", "input", "forward", "output", "postrouting"] as const;
const TABLE = "seen";

/** Priorities right after those of the guard's chains, which come first: packets that these drop are not counted. */
const BEHIND_GUARD: Readonly<Record<string, number>> = { prerouting: -299, forward: -199 };

/** Returns a table that counts requests and answers at each hook of a family, by the port that stays untranslated. */
function counting(family: "bridge" | "inet"): string {
  const chains = HOOKS.map(
    (hook) => `chain ${hook} {
      type filter hook ${hook} priority ${BEHIND_GUARD[hook] ?? 0}
      udp dport ${PORT} counter comment "request ${family} ${hook}"
      udp sport ${PORT} counter comment "answer ${family} ${hook}"
    }`,
  );
  return `table ${family} ${TABLE} {\n${chains.join("\n")}\n}\n`;
}

for (const bridgeNetfilter of [true, false]) {
  describe(`the hooks of a packet on one node, br_netfilter ${bridgeNetfilter ? "on" : "off"}`, function () {
    this.timeout(300_000);
    let lab: Lab;
    let on: GuardedNode;
    let prober: Prober;

    before(function () {
      if (bridgeNetfilter) requireBridgeNetfilter(this);
      lab = suiteLab(this, `path-${bridgeNetfilter ? "on" : "off"}`);
      on = guardedNode(lab, bridgeNetfilter, false);
      loadVirtualAddresses(on);
      on.load();
      prober = new Prober(lab);
      listenEverywhere(prober, on);
    });

    after(() => on?.[Symbol.dispose]());

    /** Sends a UDP flow, and returns how many packets each hook saw, by names such as "request bridge prerouting". */
    const countsOf = async (address: Parameters<typeof formatAddress>[0]): Promise<(at: string) => number> => {
      const { node } = on.wired;
      node.exec("nft", ["-f", "-"], counting("bridge") + counting("inet"));
      await reach(prober, flowsTo(on.attacker.namespace, [address], ["udp"]));
      const text = ["bridge", "inet"].map((family) => node.exec("nft", ["list", "table", family, TABLE])).join("");
      for (const family of ["bridge", "inet"]) node.exec("nft", ["delete", "table", family, TABLE]);
      const counts = new Map(
        [...text.matchAll(/packets (\d+) bytes \d+ comment "([^"]+)"/g)].map(([, packets, at]) => [
          at,
          Number(packets),
        ]),
      );
      return (at) => counts.get(at) ?? assert.fail(`no counter ${at}`);
    };

    /** Asserts that each packet passes each IP hook of the node once, whether the bridge or the node forwards it. */
    const assertPath = (count: (at: string) => number, direction: "request" | "answer", isBridged: boolean): void => {
      const sent = count(`${direction} bridge prerouting`);
      assert.ok(sent >= 1, direction);
      const seen = ["inet prerouting", "inet forward", "inet postrouting", "bridge forward", "bridge input"].map(
        (at) => [at, count(`${direction} ${at}`)],
      );
      assert.deepEqual(
        Object.fromEntries(seen),
        {
          "inet prerouting": sent,
          "inet forward": sent,
          "inet postrouting": sent,
          "bridge forward": isBridged ? sent : 0,
          "bridge input": isBridged ? 0 : sent,
        },
        direction,
      );
    };

    for (const family of FAMILIES) {
      it(`DOCS-01: the node routes packets from pod to pod, IPv${family}`, async () => {
        const count = await countsOf(on.victim.addresses[family]);
        assertPath(count, "request", false);
        assertPath(count, "answer", false);
      });

      it(`DOCS-01: packets translated to a pod of the same node are ${bridgeNetfilter ? "bridged" : "routed"}, IPv${family}`, async () => {
        const count = await countsOf(VIRTUAL.other[family]);
        assertPath(count, "request", bridgeNetfilter);
        assertPath(count, "answer", false);
      });

      it(`DOCS-01: packets of a pod translated to itself are ${bridgeNetfilter ? "bridged" : "routed"}, and so are the answers, IPv${family}`, async () => {
        const count = await countsOf(VIRTUAL.self[family]);
        assertPath(count, "request", bridgeNetfilter);
        assertPath(count, "answer", bridgeNetfilter);
      });
    }
  });
}
