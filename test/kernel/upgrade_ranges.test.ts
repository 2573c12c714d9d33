import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import type { Chain, Element, SetDefinition, Table } from "../../kernel/nftables/model/object.ts";
import { counter, drop, equals, goTo, inSet, type Rule, rule } from "../../kernel/nftables/model/statement.ts";
import { realClock } from "../../policyd/lib/clock.ts";
import { Ruleset } from "../../policyd/ruleset/ruleset.ts";
import { withVersion } from "../../policyd/ruleset/schema.ts";
import { recordingLogger } from "../support/recording_logger.ts";
import { createLab, type Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { Streams } from "../lab/stream.ts";
import { requireKernel } from "../support/privilege.ts";
import { until } from "../support/until.ts";

const UPGRADES = 24;
/** Further chains. In a larger transaction rules are in force for longer before their sets of ranges are filled. */
const OTHERS = 1000;
const BYTES_PER_SECOND = 20_000_000;
const PROVIDED: SetDefinition = { name: "provided", key: ["ipv4_addr"], isInterval: true };
const IN_SCHEMA: SetDefinition = { ...PROVIDED, name: "in_schema" };
/** The chain that a policy provides if the schema has no set. */
const JUDGE: Chain = { name: "judge", rules: [rule(inSet("ip daddr", PROVIDED.name), drop)] };
const PODS: SetDefinition = { name: "pods", key: ["ipv4_addr"], data: "verdict" };
const where = { family: "inet", name: "policies" } as const;

/** A table that counts what the policies let pass. It is separate, since counters may be replaced with their table. */
const COUNTS = `table ip counts {
  counter passed {}
  counter sent {}
  chain before { type filter hook output priority -10; udp dport 5000 counter name sent; }
  chain behind { type filter hook output priority 10; udp dport 5000 counter name passed; }
}
`;

/**
 * Returns the table of a version. Every second version denies by a set of its schema, and the others by one that comes
 * with a policy's chain.
 */
function policies(isOdd: boolean): Table {
  const others = Array.from({ length: OTHERS }, (_, number): Chain => ({
    name: `other${number}`,
    rules: [rule(equals("ip daddr", 0x0a000001), counter, drop)],
  }));
  const asks: Rule = isOdd ? rule(goTo("denials")) : rule({ kind: "vmap", key: "ip daddr", map: PODS.name });
  return withVersion({
    ...where,
    sets: isOdd ? [IN_SCHEMA] : [PODS],
    chains: [
      {
        name: "output",
        base: { type: "filter", hook: "output", priority: 0, policy: "accept" },
        rules: [asks],
      },
      ...(isOdd ? [{ name: "denials", rules: [rule(inSet("ip daddr", IN_SCHEMA.name), drop)] }] : []),
      ...others,
    ],
  });
}

describe("policies' ranges while policyd is upgraded", function () {
  this.timeout(90_000);
  let lab: Lab;
  let namespace: LabNamespace;
  let streams: Streams;

  before(function () {
    requireKernel(this);
    lab = createLab("upgrade-ranges");
    namespace = lab.namespace("one");
    streams = new Streams();
  });
  after(async () => {
    await streams?.close();
    lab?.destroy();
  });

  const packets = (name: string): number =>
    Number(/packets (\d+)/.exec(namespace.exec("nft", ["list", "counter", "ip", "counts", name]))?.[1]);

  /** Starts a daemon with another version of the schema, which takes over and ends. */
  async function takeOver(isOdd: boolean): Promise<void> {
    const kernel = namespace.inside(() => new NftablesSocket(namespace.calls));
    const tables = [policies(isOdd)];
    const timing = { minSyncPeriod: 0, syncPeriod: 3_600_000 };
    const ruleset = new Ruleset({ kernel, clock: realClock, logger: recordingLogger(), tables, ...timing });
    const range = { key: [{ first: 0x7f000000, last: 0x7fffffff }] };
    if (isOdd) ruleset.claim("policy", [{ table: where, set: IN_SCHEMA.name, element: range }]);
    else {
      const toJudge: Element = { key: [0x7f000001], data: { kind: "goto", chain: JUDGE.name } };
      ruleset.provide("policy", { table: where, sets: [PROVIDED], chains: [JUDGE] });
      ruleset.claim("policy", [
        { table: where, set: PROVIDED.name, element: range },
        { table: where, set: PODS.name, element: toJudge },
      ]);
    }
    ruleset.start();
    for (let left = 2000; !ruleset.isReconciled; left--) {
      assert.ok(left > 0 && ruleset.status().lastError === undefined, ruleset.status().lastError ?? "in force");
      await pause(5);
    }
    ruleset.stop();
    kernel.close();
    const listing = namespace.exec("nft", ["list", "chain", "inet", "policies", "output"]);
    assert.match(listing, isOdd ? /goto denials/ : /vmap @pods/);
  }

  it(`DP-07 DP-12: a flood that a range denies does not pass in ${UPGRADES} upgrades and downgrades`, async () => {
    await streams.serve(namespace);
    await takeOver(false);
    namespace.exec("nft", ["-f", "-"], COUNTS);
    const stop = streams.send(namespace, "udp", "127.0.0.1", BYTES_PER_SECOND);
    await until(() => packets("sent") !== 0, "the flood begins");
    for (let number = 1; number <= UPGRADES; number++) await takeOver(number % 2 === 1);
    await stop();
    console.log(`      ${packets("sent")} packets sent, ${packets("passed")} passed`);
    assert.equal(packets("passed"), 0);
  });
});
