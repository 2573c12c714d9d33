import { elementCode } from "../encode/element.ts";
import { formatNftDuration, formatElement } from "./element_text.ts";
import { checkComment, checkName } from "../model/identifier.ts";
import type { BaseChain, Chain, Element, KeyPart, SetDefinition, Table, TableFamily } from "../model/object.ts";
import { formatRule } from "./rule_text.ts";
import { setSize } from "../encode/set_request.ts";
import { exemplarOf, needsTypeof } from "../encode/userdata.ts";

/** The elements of a table's sets, by the set's name. */
export type Elements = ReadonlyMap<string, readonly Element[]>;

/**
 * Returns a table as `nft -f` reads it and, except for line breaks, as `nft -y list table` prints it.
 *
 * The flags of an owned table are only informative: nft knows `persist` only since 1.1, and would own the table itself.
 *
 * @throws DrawbridgeError ERR_NFTABLES_VALUE for an invalid name or comment
 */
export function formatTable(table: Table, elements: Elements): string {
  const lines = [
    ...tableHead(table),
    ...table.sets.flatMap((set) => [...formatSet(set, elements.get(set.name) ?? []), ""]),
    ...table.chains.flatMap((chain) => [...formatChain(chain, table.family), ""]),
  ];
  if (lines.at(-1) === "") lines.pop();
  const body = lines.map((line) => (line === "" ? "\n" : `\t${line}\n`)).join("");
  return `table ${table.family} ${checkName("table", table.name)} {\n${body}}\n`;
}

function tableHead({ comment, isOwned }: Omit<Table, "sets" | "chains">): readonly string[] {
  return [
    ...(comment === undefined ? [] : [`comment "${checkComment(comment)}"`]),
    ...(isOwned === true ? ["flags owner,persist"] : isOwned === "until closed" ? ["flags owner"] : []),
  ];
}

function kindOf(set: SetDefinition): "set" | "map" {
  return set.data === undefined ? "set" : "map";
}

function formatSet(set: SetDefinition, elements: readonly Element[]): readonly string[] {
  const code = elementCode(set);
  const list = elements.map((element) => `\t\t${formatElement(code, element)},`);
  return [
    `${kindOf(set)} ${checkName("set", set.name)} {`,
    ...setHead(set).map((line) => `\t${line}`),
    ...(list.length === 0 ? [] : ["\telements = {", ...list, "\t}"]),
    "}",
  ];
}

function setHead(set: SetDefinition): readonly string[] {
  const size = setSize(set);
  const flags = [
    ...(set.isDynamic === true ? ["dynamic"] : []),
    ...(set.isInterval === true ? ["interval"] : []),
    ...(set.timeout === undefined ? [] : ["timeout"]),
  ];
  // A default timeout implies that there are timeouts; nft leaves the flag out where it would be the only one.
  const isImplied = typeof set.timeout === "number" && flags.length === 1;
  return [
    formatSetType(set),
    ...(size === undefined ? [] : [`size ${size}`]),
    ...(flags.length === 0 || isImplied ? [] : [`flags ${flags.join(",")}`]),
    ...(set.hasCounters === true ? ["counter"] : []),
    ...(typeof set.timeout === "number" ? [`timeout ${formatNftDuration(set.timeout)}`] : []),
    ...(set.collectionInterval === undefined ? [] : [`gc-interval ${formatNftDuration(set.collectionInterval)}`]),
  ];
}

function formatSetType(set: SetDefinition): string {
  const isTypeof = needsTypeof(set.key);
  const names = (parts: readonly KeyPart[]): string =>
    parts
      .map((part) => {
        if (typeof part !== "string") return `numgen random mod ${part.modulus}`;
        return isTypeof ? exemplarOf(part) : part;
      })
      .join(" . ");
  const data = set.data === undefined ? "" : ` : ${set.data === "verdict" ? "verdict" : names(set.data)}`;
  return `${isTypeof ? "typeof" : "type"} ${names(set.key)}${data}`;
}

function formatChain({ name, base, rules }: Chain, family: TableFamily): readonly string[] {
  return [
    `chain ${checkName("chain", name)} {`,
    ...(base === undefined ? [] : [`\t${formatBase(base)}`]),
    ...rules.map((rule) => `\t${formatRule(rule, family)}`),
    "}",
  ];
}

function formatBase({ type, hook, priority, policy }: BaseChain): string {
  return `type ${type} hook ${hook} priority ${priority}; policy ${policy};`;
}
