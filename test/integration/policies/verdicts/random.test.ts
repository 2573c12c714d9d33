import assert from "node:assert/strict";
import * as fc from "fast-check";
import { DEFAULT_POLICY_OPTIONS } from "../../../../policyd/policies/compile/options.ts";
import { evaluatePolicy } from "../../../../objects/semantics/policies/evaluate.ts";
import type { Flow } from "../../../../objects/semantics/policies/flow.ts";
import { resolveFlow } from "../../../../objects/semantics/policies/party.ts";
import type { PolicyIndex } from "../../../../objects/semantics/policies/policy_index.ts";
import { storeOf } from "../../../support/evaluate/store.ts";
import { policyCases } from "../../../support/policy/arbitrary_cluster.ts";
import { CompiledCluster } from "../../../support/policy/compiled_cluster.ts";
import { featuresOf } from "../../../support/policy/features.ts";
import { ninePodLab } from "../../../support/policy/lab/nine_pods.ts";
import { padded } from "../../../support/policy/lab/padding.ts";
import type { PolicyLab } from "../../../support/policy/lab/policy_lab.ts";
import { askLab, flowOf, questionText } from "../../../support/policy/lab/question.ts";
import { inLab, type LabCase } from "../../../support/policy/lab/random_cluster.ts";
import { indexOf } from "../../../support/policy/question.ts";
import { manifestsOf } from "../../../support/policy/raw_cluster.ts";
import { PolicedCluster } from "../../../support/policy/policed_cluster.ts";
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

describe(`random clusters with packets (seed ${seed})`, function () {
  this.timeout(20 * 60_000);
  let lab: PolicyLab;

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    lab = await ninePodLab({ name: "random", bridgeNetfilter: { node1: true, node2: false } }, PORTS);
  });
  after(() => lab?.close());

  it(`POL-62: ${FLOWS} flows in random clusters have the fates that the evaluator and the compiled tables give`, async () => {
    const seen = new Map<string, number>();
    const problems: string[] = [];
    let count = 0;
    for (const [place, random] of fc.sample(policyCases, { numRuns: CLUSTERS, seed }).entries()) {
      if (count >= FLOWS) break;
      const one = inLab(lab, random);
      lab.bridgeFrames(place % 4 < 2 ? "as made" : "the other way");
      problems.push(...(await problemsOf(one, seen, place % 2 === 1)));
      count += one.flows.length;
    }
    const shares = [...seen].map(([feature, times]) => `${feature} ${Math.round((1000 * times) / count) / 10}`);
    console.log(`      ${count} flows: ${shares.join(", ")}`);
    assert.ok(count >= FLOWS);
    if (problems.length > 0) assert.fail(`${problems.length} of ${count}:\n${problems.slice(0, MOST_TOLD).join("\n")}`);
    const allowed = (seen.get("allowed") ?? 0) / count;
    assert.ok(allowed > 0.3 && allowed < 0.8);
  });

  /** @param isPadded whether rules are padded, so that they are compiled in the second of two ways */
  async function problemsOf(
    { cluster, flows }: LabCase,
    seen: Map<string, number>,
    isPadded: boolean,
  ): Promise<readonly string[]> {
    const manifests = isPadded ? padded(manifestsOf(cluster)) : manifestsOf(cluster);
    await lab.apply(manifests);
    const index = indexOf(manifests);
    const compiled = new CompiledCluster(storeOf(manifests), DEFAULT_POLICY_OPTIONS);
    const policed = new PolicedCluster(compiled);
    const answers = await askLab(
      lab,
      flows.map(({ question }) => question),
    );
    return flows.flatMap(({ raw, question }, place) => {
      const flow = flowOf(lab, question);
      const verdict = evaluatePolicy(index, flow);
      for (const feature of featuresOf(cluster, raw, verdict)) seen.set(feature, (seen.get(feature) ?? 0) + 1);
      const expected = verdict.kind === "allowed" ? "." : "X";
      const marks = { packets: answers[place]?.mark, tables: throughTables(policed, index, flow) };
      return Object.entries(marks).flatMap(([reading, mark]) =>
        mark === expected || (reading === "tables" && mark === undefined)
          ? []
          : [`${questionText(question)}: ${reading}: ${mark}, not ${expected}: ${JSON.stringify(cluster)}`],
      );
    });
  }
});

/**
 * Returns the fate of a flow in the compiled tables of both ends' nodes, as their interpreter reads them, or undefined
 * for a flow that leaves no pod.
 */
function throughTables(policed: PolicedCluster, index: PolicyIndex, flow: Flow): "." | "X" | undefined {
  const ends = resolveFlow(index, flow);
  if ("kind" in ends) return undefined;
  const [source, destination] = [ends.source.address, ends.destination.address];
  if (source === undefined || destination === undefined || source === destination) return undefined;
  const { protocol, port = 0 } = flow;
  return policed.send({ source, destination, protocol, port }).isPassed ? "." : "X";
}
