import { styleText } from "node:util";
import type Table from "cli-table3";
import { type Family, FAMILIES } from "../../kernel/ip/address.ts";
import { PROTOCOLS } from "../lab/probe/protocol.ts";
import { type Difference, questionKey } from "./matrix.ts";
import { isDaemonGood } from "./daemons.ts";
import { cutLines, policyLines, policySummary } from "./policies/print.ts";
import { SERVICES_KEY, servicesLines, servicesTable } from "./services/print.ts";
import { isSpoofStopped, type SpoofResult } from "./spoof.ts";
import { type DemoResult, isAsExpected, isHarmMended, sharedAddresses } from "./steps.ts";
import { newTable, type Paint, verdict } from "./table.ts";

/** The number of differences that are listed one by one; the others are only counted. */
const LISTED_DIFFERENCES = 12;

/** Formats the demo's result for people. */
export function formatResult(result: DemoResult, stream: NodeJS.WriteStream): string {
  const paint: Paint = (style, text) => styleText(style, text, { stream });
  return [
    ...(result.broken === undefined
      ? []
      : [paint("bold", `Broken on purpose: ${result.broken.replace(": ", ":\n    ")}`), ""]),
    paint("bold", "Pods"),
    podTable(result),
    "",
    ...FAMILIES.flatMap((family) => [
      paint("bold", `IPv${family}: from the row to the column, answers by ${PROTOCOLS.join(", ")}`),
      matrixTable(result, result, family, paint),
      "",
    ]),
    ...FAMILIES.flatMap((family) => [
      paint("bold", `Services over IPv${family}: which pods answer a client (column), and which sender they see`),
      servicesTable(result.services, family, paint),
    ]),
    SERVICES_KEY,
    "",
    paint("bold", "Policies: who may send to a pod"),
    ...policyLines(result.policies),
    "",
    ...FAMILIES.flatMap((family) => [
      paint("bold", `IPv${family} with policies: answers by ${PROTOCOLS.join(", ")} from the row to the column`),
      matrixTable(result, result.policies, family, paint),
      "",
    ]),
    ...daemonLines(result, paint),
    ...refusedLines(result, paint),
    addressLine(result, paint),
    ...matrixSummary(result, paint),
    ...sourceLine(result, paint),
    ...servicesLines(result.services, paint),
    policySummary(result.policies, paint),
    ...listed(result.policies.differences).map((line) => paint("red", `    ${line}`)),
    ...cutLines(result.cut, paint),
    ...sameNodeLines(result, paint),
    spoofLine(result.spoof, paint),
    ...harmLines(result, paint),
    ...leftoverLines(result, paint),
    "",
    isAsExpected(result)
      ? paint("green", `Everything as expected, in ${(result.milliseconds / 1000).toFixed(1)} s.`)
      : paint("red", `Not as expected; took ${(result.milliseconds / 1000).toFixed(1)} s.`),
    "",
  ].join("\n");
}

function podTable(result: DemoResult): string {
  const table = newTable(["pod", "node", "IPv4", "IPv6", "ADD ms", "DEL ms"]);
  const time = (milliseconds: number | undefined): Table.Cell => ({
    content: milliseconds?.toFixed(0) ?? "",
    hAlign: "right",
  });
  for (const { name, node, addresses, addMilliseconds, delMilliseconds } of result.pods) {
    table.push([name, node, ...addresses, time(addMilliseconds), time(delMilliseconds)]);
  }
  return table.toString();
}

function matrixTable(
  { parties }: Pick<DemoResult, "parties">,
  { seen, differences }: Pick<DemoResult, "seen" | "differences">,
  family: Family,
  paint: Paint,
): string {
  const targets = parties.filter(({ isPod }) => isPod);
  const answered = new Map(seen.map((cell) => [questionKey(cell), cell.reached]));
  const wrong = new Set(differences.map(questionKey));
  const table = newTable(["", ...targets.map(({ name }) => name)]);
  for (const source of parties) {
    const cells = targets.map((target) => {
      if (source === target) return "·";
      const keys = PROTOCOLS.map((protocol) =>
        questionKey({ source: source.name, target: target.name, family, protocol }),
      );
      const letters = keys.map((key, i) =>
        answered.get(key) === true ? (PROTOCOLS[i]?.[0] ?? "").toUpperCase() : "-",
      );
      // The mark also shows it where there is no colour.
      return keys.some((key) => wrong.has(key)) ? paint("red", `${letters.join("")} !`) : letters.join("");
    });
    table.push([source.name, ...cells]);
  }
  return table.toString();
}

function daemonLines(result: DemoResult, paint: Paint): readonly string[] {
  return result.daemons.flatMap((daemon) => {
    const { node, version, isSynced, attachments, expectedAttachments, objects, problems } = daemon;
    const seen = Object.entries(objects).filter(([, count]) => count > 0);
    return [
      verdict(
        paint,
        isDaemonGood(daemon),
        `policyd ${version} on ${node}: ${isSynced ? "synced" : "not synced"}; ${attachments} of ${expectedAttachments} ` +
          `attachments, ${seen.map(([kind, count]) => `${count} ${kind}`).join(", ")}`,
      ),
      ...problems.map((line) => paint("red", `    ${line}`)),
    ];
  });
}

function refusedLines({ refused }: DemoResult, paint: Paint): readonly string[] {
  return [
    verdict(paint, refused.length === 0, `${refused.length} of their requests refused by the API server`),
    ...refused.map((line) => paint("red", `    ${line}`)),
  ];
}

function addressLine(result: DemoResult, paint: Paint): string {
  const held = result.pods.flatMap(({ addresses }) => addresses).length;
  const shared = sharedAddresses(result.pods);
  const text = `${result.pods.length} pods hold ${held} addresses, ${shared.length} of them twice`;
  return verdict(paint, shared.length === 0, shared.length === 0 ? text : `${text}: ${shared.join(", ")}`);
}

function matrixSummary(result: DemoResult, paint: Paint): readonly string[] {
  const reached = result.seen.filter((cell) => cell.reached).length;
  const expected = result.expected.filter((cell) => cell.reached).length;
  return [
    verdict(
      paint,
      result.differences.length === 0,
      `${reached} of ${result.seen.length} flows answered, ${expected} expected; ${result.differences.length} cells differ`,
    ),
    ...listed(result.differences).map((line) => paint("red", `    ${line}`)),
  ];
}

function sourceLine(result: DemoResult, paint: Paint): readonly string[] {
  const answered = result.seen.filter((cell) => cell.reached);
  const wanted = new Map(result.expected.map((cell) => [questionKey(cell), cell.seenSource]));
  const kept = answered.filter((cell) => cell.seenSource === wanted.get(questionKey(cell))).length;
  return [
    verdict(
      paint,
      kept === answered.length,
      `${kept} of ${answered.length} answered flows arrived with the sender's own address`,
    ),
  ];
}

function sameNodeLines(result: DemoResult, paint: Paint): readonly string[] {
  const lines = result.sameNode.flatMap(
    ({ bridgeNetfilter, flows, differences, sentByNodes, receivedByPods, followed }) => [
      verdict(
        paint,
        differences.length === 0 && followed.length === 0,
        `same node, bridge-nf-call-iptables=${bridgeNetfilter ? 1 : 0}: ${flows - differences.length} of ${flows} flows answered; ` +
          `redirects: ${sentByNodes} sent, ${receivedByPods} received, ${followed.length} followed`,
      ),
      ...[...listed(differences), ...followed].map((line) => paint("red", `    ${line}`)),
    ],
  );
  if (result.sameNode.length > 1) return lines;
  return [...lines, "  br_netfilter is not loaded on this machine: its other state was not measured"];
}

function spoofLine(spoof: SpoofResult, paint: Paint): string {
  const { attacker, pretended, target, node, sent, arrived, counted } = spoof;
  const [before, after] = counted.map((count) => count?.toString() ?? "no such rule");
  return verdict(
    paint,
    isSpoofStopped(spoof),
    `${arrived} of ${sent} packets that ${attacker} sent as ${pretended} reached ${target}; ` +
      `${node}'s count of dropped ones: ${before} before, ${after} after`,
  );
}

function harmLines({ harm }: DemoResult, paint: Paint): readonly string[] {
  const { node, milliseconds, tables, flows, differences, services, spoof } = harm;
  const time = milliseconds === undefined ? "not restored in time" : `restored after ${milliseconds.toFixed(0)} ms`;
  const cells = services.seen.length;
  return [
    verdict(paint, isHarmMended(harm), `nft flush ruleset on ${node}: ${tables} tables, ${time}; then`),
    `    ${flows - differences.length} of ${flows} flows and ${cells - services.differences.length} of ${cells} Service ` +
      `cells as expected, ${spoof.arrived} of ${spoof.sent} spoofed packets through`,
  ];
}

function leftoverLines(result: DemoResult, paint: Paint): readonly string[] {
  const counts = Object.entries(result.leftovers);
  const left = counts.flatMap(([what, names]) => names.map((name) => `${what}: ${name}`));
  const summary = counts.map(([what, names]) => `${names.length} ${what}`).join(", ");
  return [
    verdict(paint, left.length === 0, `left behind: ${summary}`),
    ...left.map((line) => paint("red", `    ${line}`)),
  ];
}

function listed(differences: readonly Difference[]): readonly string[] {
  const lines = differences
    .slice(0, LISTED_DIFFERENCES)
    .map(
      ({ source, target, family, protocol, problem }) => `${source} → ${target} IPv${family} ${protocol}: ${problem}`,
    );
  const rest = differences.length - lines.length;
  return rest === 0 ? lines : [...lines, `and ${rest} more; all of them with -o json`];
}
