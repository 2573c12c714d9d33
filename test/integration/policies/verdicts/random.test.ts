import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { PolicyVerdict } from "../../../../objects/semantics/policies/verdict.ts";
import { evaluatePolicy } from "../../../../objects/semantics/policies/evaluate.ts";
import { policyCases } from "../../../support/policy/arbitrary_cluster.ts";
import { ninePodLab } from "../../../support/policy/lab/nine_pods.ts";
import type { PolicyLab } from "../../../support/policy/lab/policy_lab.ts";
import { askLab, flowOf, questionText } from "../../../support/policy/lab/question.ts";
import { inLab, type LabCase } from "../../../support/policy/lab/random_cluster.ts";
import { indexOf } from "../../../support/policy/question.ts";
import { manifestsOf } from "../../../support/policy/raw_cluster.ts";
import { requireBridgeNetfilter, requireKernel } from "../../../support/privilege.ts";
import { countedSeed, hasLongForm } from "../../../support/long_form.ts";

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

  it(`POL-62: ${FLOWS} flows in random clusters have the fates that the evaluator gives`, async () => {
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
    { cluster, flows }: LabCase,
    verdicts: PolicyVerdict["kind"][],
    isPadded: boolean,
  ): Promise<readonly string[]> {
    const manifests = isPadded ? padded(manifestsOf(cluster)) : manifestsOf(cluster);
    await lab.apply(manifests);
    const index = indexOf(manifests);
    const answers = await askLab(lab, flows);
    return answers.flatMap(({ question, mark }) => {
      const { kind } = evaluatePolicy(index, flowOf(lab, question));
      verdicts.push(kind);
      const expected = kind === "allowed" ? "." : "X";
      return mark === expected
        ? []
        : [`${questionText(question)}: ${mark}, not ${expected}: ${JSON.stringify(cluster)}`];
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
