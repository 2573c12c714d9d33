import { counted, trafficText } from "../../output/text.ts";
import { stringify } from "yaml";
import { type Address, formatAddress } from "../../../kernel/ip/address.ts";
import { printable, shortList } from "../../../objects/printable.ts";
import { isPlaceholder } from "../../cluster/placeholder_addresses.ts";
import { foldLine } from "../../output/fold.ts";
import { formatTable } from "../../output/table.ts";
import type { Style } from "../../io.ts";
import type { Connection } from "./connection.ts";
import type { Cut } from "./forecast.ts";
import type { LiveReport, ReportedCut } from "./report.ts";

/** The most examples of connections in a cut. */
const MOST_EXAMPLES = 3;

/** The most pairs that are named as opened; further ones are counted. */
const MOST_OPENINGS = 10;

/** Yields the report for people. */
export function* liveText(
  { judged, others, deniedBefore, cuts, openings }: LiveReport,
  style: Style,
  columns: number,
): Generator<string> {
  const count = cuts.reduce((sum, { cut }) => sum + cut.connections.length, 0);
  const left = others === 0 ? "" : `; ${others} of other protocols are not judged`;
  const denied = deniedBefore === 0 ? "" : `; ${deniedBefore} ${deniedBefore === 1 ? "is" : "are"} denied already`;
  const answer = count === 0 ? style.good("none would be cut") : style.bad(`${count} would be cut`);
  yield foldLine(`of ${counted(judged, "connection")} ${answer}${denied}${left}`, columns, 0, 2);
  const opened = openings.map((one) => `${one.source} to ${one.destination} ${trafficText(one)}`);
  if (opened.length > 0) {
    const names = printable(shortList(opened, MOST_OPENINGS));
    yield foldLine(`${opened.length} that policies deny would be allowed: ${names}`, columns, 0, 2);
  }
  if (cuts.length === 0) return;
  const rows = cuts.map(({ cut, reasons }) => [
    printable(cut.source),
    printable(cut.destination),
    trafficText(cut),
    `${cut.connections.length}`,
    printable(reasons.map(({ direction, text }) => `${direction}: ${text}`).join("; ")),
  ]);
  yield formatTable(["from", "to", "port", "connections", "because"], rows, columns);
  for (const [policy, elements] of rulesByPolicy(cuts)) {
    const [name, field] = policy;
    yield `\nto keep them, add to spec.${field} of NetworkPolicy ${printable(name)}:\n`;
    yield stringify(elements, { indent: 2 }).replace(/^(?=.)/gm, "  ");
  }
  for (const reason of new Set(cuts.flatMap(({ cut, rules }) => unkeepable(cut, rules)))) {
    yield foldLine(printable(reason), columns, 0, 2);
  }
}

/** Returns the object that docs/cli.md describes. */
export function liveObject({ judged, others, deniedBefore, cuts, openings }: LiveReport): object {
  return {
    judged,
    notJudged: others,
    deniedBefore,
    openings: openings.map(({ port, ...rest }) => ({ ...rest, port: port ?? null })),
    cuts: cuts.map(({ cut, reasons, rules }) => ({
      source: cut.source,
      destination: cut.destination,
      protocol: cut.protocol,
      port: cut.port ?? null,
      connections: cut.connections.length,
      examples: cut.connections.slice(0, MOST_EXAMPLES).map(connectionObject),
      reasons,
      rules,
    })),
  };
}

function connectionObject({ source, sourcePort, asked, askedPort, destination, port }: Connection): object {
  return {
    source: addressText(source),
    sourcePort: sourcePort ?? null,
    asked: addressText(asked),
    askedPort: askedPort ?? null,
    destination: addressText(destination),
    port: port ?? null,
  };
}

/** Returns null for the stand-in of a pod without an address. */
function addressText(address: Address): string | null {
  return isPlaceholder(address) ? null : formatAddress(address);
}

/** Returns each rule once, by its policy and the list that it belongs to. */
function rulesByPolicy(
  cuts: readonly ReportedCut[],
): readonly (readonly [readonly [string, string], readonly object[]])[] {
  const rules = cuts.flatMap((cut) => cut.rules.filter((one) => "rule" in one));
  return [...Map.groupBy(rules, ({ policy, direction }) => `${policy} ${direction}`)].map(([key, some]) => {
    const [policy = "", direction = ""] = key.split(" ");
    return [[policy, direction], [...new Map(some.map(({ rule }) => [JSON.stringify(rule), rule])).values()]] as const;
  });
}

function unkeepable(cut: Cut, rules: ReportedCut["rules"]): readonly string[] {
  return rules.flatMap((one) =>
    "reason" in one
      ? [`no rule keeps ${cut.source} to ${cut.destination} ${trafficText(cut)} (${one.direction}): ${one.reason}`]
      : [],
  );
}
