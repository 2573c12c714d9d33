import assert from "node:assert/strict";
import { judge } from "../../../../../policyd/objects/gate/gate.ts";
import {
  type ConformanceSubtest,
  type Poke,
  pokesOf,
} from "../../../../support/policy/cnp_conformance/conformance_case.ts";
import { CONFORMANCE_CASES } from "../../../../support/policy/cnp_conformance/conformance_cases.ts";
import { addressesOf, hogwarts, keyOf, PLACEMENTS } from "../../../../support/policy/cnp_conformance/hogwarts.ts";
import { NEWER_CASES } from "../../../../support/policy/cnp_conformance/newer_cases.ts";
import { ask, indexOf } from "../../../../support/policy/question.ts";

/** The tests of v0.2.0 and the number of subtests of each. */
const SUITE = {
  CNPAdminTierEgressTCP: 6,
  CNPAdminTierEgressUDP: 6,
  CNPAdminTierEgressSCTP: 6,
  CNPAdminTierIngressTCP: 6,
  CNPAdminTierIngressUDP: 6,
  CNPAdminTierIngressSCTP: 6,
  CNPAdminTierGress: 6,
  CNPAdminTierIntegration: 6,
  CNPAdminTierPriorityField: 3,
  CNPAdminTierEgressInlineCIDRPeers: 2,
  CNPAdminTierEgressNodePeers: 3,
  CNPAdminTierEgressNamedPort: 1,
  CNPAdminTierIngressNamedPort: 1,
  CNPBaselineTierEgressTCP: 4,
  CNPBaselineTierEgressUDP: 4,
  CNPBaselineTierEgressSCTP: 4,
  CNPBaselineTierIngressTCP: 4,
  CNPBaselineTierIngressUDP: 4,
  CNPBaselineTierIngressSCTP: 4,
  CNPBaselineTierGress: 4,
  CNPBaselineTierEgressInlineCIDRPeers: 2,
  CNPBaselineTierEgressNodePeers: 2,
  CNPBaselineTierEgressNamedPort: 1,
  CNPBaselineTierIngressNamedPort: 1,
};

describe("policyd/semantics/policies: the conformance tests of ClusterNetworkPolicy's own repository", () => {
  it("CNP-11: all 24 tests are here once with their 92 subtests, each of which sends something", () => {
    assert.deepEqual(Object.fromEntries(CONFORMANCE_CASES.map(({ name, subtests }) => [name, subtests.length])), SUITE);
    assert.equal(CONFORMANCE_CASES.length, 24);
    const subtests = CONFORMANCE_CASES.flatMap((one) => one.subtests);
    assert.equal(subtests.length, 92);
    assert.ok(subtests.every((subtest) => pokesOf(subtest).length > 0));
  });

  it("CNP-11: the policies of all tests are accepted without problems", () => {
    const policies = [...CONFORMANCE_CASES, ...NEWER_CASES].flatMap(({ subtests }) =>
      subtests.flatMap((subtest) => subtest.policies),
    );
    for (const policy of policies) {
      const verdict = judge(policy);
      assert.ok(verdict.type === "accepted", JSON.stringify(policy));
      assert.deepEqual(verdict.problems, []);
    }
  });

  for (const { name, subtests } of CONFORMANCE_CASES) {
    for (const subtest of subtests) {
      it(`CNP-11: ${name}: ${subtest.name} (${subtest.behaviour})`, () => assert.deepEqual(failures(subtest), []));
    }
  }

  describe("tests that were added after v0.2.0", () => {
    for (const { name, subtests } of NEWER_CASES) {
      for (const subtest of subtests) {
        it(`CNP-11: ${name}: ${subtest.name} (${subtest.behaviour})`, () => assert.deepEqual(failures(subtest), []));
      }
    }
  });
});

/** The pokes whose outcome differs from upstream's, for any placement of the pods and any name of the server. */
function failures(subtest: ConformanceSubtest): readonly string[] {
  return Object.entries(PLACEMENTS).flatMap(([where, placement]) => {
    const index = indexOf([...hogwarts(placement), ...subtest.policies]);
    return pokesOf(subtest).flatMap((poke) =>
      serverNames(poke).flatMap((server) => {
        const { kind } = ask(index, [keyOf(poke.from), server], poke.traffic, {
          isThroughService: poke.isThroughService,
        });
        const expected = poke.isAllowed ? "allowed" : "denied";
        return kind === expected ? [] : [`${where}: ${poke.from} -> ${server} ${poke.traffic}: ${kind}`];
      }),
    );
  });
}

/** The server's name and its addresses; upstream uses the first address. */
function serverNames({ to }: Poke): readonly string[] {
  return [keyOf(to), ...addressesOf(to)];
}
