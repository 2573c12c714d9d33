import type { Chain, Element, Table } from "../../../../kernel/nftables/model/object.ts";
import type { Rule } from "../../../../kernel/nftables/model/statement.ts";
import { SetContent } from "./set_content.ts";

/** Tables and the content of their sets, as the kernel has them after they were loaded. */
export class Ruleset {
  readonly tables: readonly LoadedTable[];

  constructor(
    contents: readonly { readonly table: Table; readonly elements: ReadonlyMap<string, readonly Element[]> }[],
    now: () => number,
  ) {
    this.tables = contents.map(({ table, elements }) => new LoadedTable(table, elements, now));
  }

  /** Returns how often each rule with a counter was reached, by table, chain and the rule's place in it. */
  counters(): ReadonlyMap<string, number> {
    return new Map(this.tables.flatMap((table) => [...table.counted]));
  }
}

/** One table; chains and sets by name. */
export class LoadedTable {
  readonly table: Table;
  readonly chains: ReadonlyMap<string, Chain>;
  /** How often each rule's counter was reached. */
  readonly counted = new Map<string, number>();
  readonly #sets: ReadonlyMap<string, SetContent>;

  constructor(table: Table, elements: ReadonlyMap<string, readonly Element[]>, now: () => number) {
    this.table = table;
    this.chains = new Map(table.chains.map((chain) => [chain.name, chain]));
    this.#sets = new Map(table.sets.map((set) => [set.name, new SetContent(set, elements.get(set.name) ?? [], now)]));
    for (const name of elements.keys()) this.set(name);
  }

  chain(name: string): Chain {
    const chain = this.chains.get(name);
    if (chain === undefined) throw new Error(`table ${this.table.name} has no chain ${name}`);
    return chain;
  }

  set(name: string): SetContent {
    const set = this.#sets.get(name);
    if (set === undefined) throw new Error(`table ${this.table.name} has no set ${name}`);
    return set;
  }

  /** Returns a rule's name: its comment where it has one. */
  ruleName(chain: Chain, rule: Rule): string {
    return `${this.table.family} ${this.table.name} ${chain.name} ${rule.comment ?? chain.rules.indexOf(rule)}`;
  }
}
