import type { Change, SetName } from "../encode/change.ts";
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

/**
 * Returns a batch as `nft -f` reads it: one command per line, of which all or none take effect.
 *
 * @throws DrawbridgeError ERR_NFTABLES_VALUE for an invalid name or comment
 */
export function formatChanges(changes: readonly Change[]): string {
  return changes.map((change) => formatChange(change)).join("");
}

function formatChange(change: Change): string {
  const where = `${change.table.family} ${checkName("table", change.table.name)}`;
  switch (change.kind) {
    case "add table":
      return `add table ${block(where, tableHead(change.table))}\n`;
    case "delete table":
      return `delete table ${where}\n`;
    case "add chain":
      return `add chain ${where} ${block(checkName("chain", change.chain.name), chainHead(change.chain))}\n`;
    case "delete chain":
    case "flush chain":
      return `${change.kind} ${where} ${checkName("chain", change.chain)}\n`;
    case "add rule":
      return `add rule ${where} ${checkName("chain", change.chain)} ${formatRule(change.rule, change.table.family)}\n`;
    case "add set":
      return `add ${kindOf(change.set)} ${where} ${block(checkName("set", change.set.name), setHead(change.set))}\n`;
    case "delete set":
    case "flush set": {
      const verb = change.kind === "delete set" ? "delete" : "flush";
      return `${verb} ${kindOf(change.set)} ${where} ${checkName("set", change.set.name)}\n`;
    }
    case "add elements":
    case "delete elements":
      return formatElements(where, change);
  }
}

function formatElements(where: string, change: Extract<Change, { readonly elements: unknown }>): string {
  if (change.elements.length === 0) return "";
  const code = elementCode(change.set);
  const isAddition = change.kind === "add elements";
  const list = change.elements.map((element) => formatElement(code, isAddition ? element : { key: element.key }));
  const verb = isAddition ? (change.isNew === true ? "create" : "add") : "delete";
  return `${verb} element ${where} ${checkName("set", change.set.name)} { ${list.join(", ")} }\n`;
}

function tableHead({ comment, isOwned }: Omit<Table, "sets" | "chains">): readonly string[] {
  return [
    ...(comment === undefined ? [] : [`comment "${checkComment(comment)}"`]),
    ...(isOwned === true ? ["flags owner,persist"] : isOwned === "until closed" ? ["flags owner"] : []),
  ];
}

function block(name: string, lines: readonly string[]): string {
  return lines.length === 0 ? name : `${name} { ${lines.map((line) => line.replace(/;?$/, ";")).join(" ")} }`;
}

function kindOf(set: SetName): "set" | "map" {
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
    ...(set.comment === undefined ? [] : [`comment "${checkComment(set.comment)}"`]),
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

function formatChain(chain: Chain, family: TableFamily): readonly string[] {
  return [
    `chain ${checkName("chain", chain.name)} {`,
    ...chainHead(chain).map((line) => `\t${line}`),
    ...chain.rules.map((rule) => `\t${formatRule(rule, family)}`),
    "}",
  ];
}

function chainHead(chain: Omit<Chain, "rules">): readonly string[] {
  return [
    ...(chain.comment === undefined ? [] : [`comment "${checkComment(chain.comment)}"`]),
    ...(chain.base === undefined ? [] : [formatBase(chain.base)]),
  ];
}

function formatBase({ type, hook, priority, policy }: BaseChain): string {
  return `type ${type} hook ${hook} priority ${priority}; policy ${policy};`;
}
