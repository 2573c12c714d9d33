import { printable, shortList } from "../../../objects/printable.ts";
import { locationText } from "../../input/place.ts";
import { foldLine } from "../../output/fold.ts";
import { serviceTexts, type Sheet } from "./service_print.ts";
import type { Style } from "../../io.ts";
import {
  answerOf,
  type Case,
  type EndpointReport,
  type Explanation,
  type WayInReport,
  type DecisionReport,
  type EndReport,
  type NearestReport,
  type PolicyReport,
  type RuleReport,
  type ShadowReport,
} from "./explanation.ts";

const LABEL_WIDTH = 10;
const HOP_INDENT = 2;
/** Of more names only the first are printed, and how many more there are. */
const MOST_NAMES = 6;

/** Returns an explanation in words, folded to the width of the terminal. */
export function explanationText(explanation: Explanation, style: Style, columns: number): string {
  const { cases, services, remarks } = explanation;
  const [only] = cases;
  const isSimple = cases.length === 1 && services.length === 0 && only !== undefined && isWhole(only, explanation);
  const families = isSimple ? familiesText(only) : "";
  const blocks = [
    foldLine(headText(explanation, families, style), columns, 0, 2) + (isSimple ? caseLines(only, style, columns) : ""),
    ...serviceTexts(services, style, columns),
    ...(isSimple ? [] : cases.map((one) => caseText(one, explanation, { style, columns }))),
    ...explanation.waysIn.map((way) => wayInText(way, style, columns)),
    ...(remarks.length === 0
      ? []
      : [remarks.map((remark) => foldLine(`Note: ${printable(remark)}.`, columns, 0, 6)).join("")]),
  ];
  return blocks.join("\n");
}

/** Returns a way in with both of its hops. */
export function wayInText(
  { name, file, line, through, open, partly, unknown, entry, onward }: WayInReport,
  style: Style,
  columns: number,
): string {
  const closed = unknown ? "not known" : "closed";
  const answer = open ? style.good(partly ? "open in part" : "open") : style.bad(closed);
  const place = style.faint(`(${printable(locationText(file, line))})`);
  const head = foldLine(`${printable(name)} ${place} through ${printable(through)}: ${answer}`, columns, 0, 2);
  const hops = [entry, ...onward].map((hop) => explanationText(hop, style, columns - HOP_INDENT));
  const lines = hops.flatMap((text) => text.split("\n").filter((one) => one !== ""));
  return head + lines.map((one) => `${" ".repeat(HOP_INDENT)}${one}\n`).join("");
}

/** Returns whether a case covers both ends completely, which the first line already says. */
function isWhole({ from, to }: Case, question: Explanation): boolean {
  return from.length === question.from.hosts.length && to.length === question.to.hosts.length;
}

function familiesText({ families }: Case): string {
  return families.length === 0 ? "" : `, ${families.join(" and ")}`;
}

function headText(explanation: Explanation, families: string, style: Style): string {
  const { allowed, from, to, port, protocol, cases, waysIn } = explanation;
  const open = waysIn.filter((way) => way.open).map(({ name }) => printable(name));
  const ways = open.length === 0 ? "" : `; open through ${shortList(open, MOST_NAMES)}`;
  const ends = `${style.strong(printable(from.name))} to ${style.strong(printable(to.name))}`;
  if (protocol === null) {
    const connections = new Set(cases.filter((one) => one.allowed).flatMap((one) => one.connections));
    const nothing = answerOf(explanation) === "not known" ? "not known" : "nothing is allowed";
    return `${ends}: ${allowed ? style.good([...connections].join(", ")) : style.bad(nothing)}${ways}`;
  }
  const answer = allowed ? style.good("allowed") : style.bad(answerOf(explanation));
  return `${ends}, ${port === null ? protocol : `port ${port}/${protocol}`}${families}: ${answer}${ways}`;
}

function caseText(one: Case, { from, to, cases }: Explanation, { style, columns }: Sheet): string {
  const answer = one.allowed ? style.good("allowed") : style.bad(one.unknown ? "not known" : "denied");
  const destination = to.type === "service" ? "every endpoint" : to.name;
  const ends = `${endText(one.from, from, from.name)} to ${endText(one.to, to, destination)}`;
  const head = `${ends}, ${connectionsText(one, cases)}${familiesText(one)}: ${answer}`;
  return foldLine(head, columns, 0, 2) + caseLines(one, style, columns);
}

function caseLines({ source, stopped, egress, ingress }: Case, style: Style, columns: number): string {
  const lines: (readonly [string, string])[] = [];
  if (source !== null) {
    const nodes = source.nodes.length === 0 ? "" : `: ${namesText(source.nodes)}`;
    lines.push(["NAT", `${source.because}${nodes}`]);
  }
  for (const [label, end] of [
    ["egress", egress],
    ["ingress", ingress],
  ] as const) {
    if (end === null) continue;
    for (const [i, text] of endLines(end, style).entries()) lines.push([i === 0 ? label : "", text]);
  }
  const reason = stopped === null ? "" : foldLine(stopped, columns, 2, 4);
  return reason + lines.map(([label, text]) => labelled(label, text, columns)).join("");
}

function labelled(label: string, text: string, columns: number): string {
  const folded = foldLine(text, columns, LABEL_WIDTH, LABEL_WIDTH + 2);
  return `  ${label.padEnd(LABEL_WIDTH - 2)}${folded.slice(LABEL_WIDTH)}`;
}

/** Where only one case is denied, it is "everything else", which reads better than its ranges. */
function connectionsText(one: Case, all: readonly Case[]): string {
  if (one.connections.length === 1 && one.connections[0] === "all") return "everything";
  const isRest = !one.allowed && one.connections.length > 2 && all.filter(({ allowed }) => !allowed).length === 1;
  return isRest ? "everything else" : one.connections.join(", ");
}

/** Returns the hosts of a case, or one word for all hosts of an end. */
function endText(hosts: readonly string[], end: EndpointReport, all: string): string {
  return hosts.length > 1 && hosts.length === end.hosts.length ? printable(all) : namesText(hosts);
}

function namesText(names: readonly string[]): string {
  const shown = names.map(printable);
  if (names.length > MOST_NAMES) return shortList(shown, MOST_NAMES);
  const last = shown.pop() ?? "";
  return shown.length === 0 ? last : `${shown.join(", ")} and ${last}`;
}

const EXEMPTIONS: Readonly<Record<Extract<DecisionReport, { readonly type: "exempt" }>["because"], string>> = {
  "no pod": "policies are for pods with addresses of their own",
  "own node": "a pod and the node it runs on are never kept apart",
  itself: "a pod is never kept from itself",
  "node-local DNS": "NetworkPolicies keep no pod from the node's own DNS",
  "ICMP error": "errors belong to the flow they are about",
};

/** Returns the verdict of one end's policies, a line for each reason and the answer first. */
function endLines(end: EndReport, style: Style): readonly string[] {
  const answer = end.allowed ? style.good("allowed") : style.bad("denied");
  const about = end.judgedAs === null ? "" : ` (${printable(end.judgedAs)})`;
  // Policies that are not evaluated do not isolate.
  const isolating = end.decision.type === "exempt" ? [] : end.isolatedBy;
  return [
    `${answer}${about} ${decisionText(end.decision, style)}`,
    ...end.passed.map((rule) => `passed on by ${ruleText(rule, style)}`),
    ...(isolating.length === 0 ? [] : [`isolated by ${isolating.map((one) => policyText(one, style)).join(", ")}`]),
    ...(end.nearest === null ? [] : [nearestText(end.nearest, style)]),
    ...(end.shadow === null ? [] : shadowLines(end, end.shadow, style)),
  ];
}

/** Returns what the policies in shadow would change; empty where the answer stays the same. */
function shadowLines({ allowed }: EndReport, shadow: ShadowReport, style: Style): readonly string[] {
  const { wouldDrop, policies, rule, nearest } = shadow;
  if (wouldDrop) {
    const names = policies.map((one) => policyText(one, style)).join(", ");
    return [`shadow: would be denied by ${names}`, ...(nearest === null ? [] : [nearestText(nearest, style)])];
  }
  return allowed || rule === null ? [] : [`shadow: would be allowed by ${ruleText(rule, style)}`];
}

function decisionText(decision: DecisionReport, style: Style): string {
  switch (decision.type) {
    case "rule":
      return `by ${ruleText(decision.rule, style)}`;
    case "exempt":
      return `always: ${EXEMPTIONS[decision.because]}`;
    case "isolated":
      return "as no rule allows it";
    case "default":
      return "as no policy has a say";
  }
}

function ruleText(rule: RuleReport, style: Style): string {
  const { action, tier, priority, name, unreadable, tiedWith } = rule;
  const cluster = action === undefined ? "" : `${action} of `;
  const called = name === undefined ? "" : ` ${printable(JSON.stringify(name))}`;
  const rank = tier === undefined ? "" : `, ${tier} tier, priority ${priority}`;
  const closed = unreadable === undefined ? "" : `; it fails closed: ${printable(unreadable)}`;
  const tied = tiedWith === undefined ? "" : `; undefined, since ${tiedWith.join(", ")} of the same priority differ`;
  return `${cluster}${rule.policy} ${rule.path}${called}${rank}${placeText(rule, style)}${closed}${tied}`;
}

function policyText(policy: PolicyReport, style: Style): string {
  return `${policy.policy.replace(/^NetworkPolicy /, "")}${placeText(policy, style)}`;
}

function nearestText(nearest: NearestReport, style: Style): string {
  const failed = nearest.failed.map(({ text }) => printable(text)).join("; ");
  return `nearest: ${nearest.policy} ${nearest.path}${placeText(nearest, style)}, but ${failed}`;
}

function placeText({ file, line }: PolicyReport, style: Style): string {
  if (file === undefined) return "";
  return ` ${style.faint(`(${printable(locationText(file, line))})`)}`;
}
