import assert from "node:assert/strict";
import { lowerRule } from "../../../kernel/nftables/encode/lowering.ts";
import type { Table } from "../../../kernel/nftables/model/object.ts";
import { sampleOf } from "../../../kernel/nftables/table_check.ts";
import { readConfiguration } from "../../../policyd/configuration/configuration.ts";
import { configuredTables, dropLogTrial } from "../../../policyd/node/tables/tables.ts";

describe("kernel/nftables: a sample of a table", () => {
  const tables = configuredTables(readConfiguration(undefined, { nodeName: { value: "node", where: "test" } }));
  const instructionsOf = ({ family, chains }: Table): readonly string[] => {
    const rules = chains.flatMap((chain) => chain.rules);
    const all = rules.flatMap((rule) => lowerRule(rule, family, () => 1).instructions.map(({ name }) => name));
    return [...new Set(all)].sort();
  };

  it("BAD-03: the rules that the kernel checks at the daemon's start have all instructions, and are few", () => {
    for (const table of tables) assert.deepEqual(instructionsOf(sampleOf(table)), instructionsOf(table), table.name);
    const count = (all: readonly Table[]): number =>
      all.flatMap(({ chains }) => chains.flatMap(({ rules }) => rules)).length;
    assert.ok(count(tables.map(sampleOf)) < count(tables) / 4, `${count(tables.map(sampleOf))} of ${count(tables)}`);
  });

  it("BAD-03: with dropLog the kernel checks a rule that logs, which is in no table before there are policies", () => {
    const used = (dropLog: boolean) =>
      dropLogTrial({ dropLog, dropLogGroup: 107 }).map(sampleOf).flatMap(instructionsOf);
    assert.deepEqual([used(false), used(true), tables.flatMap(instructionsOf).includes("log")], [[], ["log"], false]);
  });
});
