import assert from "node:assert/strict";
import { pokesOf } from "../../../support/policy/cnp_conformance/conformance_case.ts";
import { CONFORMANCE_CASES } from "../../../support/policy/cnp_conformance/conformance_cases.ts";
import { NEWER_CASES } from "../../../support/policy/cnp_conformance/newer_cases.ts";
import { HogwartsLab } from "../../../support/policy/lab/hogwarts_lab.ts";
import { requireBridgeNetfilter, requireKernel } from "../../../support/privilege.ts";

/** Runs each case between a node where bridged frames pass the IP hooks, and one where they do not. */
describe("the conformance tests of ClusterNetworkPolicy with packets", function () {
  this.timeout(300_000);
  let hogwarts: HogwartsLab | undefined;

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    hogwarts = await HogwartsLab.create({ node1: true, node2: false });
  });
  after(() => hogwarts?.lab.close());

  it("CNP-11: all 24 tests of v0.2.0 are here once with their 92 subtests, each of which sends something", () => {
    const subtests = CONFORMANCE_CASES.flatMap((one) => one.subtests);
    assert.equal(new Set(CONFORMANCE_CASES.map(({ name }) => name)).size, 24);
    assert.deepEqual([CONFORMANCE_CASES.length, subtests.length], [24, 92]);
    assert.ok(subtests.every((subtest) => pokesOf(subtest).length > 0));
  });

  for (const { name, subtests } of [...CONFORMANCE_CASES, ...NEWER_CASES]) {
    for (const subtest of subtests) {
      it(`CNP-11: ${name} with packets: ${subtest.name} (${subtest.behaviour})`, async () => {
        assert.deepEqual(await hogwarts?.failures(subtest), []);
      });
    }
  }
});
