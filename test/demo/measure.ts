import { formatAddress, FAMILIES } from "../../kernel/ip/address.ts";
import type { LabCalls } from "../lab/libc.ts";
import { redirectCounters, routeExceptions } from "../lab/probe/counters.ts";
import { type Flow, Prober } from "../lab/probe/prober.ts";
import { PROTOCOLS } from "../lab/probe/protocol.ts";
import type { Question, Seen } from "./matrix.ts";
import { namespaceOf, nodeOf, NODES, PORT, type World } from "./world.ts";

/** The longest wait for an answer, on a busy machine. */
const TIMEOUT_MILLISECONDS = 3000;
/** The number of flows at once, which is small so that none waits for this process. */
const PARALLEL = 128;

interface AskedFlow extends Flow {
  readonly question: Question;
}

/** The nodes' and pods' own counts of ICMP redirects, and the redirects that pods have followed. */
export interface Redirects {
  readonly sentByNodes: number;
  readonly receivedByPods: number;
  /** Cached route exceptions in pods: a pod that follows a redirect has one. */
  readonly followed: readonly string[];
}

export interface MeasureOptions {
  /** The number of exchanges of each TCP flow. Default 1. */
  readonly exchanges?: number;
  /** The longest wait for an answer. Default {@link TIMEOUT_MILLISECONDS}. */
  readonly timeoutMilliseconds?: number;
  /** Is called with the number of questions that have their answer. */
  readonly onProgress?: (done: number) => void;
}

/** Sends real packets for every question, after opening every pod's responders. */
export async function measureQuestions(
  calls: LabCalls,
  world: World,
  questions: readonly Question[],
  options: MeasureOptions = {},
): Promise<readonly Seen[]> {
  using prober = new Prober(calls);
  for (const pod of world.pods) {
    for (const family of FAMILIES) {
      for (const protocol of PROTOCOLS) {
        prober.listen(protocol, { namespace: pod.namespace, address: pod.addresses[family], port: PORT });
      }
    }
  }
  let done = 0;
  const flows = questions.flatMap((question) => flowFor(world, question, options.exchanges ?? 1));
  const { timeoutMilliseconds = TIMEOUT_MILLISECONDS, onProgress } = options;
  const results = await prober.run(flows, { timeoutMilliseconds, parallel: PARALLEL }, () => onProgress?.(++done));
  return results.map(({ flow, reached, seenSource, why }) => ({
    ...flow.question,
    reached,
    seenSource: seenSource === undefined ? undefined : formatAddress(seenSource),
    why,
  }));
}

/** Reads the redirect counters of all nodes and pods. */
export function measureRedirects(world: World): Redirects {
  const sum = (counts: readonly number[]): number => counts.reduce((a, b) => a + b, 0);
  return {
    sentByNodes: sum(NODES.map((name) => redirectCounters(nodeOf(world, name)).sent)),
    receivedByPods: sum(world.pods.map((pod) => redirectCounters(pod.namespace).received)),
    followed: world.pods.flatMap((pod) => routeExceptions(pod.namespace).map((line) => `${pod.name}: ${line}`)),
  };
}

function flowFor(world: World, question: Question, exchanges: number): readonly AskedFlow[] {
  const protocol = PROTOCOLS.find((name) => name === question.protocol);
  const target = world.pods.find((pod) => pod.name === question.target);
  if (protocol === undefined || target === undefined) return [];
  return [
    {
      question,
      protocol,
      exchanges,
      from: namespaceOf(world, question.source),
      to: { address: target.addresses[question.family], port: PORT },
    },
  ];
}
