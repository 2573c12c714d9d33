import assert from "node:assert/strict";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import type { Table } from "../../../../kernel/nftables/model/object.ts";
import { drop, equals, rule, type Statement } from "../../../../kernel/nftables/model/statement.ts";
import { evaluate } from "../../../../policyd/semantics/services/evaluate.ts";
import { allowedOutcomes, surroundingsOf, walkedOutcome } from "../../../support/evaluate/agreement.ts";
import { readPacket, readScenarios, scenarioWorld } from "../../../support/evaluate/scenario.ts";
import { FlowTable } from "../../../support/nftables/interpreter/flow_table.ts";
import { Ruleset } from "../../../support/nftables/interpreter/ruleset.ts";

/** Handwritten rules for what one Service of a scenario asks for. */
const toEndpoint: Statement = {
  kind: "dnat",
  target: { kind: "address", address: parseAddress("10.244.1.5"), port: 6379 },
};
const table: Table = {
  family: "inet",
  name: "t",
  sets: [],
  chains: (["prerouting", "output"] as const).map((hook) => ({
    name: hook,
    base: { type: "nat" as const, hook, priority: -100, policy: "accept" as const },
    rules: [rule(equals("ip daddr", parseAddress("192.0.2.5")), equals("tcp dport", 6379), toEndpoint)],
  })),
};
const masquerade: Table = {
  family: "inet",
  name: "m",
  sets: [],
  chains: [
    {
      name: "post",
      base: { type: "nat", hook: "postrouting", priority: 100, policy: "accept" },
      rules: [rule(equals("tcp dport", 6379), { kind: "masquerade", isFullyRandom: true })],
    },
    {
      name: "fwd",
      base: { type: "filter", hook: "forward", priority: 0, policy: "accept" },
      rules: [rule(equals("tcp dport", 1), drop)],
    },
  ],
};

describe("the outcomes of the evaluator and of interpreted rules", () => {
  const scenario = readScenarios(new URL("frontends.yaml", import.meta.url)).get("external_ips");
  assert.ok(scenario);
  const world = scenarioWorld(scenario, "IPv4");

  function outcomes(text: string, tables: readonly Table[]): readonly [string, readonly string[]] {
    const [packet] = readPacket(text);
    const surroundings = surroundingsOf(world, "drawbridge0", () => 0);
    const ruleset = new Ruleset(
      tables.map((one) => ({ table: one, elements: new Map() })),
      surroundings.now,
    );
    const walked = walkedOutcome({ ruleset, flows: new FlowTable(), surroundings }, packet, "drawbridge0");
    return [walked, [...allowedOutcomes(evaluate(world, packet))]];
  }

  it("are equal where the rules do what the Service says", () => {
    for (const from of ["outside 10.188.0.4", "pod 10.244.1.9", "node 10.240.0.5"]) {
      const [walked, allowed] = outcomes(`${from} TCP 192.0.2.5:6379`, [table, masquerade]);
      assert.deepEqual([walked], allowed, from);
      assert.equal(walked, "10.244.1.5 6379 masqueraded");
    }
    assert.deepEqual(outcomes("outside 10.188.0.4 TCP 192.0.2.5:6380", [table, masquerade]), ["pass", ["pass"]]);
  });

  it("differ where the rules do something else", () => {
    const text = "outside 10.188.0.4 TCP 192.0.2.5:6379";
    assert.deepEqual(outcomes(text, [table]), ["10.244.1.5 6379", ["10.244.1.5 6379 masqueraded"]]);
    assert.deepEqual(outcomes(text, [])[0], "pass");
    assert.deepEqual(outcomes("outside 10.188.0.4 TCP 203.0.113.9:1", [masquerade]), ["drop", ["pass"]]);
  });
});
