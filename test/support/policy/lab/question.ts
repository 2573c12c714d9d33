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
import type { PolicyLab } from "./policy_lab.ts";
import type { Fate, Shot } from "./shooter.ts";

/** The fate of a flow: allowed, denied, refused where it should be silent, undecided. */
export type Mark = "." | "X" | "R" | "?";

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
  readonly question: Question;
  readonly fate: Fate;
  readonly mark: Mark;
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

/** The number of questions at once. More of them would take a busy machine so long that it sends packets twice. */
const AT_ONCE = 200;
const MOST_TIMES = 8;

/**
 * Asks all questions. Where it is not certain that a silent one was dropped, as when a busy machine has sent packets
 * twice, that question is repeated with fewer others; where it is still not certain in the end, the mark is `?`.
 */
export async function askLab(lab: PolicyLab, questions: readonly Question[]): Promise<readonly Answer[]> {
  const answers: Answer[] = [];
  for (let start = 0; start < questions.length; start += AT_ONCE) {
    answers.push(...(await askSome(lab, questions.slice(start, start + AT_ONCE), MOST_TIMES)));
  }
  return answers;
}

async function askSome(lab: PolicyLab, questions: readonly Question[], times: number): Promise<readonly Answer[]> {
  const answers = await ask(lab, questions);
  const open = answers.filter(({ mark }) => mark === "?").map(({ question }) => question);
  if (open.length === 0 || times === 1) return answers;
  const half = Math.ceil(open.length / 2);
  const again = [
    ...(await askSome(lab, open.slice(0, half), times - 1)),
    ...(half < open.length ? await askSome(lab, open.slice(half), times - 1) : []),
  ].values();
  return answers.map((answer) => (answer.mark === "?" ? (again.next().value ?? answer) : answer));
}

async function ask(lab: PolicyLab, questions: readonly Question[]): Promise<readonly Answer[]> {
  const { fates, doubt } = await lab.shooter.run(questions.map((question) => shotOf(lab, question)));
  return questions.map((question, place) => {
    const fate = fates[place];
    if (fate === undefined) throw new RangeError("fewer fates than questions");
    return { question, fate, mark: markOf(fate, doubt) };
  });
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

function markOf({ kind }: Fate, doubt: string): Mark {
  switch (kind) {
    case "answered":
      return ".";
    case "refused":
      return "R";
    case "silent":
      return doubt === "" ? "X" : "?";
  }
}

function shotOf(lab: PolicyLab, { from, to, traffic, family, source }: Question): Shot {
  const address = addressOf(lab, to, family);
  const [port, protocol] = traffic === "ICMP" ? ["0", "icmp"] : traffic.toLowerCase().split("/");
  return {
    from: lab.place(from).namespace,
    to: { address, port: Number(port) },
    protocol: protocol as Shot["protocol"],
    hasNewPort: true,
    isLocal: from === to,
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
