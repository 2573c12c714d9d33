import {
  type Address,
  type Family,
  familyOf,
  parseAddress,
  tryParseAddress,
  FAMILIES,
} from "../../../../kernel/ip/address.ts";
import type { Protocol } from "../../../../objects/model.ts";
import { evaluatePolicy } from "../../../../objects/semantics/policies/evaluate.ts";
import type { Flow, FlowEnd } from "../../../../objects/semantics/policies/flow.ts";
import type { PolicyIndex } from "../../../../objects/semantics/policies/policy_index.ts";
import type { Flow as ProbeFlow } from "../../../lab/probe/prober.ts";
import type { PolicyLab } from "./policy_lab.ts";

/** The fate of a flow: allowed, denied, refused where it should be silent. */
export type Mark = "." | "X" | "R";

/** `80/TCP` or `ICMP`. */
export type Traffic = `${number}/${Protocol}` | "ICMP";

/** One flow to try: from a place to a place, or to an address such as a Service's. */
export interface Question {
  readonly from: string;
  readonly to: string;
  readonly traffic: Traffic;
  readonly family: Family;
  /** A source address of the sender other than its place's. */
  readonly source?: string;
}

/** A question and its outcome. */
export interface Answer {
  readonly mark: Mark;
  /** Why there was no answer; empty when there was one. */
  readonly why: string;
}

export const PORTS = [80, 81] as const;
export const ALL_TRAFFIC: readonly Traffic[] = (["TCP", "UDP", "SCTP"] as const).flatMap((protocol) =>
  PORTS.map((port): Traffic => `${port}/${protocol}`),
);

/** Returns the question in both families, or for an address in its own. */
export function inBoth(from: string, to: string, ...traffics: readonly Traffic[]): readonly Question[] {
  const address = tryParseAddress(to);
  const families = address === undefined ? FAMILIES : [familyOf(address)];
  return traffics.flatMap((traffic) => families.map((family) => ({ from, to, traffic, family })));
}

/** In milliseconds without waits for a processor: an answer takes a few of them, and packets are sent twice. */
const SILENCE_MILLISECONDS = 400;
/** Questions at once. Those that are denied wait together. */
const AT_ONCE = 1024;

/**
 * Asks all questions.
 *
 * @param patience the time in milliseconds after which there is no answer, without waits for a processor
 */
export async function askLab(
  lab: PolicyLab,
  questions: readonly Question[],
  patience: number = SILENCE_MILLISECONDS,
): Promise<readonly Answer[]> {
  const flows = questions.map((question) => probeOf(lab, question));
  const results = await lab.prober.run(flows, { timeoutMilliseconds: patience, parallel: AT_ONCE });
  return results.map(({ reached, why }) => ({ why, mark: reached ? "." : isSilence(why) ? "X" : "R" }));
}

/** Whether a probe's reason says that nothing came back, not even a refusal. */
export function isSilence(why: string): boolean {
  return why.startsWith("no answer");
}

/** Returns the evaluator's verdict for a question. */
export function askEvaluator(index: PolicyIndex, lab: PolicyLab, question: Question): Mark {
  return evaluatePolicy(index, flowOf(lab, question)).kind === "allowed" ? "." : "X";
}

/** Returns the question as a flow for the evaluator. */
export function flowOf(lab: PolicyLab, { from, to, traffic, family, source }: Question): Flow {
  const ends = { source: endOf(lab, source ?? from, family), destination: endOf(lab, to, family), family };
  if (traffic === "ICMP") return { ...ends, protocol: "ICMP" };
  const [port, protocol] = traffic.split("/");
  return { ...ends, protocol: protocol as Protocol, port: Number(port) };
}

/** Returns a question in words: `x/a > x/b 80/TCP IPv4`. */
export function questionText({ from, to, traffic, family, source }: Question): string {
  return `${source === undefined ? from : `${from} as ${source}`} > ${to} ${traffic} IPv${family}`;
}

function probeOf(lab: PolicyLab, { from, to, traffic, family, source }: Question): ProbeFlow {
  const address = addressOf(lab, to, family);
  const [port, protocol] = traffic === "ICMP" ? ["0", "icmp"] : traffic.toLowerCase().split("/");
  return {
    from: lab.place(from).namespace,
    to: { address, port: Number(port) },
    protocol: protocol as ProbeFlow["protocol"],
    hasNewPort: true,
    ...(source === undefined ? {} : { source: parseAddress(source) }),
  };
}

function addressOf(lab: PolicyLab, to: string, family: Family): Address {
  return tryParseAddress(to) ?? lab.place(to).addresses[family];
}

function endOf(lab: PolicyLab, name: string, family: Family): FlowEnd {
  if (name === "node1" || name === "node2") return { type: "node", name };
  if (name.includes("/")) return { type: "pod", key: name };
  return { type: "address", address: addressOf(lab, name, family) };
}
