import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { bridgeTable, ipTable } from "../../../cni/node_rules/node_tables.ts";
import type { Chain, Table, TableReference } from "../../../kernel/nftables/model/object.ts";
import type { NodeConfiguration } from "../../../policyd/node/tables/configuration.ts";
import { hostPortHooks } from "../../../policyd/node/tables/host_ports.ts";
import { podMasqueradeHooks } from "../../../policyd/node/masquerade/share_rules.ts";
import { INET_TABLE } from "../../../policyd/ruleset/table_part.ts";
import { nodeTables } from "../../../policyd/node/tables/tables.ts";
import { DEFAULT_POLICY_OPTIONS } from "../../../policyd/policies/compile/options.ts";
import { answerHooks } from "../../../policyd/policies/compile/name_rules.ts";
import { brakingHooks, crowdingHooks, POLICY_TABLE } from "../../../policyd/policies/compile/policy_table.ts";
import { closingBridgeTable, closingTable } from "../../../policyd/policies/closing/closing_tables.ts";
import { openingTable } from "../../../policyd/policies/cuts/startup_rules.ts";
import { earlyTable } from "../../../policyd/protection/early_table.ts";
import { keptChains } from "../../../policyd/protection/nat_exemption.ts";
import { sourceHooks } from "../../../policyd/services/rules/check_part.ts";
import { cellsBelow } from "../../support/markdown.ts";
import { SERVICE_RULES } from "../../support/services/scenario.ts";

const COLUMNS = ["hook", "priority", "table", "chain", "type", "only with", "what it decides"];
const BRIDGE = "drawbridge0";

const EVERYTHING: NodeConfiguration = {
  bridge: BRIDGE,
  markBits: { masquerade: 0x1000_0000, bridged: 0x2000_0000 },
  tableOwner: false,
  masquerade: true,
  encapsulation: "auto",
  services: SERVICE_RULES,
  policyOptions: { ...DEFAULT_POLICY_OPTIONS, policyReset: true },
};

/** Configurations that lack one feature each, by its name in the document. */
const WITHOUT: ReadonlyMap<string, NodeConfiguration> = new Map([
  ["services", { ...EVERYTHING, services: undefined }],
  ["policies", { ...EVERYTHING, policyOptions: undefined }],
  ["policyReset", { ...EVERYTHING, policyOptions: DEFAULT_POLICY_OPTIONS }],
  ["masquerade", { ...EVERYTHING, masquerade: false }],
  ["encapsulation", { ...EVERYTHING, encapsulation: "never" }],
]);

/** Chains that exist while something uses them, by the document's name for the use. */
const HOOKS_IN_USE: ReadonlyMap<string, { readonly table: TableReference; readonly chains: readonly Chain[] }> =
  new Map([
    ["host ports", { table: INET_TABLE, chains: hostPortHooks }],
    ["ipMasq", { table: INET_TABLE, chains: podMasqueradeHooks }],
    ["protected sockets", { table: INET_TABLE, chains: keptChains }],
    ["source ranges", { table: INET_TABLE, chains: sourceHooks }],
    ["crowded", { table: POLICY_TABLE, chains: crowdingHooks }],
    ["nearly full", { table: POLICY_TABLE, chains: brakingHooks }],
    ["domain names", { table: POLICY_TABLE, chains: answerHooks(DEFAULT_POLICY_OPTIONS) }],
  ]);

/** Hooks in the order in which a packet passes them. */
const HOOKS = [
  "bridge prerouting",
  "inet prerouting",
  "bridge forward",
  "inet input",
  "inet forward",
  "inet output",
  "inet postrouting",
];

/** Hooks and priorities of kube-proxy in nftables mode from 1.36 on (pkg/proxy/nftables/proxier.go), sorted. */
const KUBE_PROXY = [
  "forward 0",
  "input 0",
  "output -100",
  "output -110",
  "output 0",
  "postrouting 100",
  "prerouting -100",
  "prerouting -110",
];

interface HookedChain {
  readonly hook: string;
  readonly priority: number;
  readonly table: string;
  readonly chain: string;
  readonly type: string;
}

function hookedChains(tables: readonly Table[]): readonly HookedChain[] {
  return tables.flatMap(({ family, name, chains }) =>
    chains.flatMap(({ name: chain, base }) => {
      if (base === undefined) return [];
      const { hook, priority, type } = base;
      return [{ hook: `${family} ${hook}`, priority, table: `${family} ${name}`, chain, type }];
    }),
  );
}

/** Returns the condition of a daemon's chain as the document writes it. */
function conditionOf({ table, chain }: HookedChain): string {
  const isIn = (configuration: NodeConfiguration): boolean =>
    hookedChains(nodeTables(configuration)).some((other) => other.table === table && other.chain === chain);
  return [...WITHOUT].flatMap(([field, configuration]) => (isIn(configuration) ? [] : [field])).join(", ");
}

/** Returns the rows that the document should have, without their last cell. */
function expectedRows(): readonly (readonly string[])[] {
  const all = [
    ...hookedChains(nodeTables(EVERYTHING)).map((chain) => ({ ...chain, condition: conditionOf(chain) })),
    ...[...HOOKS_IN_USE].flatMap(([condition, { table, chains }]) =>
      hookedChains([{ ...table, sets: [], chains }]).map((chain) => ({ ...chain, condition })),
    ),
    ...hookedChains([ipTable, bridgeTable]).map((chain) => ({ ...chain, condition: "no daemon" })),
    ...hookedChains([earlyTable]).map((chain) => ({ ...chain, condition: "before the first list" })),
    ...hookedChains([openingTable(BRIDGE)]).map((chain) => ({ ...chain, condition: "first policies" })),
    ...hookedChains([closingTable(BRIDGE), closingBridgeTable()]).map((chain) => ({
      ...chain,
      condition: "lost tables",
    })),
  ];
  for (const { hook } of all) assert.ok(HOOKS.includes(hook), hook);
  const place = ({ hook }: HookedChain): number => HOOKS.indexOf(hook);
  const name = ({ table, chain }: HookedChain): string => `${table} ${chain}`;
  return all
    .toSorted((a, b) => place(a) - place(b) || a.priority - b.priority || (name(a) < name(b) ? -1 : 1))
    .map(({ hook, priority, table, chain, type, condition }) => [
      hook.slice(hook.indexOf(" ") + 1),
      String(priority),
      `\`${table}\``,
      `\`${chain}\``,
      type === "filter" ? "" : type,
      condition,
    ]);
}

describe("docs/packet_path.md", () => {
  const text = readFileSync("docs/packet_path.md", "utf8");

  it("DOCS-01: has every hook of our tables, its priority and its purpose, in the packet's order", () => {
    const expected = expectedRows();
    assert.ok(expected.length > 30, String(expected.length));
    const rows = cellsBelow(text, COLUMNS);
    assert.deepEqual(
      rows.map((cells) => cells.slice(0, -1)),
      expected,
    );
    for (const cells of rows) assert.match(cells.at(-1) ?? "", /^[A-Z].{5,}\.$/);
  });

  it("DOCS-01: has the hooks and priorities of kube-proxy's rules", () => {
    const reported = cellsBelow(text, ["program", "hook", "priority", "what, and what follows for ours"])
      .filter(([program]) => program === "kube-proxy, nftables")
      .flatMap(([, hooks = "", priority]) => hooks.split(", ").map((hook) => `${hook} ${priority}`));
    assert.deepEqual(reported.toSorted(), KUBE_PROXY);
  });

  it("DOCS-01: names the bits of the mark that are ours by default", () => {
    const { masquerade, bridged } = EVERYTHING.markBits;
    for (const bit of [masquerade, bridged]) assert.ok(text.includes(`\`0x${bit.toString(16)}\``));
  });
});
