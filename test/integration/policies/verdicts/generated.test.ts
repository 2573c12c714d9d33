import assert from "node:assert/strict";
import process from "node:process";
import type { GeneratedCase, GeneratedStep } from "../../../support/policy/lab/generated/generated_case.ts";
import { chosen, generatedCases } from "../../../support/policy/lab/generated/generated_cases.ts";
import { listenAll, NINE_PODS, ninePodLab, ninePods } from "../../../support/policy/lab/nine_pods.ts";
import { padded } from "../../../support/policy/lab/padding.ts";
import { namespaceManifest, podManifest, podObject } from "../../../support/policy/lab/place.ts";
import type { PolicyLab } from "../../../support/policy/lab/policy_lab.ts";
import { askEvaluator, askLab, matrix } from "../../../support/policy/lab/question.ts";
import { answersText } from "../../../support/policy/lab/tables.ts";
import { indexOf } from "../../../support/policy/question.ts";
import { NAMESPACES } from "../../../support/policy/three_by_three.ts";
import { requireBridgeNetfilter, requireKernel } from "../../../support/privilege.ts";

const isFull = process.env["DRAWBRIDGE_FULL"] === "1";
const POLICIES = isFull ? 200 : 40;
const seed = Number(process.env["DRAWBRIDGE_SEED"] ?? (isFull ? Date.now() % 0x7fff_ffff : 4));

/** Bridged frames pass the IP hooks on one node and not on the other. Which node it is, changes with each policy. */
describe(`policies in the manner of cyclonus with packets (seed ${seed})`, function () {
  this.timeout(20 * 60_000);
  let lab: PolicyLab;

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    lab = await ninePodLab({
      name: "generated",
      bridgeNetfilter: { node1: true, node2: false },
    });
  });
  after(() => lab?.close());

  it(`POL-61: ${POLICIES} of 217 policies let those packets through among nine pods that the evaluator allows`, async () => {
    const all = generatedCases(lab);
    assert.equal(all.length, 217);
    const problems: string[] = [];
    for (const [place, one] of chosen(all, POLICIES, seed).entries()) {
      // Rules are compiled in two ways, and frames bridged in two; the full run sends each policy all four ways.
      const ways = isFull ? [0, 1, 2, 3] : [place % 4];
      for (const way of ways) {
        lab.bridgeFrames(way < 2 ? "as made" : "the other way");
        problems.push(...(await problemsOf(way % 2 === 1 ? withPadding(one) : one)));
      }
    }
    if (problems.length > 0) assert.fail(problems.join("\n\n"));
  });

  async function problemsOf({ group, name, steps }: GeneratedCase): Promise<readonly string[]> {
    const problems: string[] = [];
    for (const [place, step] of steps.entries()) {
      const text = await differenceIn(step);
      if (text !== "") problems.push(`${group}, ${name}, step ${place + 1}\n${JSON.stringify(step)}\n${text}`);
    }
    return problems;
  }

  async function differenceIn({ policies, labels, tenth }: GeneratedStep): Promise<string> {
    const present = ninePods(lab, labels);
    if (tenth === undefined) return await compared([...present, ...policies]);
    const node = "node2";
    const fields = { labels: { pod: "b" } };
    const [namespace = ""] = tenth.split("/");
    const isNew = !NAMESPACES.some((known) => known === namespace);
    const all = [...present, ...(isNew ? [namespaceManifest(namespace, { ns: namespace })] : []), ...policies];
    // Where policies may select a pod, the plugin waits for its object.
    await lab.apply([...all, podObject(tenth, node, [], fields)]);
    const place = await lab.wire({ key: tenth, node });
    listenAll(lab.shooter, place);
    try {
      return await compared([...all, podManifest(place, node, fields)], [tenth]);
    } finally {
      await lab.unwire(tenth, node);
    }
  }

  async function compared(objects: readonly object[], further: readonly string[] = []): Promise<string> {
    await lab.apply(objects);
    const index = indexOf(objects);
    const answers = await askLab(lab, matrix([...NINE_PODS.map(({ key }) => key), ...further]));
    return answersText(answers, (question) => askEvaluator(index, lab, question));
  }
});

function withPadding({ group, name, steps }: GeneratedCase): GeneratedCase {
  const paddedSteps = steps.map((step) => ({ ...step, policies: padded(step.policies) }));
  return { group, name: `${name}, padded`, steps: paddedSteps };
}
