import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { PolicyVerdict } from "../../../../objects/semantics/policies/verdict.ts";
import { evaluatePolicy } from "../../../../objects/semantics/policies/evaluate.ts";
import { policyCases, type PolicyCase } from "../../../support/policy/arbitrary_cluster.ts";
import { ninePodLab, NINE_PODS, ninePods } from "../../../support/policy/lab/nine_pods.ts";
import type { PolicyLab } from "../../../support/policy/lab/policy_lab.ts";
import { askLab, flowOf, questionText, type Question } from "../../../support/policy/lab/question.ts";
import { indexOf } from "../../../support/policy/question.ts";
import { manifestsOf, type RawFlow } from "../../../support/policy/raw_cluster.ts";
import { requireBridgeNetfilter, requireKernel } from "../../../support/privilege.ts";
import { countedSeed, hasLongForm } from "../../../support/long_form.ts";
import { NAMESPACES } from "../../../support/policy/three_by_three.ts";

/** The objects of a random case with a lab's pods and addresses, and those of its flows that can be sent in it. */
interface LabCase {
  readonly manifests: readonly object[];
  readonly flows: readonly Question[];
}

/** The lab's names for generated names; prefixes of pods are the same in both. */
const NAMES: ReadonlyMap<string, string> = new Map([
  ["n1", "x"],
  ["n2", "y"],
  ["n3", "z"],
  ["10.1.0.0/16", "203.0.113.0/29"],
  ["192.0.2.0/24", "203.0.113.0/24"],
  ["192.0.2.64/26", "203.0.113.8/29"],
  ["10.240.0.0/24", "192.0.2.0/24"],
  ["10.240.0.2/32", "192.0.2.18/32"],
  ["10.240.0.1/32", "192.0.2.10/32"],
]);

/** The places that have the addresses at which flows begin or end. */
const PLACES: ReadonlyMap<string, string> = new Map([
  ["10.1.2.3", "outside"],
  ["fd00:1::5", "outside"],
  ["192.0.2.77", "stranger"],
  ["fd00:2::5", "stranger"],
  ["192.0.2.1", "node1"],
  ["fd00:240::1", "node1"],
]);

/** Converts a random case to a lab: its policies are for the nine pods, which have the labels and ports of its pods. */
function inLab(lab: PolicyLab, { cluster, flows }: PolicyCase): LabCase {
  const labels = cluster.namespaces.map(
    ({ metadata }, number) => [NAMESPACES[number] ?? "", metadata.labels ?? {}] as const,
  );
  const pods = NINE_PODS.map(({ key }, number) => {
    const { metadata, spec } = cluster.pods[number % cluster.pods.length] ?? assert.fail("a cluster without pods");
    return [key, { labels: metadata.labels ?? {}, ports: spec.containers.flatMap(({ ports = [] }) => ports) }] as const;
  });
  const policies = JSON.stringify(manifestsOf({ ...cluster, namespaces: [], nodes: [], pods: [] }));
  const renamed = policies.replaceAll(/(?<=")[^"]+(?=")/g, (text) => NAMES.get(text) ?? text);
  return {
    manifests: [
      ...ninePods(lab, Object.fromEntries(labels), Object.fromEntries(pods)),
      ...(JSON.parse(renamed) as readonly object[]),
    ],
    flows: flows.flatMap(flowIn),
  };
}

function flowIn({ source, destination, protocol, port, isIpv6 }: RawFlow): readonly Question[] {
  const [from, to] = [source, destination].map(endIn);
  // Policies do not apply to a flow without a pod.
  if (from === undefined || to === undefined || !`${from} ${to}`.includes("/") || protocol === "ICMP error") return [];
  return [{ from, to, traffic: protocol === "ICMP" ? "ICMP" : `${port}/${protocol}`, family: isIpv6 ? 6 : 4 }];
}

function endIn(text: string): string | undefined {
  if (text.startsWith("node ")) return text.slice("node ".length);
  const [, number] = /^(?:pod n\d\/p|10\.244\.|fd00:244:)(\d)/.exec(text) ?? [];
  return number === undefined ? PLACES.get(text) : NINE_PODS[Number(number)]?.key;
}

const isFull = hasLongForm("2,000 random flows in place of 48");
const FLOWS = isFull ? 2000 : 48;
const seed = countedSeed();
/** The ports that pods serve: those that random policies name, and one that they do not. */
const PORTS = [53, 80, 81, 8080] as const;
/** The number of clusters. Each has eight flows, not all of which can be sent in a lab. */
const CLUSTERS = FLOWS / 2;
const MOST_TOLD = 5;
/** The number of further rules of a padded policy. */
const FURTHER_RULES = 40;

describe(`random clusters with packets (seed ${seed})`, function () {
  this.timeout(20 * 60_000);
  let lab: PolicyLab;

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    lab = await ninePodLab({ name: "random", bridgeNetfilter: { node1: true, node2: false } }, PORTS);
  });
  after(() => lab?.close());

  it(`MODEL-02: ${FLOWS} flows in random clusters have the fates that the evaluator gives`, async () => {
    const verdicts: PolicyVerdict["kind"][] = [];
    const problems: string[] = [];
    let count = 0;
    for (const [place, random] of fc.sample(policyCases, { numRuns: CLUSTERS, seed }).entries()) {
      if (count >= FLOWS) break;
      const one = inLab(lab, random);
      lab.bridgeFrames(place % 4 < 2 ? "as made" : "the other way");
      problems.push(...(await problemsOf(one, verdicts, place % 2 === 1)));
      count += one.flows.length;
    }
    assert.ok(count >= FLOWS);
    if (problems.length > 0) assert.fail(`${problems.length} of ${count}:\n${problems.slice(0, MOST_TOLD).join("\n")}`);
    const allowed = verdicts.filter((kind) => kind === "allowed").length / count;
    assert.ok(allowed > 0.3 && allowed < 0.8);
  });

  /** @param isPadded whether rules are padded, so that they are compiled in the second of two ways */
  async function problemsOf(
    { manifests: plain, flows }: LabCase,
    verdicts: PolicyVerdict["kind"][],
    isPadded: boolean,
  ): Promise<readonly string[]> {
    const manifests = isPadded ? padded(plain) : plain;
    await lab.apply(manifests);
    const index = indexOf(manifests);
    const answers = await askLab(lab, flows);
    return flows.flatMap((question, number) => {
      const { kind } = evaluatePolicy(index, flowOf(lab, question));
      verdicts.push(kind);
      const expected = kind === "allowed" ? "." : "X";
      const mark = answers[number]?.mark;
      return mark === expected
        ? []
        : [`${questionText(question)}: ${mark}, not ${expected}: ${JSON.stringify(manifests)}`];
    });
  }
});

interface Manifest {
  readonly kind?: string;
  readonly spec?: Readonly<Record<string, unknown>>;
}

/**
 * Returns objects whose NetworkPolicies have enough further rules that the compiler combines the rules in large sets. The
 * further rules are for pods and ports that do not exist, so they allow nothing.
 */
function padded(objects: readonly object[]): readonly object[] {
  return objects.map((object) => {
    const { kind, spec } = object as Manifest;
    if (kind !== "NetworkPolicy" || spec === undefined) return object;
    return { ...object, spec: { ...spec, ...more(spec, "ingress", "from"), ...more(spec, "egress", "to") } };
  });
}

/** Returns more rules for a direction. A direction without rules stays so, since its isolation may depend on that. */
function more(spec: Readonly<Record<string, unknown>>, direction: "ingress" | "egress", peers: "from" | "to"): object {
  const rules = spec[direction];
  if (!Array.isArray(rules) || rules.length === 0) return {};
  const further = Array.from({ length: FURTHER_RULES }, (_, index) => ({
    [peers]: [{ podSelector: { matchLabels: { nobody: `${index}` } } }],
    ports: [{ port: 9000 + index }],
  }));
  return { [direction]: [...(rules as readonly unknown[]), ...further] };
}
