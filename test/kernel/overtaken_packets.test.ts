import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import type { Table } from "../../kernel/nftables/model/object.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import { counter, drop, equals, inSet, type Rule, rule } from "../../kernel/nftables/model/statement.ts";
import { realClock } from "../../policyd/lib/clock.ts";
import type { Ruleset } from "../../policyd/ruleset/ruleset.ts";
import { withVersion } from "../../policyd/ruleset/schema.ts";
import { rulesetOver } from "../support/ruleset/bench.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { Streams } from "../lab/stream.ts";
import { suiteLab } from "../support/suite_lab.ts";
import { until } from "../support/until.ts";

const CHANGES = 150;
const UPGRADES = 40;
/**
 * The number of rules that a packet passes between the base chain and the map: enough that a commit overtakes it there.
 */
const SLOW = 1000;
const BYTES_PER_SECOND = 20_000_000;
const FLOOD = 0x7f000001;
const where = { family: "inet", name: "policies" } as const;
const slowly: readonly Rule[] = Array.from({ length: SLOW }, () => rule(equals("ip daddr", 0x0a000001), counter, drop));

/** A table that counts what passes. It is separate, since counters may be replaced with their table. */
const COUNTS = `table ip counts {
  counter passed {}
  counter sent {}
  chain before { type filter hook output priority -10; udp dport 5000 counter name sent; }
  chain behind { type filter hook output priority 10; udp dport 5000 counter name passed; }
}
`;

/** Returns a table in which a map with the given name decides about every packet. */
function policies(map: string): Table {
  return withVersion({
    ...where,
    sets: [{ name: map, key: ["ipv4_addr"], data: "verdict" }],
    chains: [
      {
        name: "output",
        base: { type: "filter", hook: "output", priority: 0, policy: "accept" },
        rules: [...slowly, rule({ kind: "vmap", key: "ip daddr", map })],
      },
    ],
  });
}

/** Provides a chain that drops what is in its set, with new names for the chain and the set. */
function judge(ruleset: Ruleset, map: string, number: number): void {
  const set = { name: `members${number}`, key: ["ipv4_addr"] } as const;
  const chain = { name: `judge${number}`, rules: [rule(inSet("ip daddr", set.name), drop)] };
  ruleset.provide(`judge ${number}`, { table: where, sets: [set], chains: [chain] });
  ruleset.claim(`judge ${number}`, [{ table: where, set: set.name, element: { key: [FLOOD] } }]);
  const verdict = { key: [FLOOD], data: { kind: "goto", chain: chain.name } } as const;
  ruleset.claim("pod", [{ table: where, set: map, element: verdict }]);
}

function forget(ruleset: Ruleset, number: number): void {
  ruleset.claim(`judge ${number}`, []);
  ruleset.provide(`judge ${number}`, { table: where, sets: [], chains: [] });
}

describe("packets that a commit overtakes", function () {
  this.timeout(90_000);
  let lab: Lab;
  let namespace: LabNamespace;
  let streams: Streams;
  let kernel: NftablesSocket;

  before(async function () {
    lab = suiteLab(this, "overtaken");
    namespace = lab.namespace("one");
    streams = new Streams();
    kernel = namespace.inside(() => new NftablesSocket(namespace.calls));
    await streams.serve(namespace);
  });
  after(async () => {
    await streams?.close();
    kernel?.close();
  });

  const packets = (name: string): number =>
    Number(/packets (\d+)/.exec(namespace.exec("nft", ["list", "counter", "ip", "counts", name]))?.[1]);

  function begin(map: string, number: number): Ruleset {
    const ruleset = rulesetOver(kernel, [policies(map)], { clock: realClock });
    judge(ruleset, map, number);
    ruleset.start();
    return ruleset;
  }

  async function isInForce(ruleset: Ruleset): Promise<void> {
    assert.equal(await ruleset.inForce(), true, ruleset.status().lastError);
    await pause(2);
  }

  /** Makes changes during a flood, each to rules that deny it. @returns the packets that passed */
  async function underFlood(change: () => Promise<void>): Promise<number> {
    namespace.exec("nft", ["-f", "-"], COUNTS);
    const stop = streams.send(namespace, "udp", "127.0.0.1", BYTES_PER_SECOND);
    await until(() => packets("sent") !== 0, "the flood begins");
    await change();
    await stop();
    const passed = packets("passed");
    console.log(`      ${packets("sent")} packets sent, ${passed} passed`);
    namespace.exec("nft", ["delete", "table", "ip", "counts"]);
    return passed;
  }

  it(`DP-12: in ${CHANGES} changes of its verdict's chain, each to a chain that also denies it, no packet of a flood passes`, async () => {
    const ruleset = begin("pods", 0);
    await isInForce(ruleset);
    const passed = await underFlood(async () => {
      for (let number = 1; number <= CHANGES; number++) {
        judge(ruleset, "pods", number);
        forget(ruleset, number - 1);
        await isInForce(ruleset);
      }
    });
    ruleset.stop();
    assert.equal(passed, 0);
  });

  it("DP-07 DP-12: no packet of a flood passes in upgrades whose rules use another map", async () => {
    const first = begin("pods", 0);
    await isInForce(first);
    first.stop();
    const passed = await underFlood(async () => {
      for (let number = 1; number <= UPGRADES; number++) {
        const ruleset = begin(number % 2 === 1 ? "addresses" : "pods", 0);
        await isInForce(ruleset);
        ruleset.stop();
      }
    });
    assert.equal(passed, 0);
  });
});
