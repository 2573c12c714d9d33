import assert from "node:assert/strict";
import { dualStack } from "../../../support/policy/lab/dual_stack.ts";
import { ninePodLab, ninePods, twinsIn } from "../../../support/policy/lab/nine_pods.ts";
import type { PolicyLab } from "../../../support/policy/lab/policy_lab.ts";
import { askLab, matrix, type Traffic } from "../../../support/policy/lab/question.ts";
import { answersText } from "../../../support/policy/lab/tables.ts";
import { requireBridgeNetfilter, requireKernel } from "../../../support/privilege.ts";
import { KEYS } from "../../../support/policy/three_by_three.ts";
import type { UpstreamCase, UpstreamStep } from "../../../support/policy/upstream_case.ts";
import { UPSTREAM_CASES } from "../../../support/policy/upstream_cases.ts";

/**
 * Runs the cases of Kubernetes' own network policy tests with packets. They run before the first test, at the same time
 * in the labs of both states of br_netfilter; each test then checks the result of one case.
 */
describe("upstream's network policy cases with packets", function () {
  this.timeout(600_000);
  const runs = new Map<boolean, Promise<ReadonlyMap<number, string>>>();

  before(async function () {
    requireKernel(this);
    for (const bridgeNetfilter of [true, false]) runs.set(bridgeNetfilter, run(bridgeNetfilter));
    await Promise.allSettled(runs.values());
  });

  it("POL-61: all upstream cases from 1 to 48 are here, once", () => {
    assert.deepEqual(
      UPSTREAM_CASES.map(({ number }) => number),
      Array.from({ length: 48 }, (_, index) => index + 1),
    );
  });

  for (const bridgeNetfilter of [true, false]) {
    describe(`br_netfilter ${bridgeNetfilter ? "on" : "off"}`, () => {
      before(function () {
        if (bridgeNetfilter) requireBridgeNetfilter(this);
      });

      for (const { number, name } of UPSTREAM_CASES) {
        it(`POL-61: upstream ${number} with packets, both families: ${name}`, async () => {
          const differences = await runs.get(bridgeNetfilter);
          assert.equal(differences?.get(number), "");
        });
      }
    });
  }
});

/** Runs all cases, and returns the differences from each case's expectation, by its number. */
async function run(bridgeNetfilter: boolean): Promise<ReadonlyMap<number, string>> {
  const lab = await ninePodLab({
    name: `upstream-${bridgeNetfilter ? "on" : "off"}`,
    bridgeNetfilter: { node1: bridgeNetfilter, node2: bridgeNetfilter },
  });
  try {
    const differences = new Map<number, string>();
    for (const one of UPSTREAM_CASES) differences.set(one.number, await differencesOf(lab, one));
    return differences;
  } finally {
    await lab.close();
  }
}

async function differencesOf(lab: PolicyLab, { steps }: UpstreamCase): Promise<string> {
  const texts: string[] = [];
  for (const [place, step] of steps.entries()) {
    const text = await differenceOf(lab, step);
    if (text !== "") texts.push(`step ${place + 1}\n${text}`);
  }
  return texts.join("\n");
}

async function differenceOf(
  lab: PolicyLab,
  { policies, labels, protocol, port, isDenied }: UpstreamStep,
): Promise<string> {
  await lab.apply([...ninePods(lab, labels), ...dualStack(policies, twinsIn(lab))]);
  const traffic: Traffic = `${port}/${protocol}`;
  const answers = await askLab(lab, matrix(KEYS, [traffic]));
  const expect = ({ from, to }: { readonly from: string; readonly to: string }) =>
    from !== to && isDenied(from, to) ? "X" : ".";
  return answersText(answers, expect);
}
