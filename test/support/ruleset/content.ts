import { keyText } from "../../../kernel/nftables/encode/element.ts";
import type { SetDefinition, Table } from "../../../kernel/nftables/model/object.ts";
import type { Nftables } from "../../../kernel/nftables/socket.ts";
import { formatTable } from "../../../kernel/nftables/text/text.ts";
import { tableState } from "../nftables/table_state.ts";
import { rulesText } from "../../../policyd/ruleset/observed/known_rules.ts";

/**
 * Returns the kernel's content of a table as one text to compare: its head, its sets with their elements and its chains
 * with their rules, independent of their order.
 *
 * @param provided sets that exist in addition to those of the table
 */
export function contentOf(kernel: Nftables, table: Table, provided: readonly SetDefinition[] = []): string {
  const elements = table.sets.map((set) => [set.name, sorted(kernel, table, set)] as const);
  const state = tableState(kernel, table);
  if (state === undefined) return "missing";
  const further = provided
    .filter(({ name }) => state.sets.has(name))
    .flatMap((set) => sorted(kernel, table, set).map((element) => `${set.name}: ${plainText(element)}`));
  const sets = [...state.sets].map(([name, { id: _id, ...set }]) => `${name}: ${plainText(set)}`);
  const chains = [...state.chains].map(
    ([name, { attributes, rules }]) => `${name}: ${plainText(attributes)}\n${rulesText(rules)}`,
  );
  const head = `${state.comment} ${state.flags & PERSIST}`;
  return [formatTable(table, new Map(elements)), head, ...further, ...sets.sort(), ...chains.sort()].join("\n");
}

/** The only one of a table's flags that does not depend on whether its owner still runs. */
const PERSIST = 4;

function sorted(kernel: Nftables, table: Table, set: SetDefinition): ReturnType<Nftables["elements"]> {
  return kernel.elements(table, set).toSorted((a, b) => (keyText(a.key) < keyText(b.key) ? -1 : 1));
}

function plainText(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) => (typeof part === "bigint" ? String(part) : part));
}
