import { formatAddress } from "../../../kernel/ip/address.ts";
import { printable, shortList } from "../../../objects/printable.ts";
import { formatTable } from "../../output/table.ts";
import { timeText } from "../../output/text.ts";
import type { Style } from "../../io.ts";
import type { PolicyStatus, RuleCount } from "./status.ts";

const MOST_NAMES = 3;
const NAMES_HEAD = ["policy", "domain name", "address", "known by", "node", "for"];

/** Returns the policies as a table, followed by the reasons why some are not in force as written. */
export function statusTable(all: readonly PolicyStatus[], style: Style, columns: number): string {
  const head = ["policy", "generation", "in force on", "since", "selects", "packets", "unused rules"];
  const rows = all.map((status) => [
    printable(nameOf(status)),
    `${status.generation}`,
    forceText(status, style),
    status.since === undefined ? "" : timeText(status.since),
    podsText(status),
    `${status.rules.reduce((sum, { packets = 0 }) => sum + packets, 0)}`,
    unusedText(status.rules),
  ]);
  const notes = all.flatMap((status) => status.problems.map((problem) => `${nameOf(status)}: ${problem}`));
  const known = all.flatMap((status) => [
    ...status.names.map(({ name, address, pod = "", node, seconds }) =>
      [nameOf(status), name, formatAddress(address), pod, node, `${seconds} s`].map(printable),
    ),
    ...status.unknownNames.map((name) => [nameOf(status), name, "none", "", "", ""].map(printable)),
  ]);
  const names = known.length === 0 ? "" : `\n${formatTable(NAMES_HEAD, known, columns)}`;
  return [formatTable(head, rows, columns), names, ...notes.map((note) => `\n${printable(note)}\n`)].join("");
}

/** Returns the object that docs/cli.md describes. */
export function statusObject(all: readonly PolicyStatus[]): object {
  return {
    policies: all.map(({ since, missing, names, rules, ...rest }) => ({
      ...rest,
      rules: rules.map(({ packets, ...rule }) => ({ ...rule, packets: packets ?? null })),
      names: names.map((one) => ({ ...one, address: formatAddress(one.address) })),
      since: since === undefined ? null : new Date(since).toISOString(),
      missing: missing.map(({ node, inForce }) => ({ node, inForce: inForce ?? null })),
    })),
  };
}

/** Returns a sentence about the nodes on which a policy is not in force. */
export function missingText(status: PolicyStatus): string {
  const nodes = shortList(status.missing, MOST_NAMES, ({ node, inForce }) =>
    inForce === undefined ? node : `${node} (generation ${inForce})`,
  );
  return `${nameOf(status)}: generation ${status.generation} is not in force on ${nodes}`;
}

function nameOf({ kind, key }: PolicyStatus): string {
  return kind === "NetworkPolicy" ? key : `${kind} ${key}`;
}

function forceText({ nodes, missing, isShadow }: PolicyStatus, style: Style): string {
  const there = nodes - missing.length;
  const text = `${there} of ${nodes} nodes${isShadow ? ", in shadow" : ""}`;
  if (missing.length === 0) return style.good(text);
  return style.bad(`${text}, not ${printable(shortList(missing, MOST_NAMES, ({ node }) => node))}`);
}

function podsText({ selects: { pods, names } }: PolicyStatus): string {
  return pods === 0 ? "no pod" : `${pods} pods: ${printable(shortList(names, MOST_NAMES))}`;
}

function unusedText(rules: readonly RuleCount[]): string {
  const unused = rules.filter(({ packets }) => packets === 0);
  const unknown = rules.filter(({ packets }) => packets === undefined).length;
  const names = unused.map(({ direction, rule }) => `${direction}[${rule}]`).join(" ");
  return [names, unknown === 0 ? "" : `${unknown} not known`].filter(Boolean).join("; ");
}
