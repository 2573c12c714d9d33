import assert from "node:assert/strict";
import * as fc from "fast-check";
import { parseAddress, FAMILIES } from "../../../../kernel/ip/address.ts";
import { readManifests } from "../../../../cli/input/manifests.ts";
import { lintContext } from "../../../../cli/policy/lint/context.ts";
import { ruleCovers, selectorCovers } from "../../../../cli/policy/lint/coverage.ts";
import { lint } from "../../../../cli/policy/lint/lint.ts";
import { redundant } from "../../../../cli/policy/lint/rules/redundant.ts";
import { nameOf } from "../../../../objects/gate/gate.ts";
import { isAllowed } from "../../../../objects/semantics/policies/evaluate.ts";
import type { Flow, FlowEnd, Traffic } from "../../../../objects/semantics/policies/flow.ts";
import { matchRule } from "../../../../objects/semantics/policies/match.ts";
import { resolveFlow } from "../../../../objects/semantics/policies/party.ts";
import { buildPolicyIndex, type PolicyIndex } from "../../../../objects/semantics/policies/policy_index.ts";
import { storeOf } from "../../../../cli/cluster/policy_objects.ts";
import { memoryFiles } from "../../../support/cli/cli.ts";
import { show } from "../../../support/policy/question.ts";
import { policyCases } from "../../../support/policy/arbitrary_cluster.ts";
import { NUMBERS } from "../../../support/policy/arbitrary_words.ts";
import { manifestsOf, type RawCluster } from "../../../support/policy/raw_cluster.ts";
import { countedSeed, roundsFor } from "../../../support/long_form.ts";

const CLUSTERS = roundsFor("random clusters", 20, 200);
/** Addresses that no end has, some of them in networks that policies name. */
const OUTSIDE = ["203.0.113.9", "10.1.9.9", "192.0.2.9", "192.0.2.70", "10.244.9.9", "2001:db8::9", "fd00::9"];

const manifestsIn = (cluster: RawCluster): ReturnType<typeof readManifests> => {
  const json = manifestsOf(cluster)
    .map((object) => JSON.stringify(object))
    .join("\n");
  return readManifests(memoryFiles({ "a.json": json }), ["a.json"], false);
};

const TRAFFIC: readonly Traffic[] = [
  { protocol: "ICMP" },
  ...(["TCP", "UDP"] as const).flatMap((protocol) => [...NUMBERS, 1].map((port): Traffic => ({ protocol, port }))),
];

/** Yields every flow between all ends, at the ports that policies name and at one that none names. */
function* flows({ pods, nodes }: PolicyIndex): Generator<Flow> {
  const ends: readonly FlowEnd[] = [
    ...[...pods.keys()].map((key): FlowEnd => ({ type: "pod", key })),
    ...[...nodes.keys()].map((name): FlowEnd => ({ type: "node", name })),
    ...OUTSIDE.map((text): FlowEnd => ({ type: "address", address: parseAddress(text) })),
  ];
  for (const source of ends) {
    for (const destination of ends) {
      if (source.type !== "pod" && destination.type !== "pod") continue;
      const ways = source === destination ? [false, true] : [false];
      for (const family of FAMILIES) {
        const flowEnds = ways.map((isThroughService) => ({ source, destination, family, isThroughService }));
        for (const traffic of TRAFFIC) yield* flowEnds.map((one): Flow => ({ ...one, ...traffic }));
      }
    }
  }
}

describe("policy lint on random clusters", () => {
  it("LINT-11: removing all policies that are found redundant changes the verdict of no flow", function () {
    this.timeout(120_000);
    let count = 0;
    fc.assert(
      fc.property(policyCases, ({ cluster }) => {
        const manifests = manifestsIn(cluster);
        const found = new Set(lint(manifests, [redundant]).map(({ place }) => place.object));
        if (found.size === 0) return;
        count += found.size;
        const objects = manifests.manifests.map(({ object }) => object);
        const [all, rest] = [objects, objects.filter((object) => !found.has(nameOf(object)))].map((some) =>
          buildPolicyIndex(storeOf(some)),
        );
        assert.ok(all !== undefined && rest !== undefined);
        for (const flow of flows(all)) {
          if (isAllowed(all, flow) !== isAllowed(rest, flow)) assert.fail(`${[...found].join()}: ${show(flow)}`);
        }
      }),
      { numRuns: CLUSTERS, seed: countedSeed() },
    );
    assert.ok(count > CLUSTERS / 10, `${count} redundant policies`);
  });

  it("LINT-11: a rule that is found to cover another matches all that the other matches", function () {
    this.timeout(120_000);
    const count = { rules: 0, subjects: 0 };
    fc.assert(
      fc.property(policyCases, ({ cluster }) => {
        const { networkSites, networkPolicies, namespaces, index } = lintContext(manifestsIn(cluster));
        for (const one of networkPolicies) {
          for (const other of networkPolicies) {
            if (one === other || one.policy.namespace !== other.policy.namespace) continue;
            if (!selectorCovers(one.policy.podSelector, other.policy.podSelector)) continue;
            count.subjects++;
            assert.ok(other.pods.every((pod) => one.pods.includes(pod)));
          }
        }
        const pairs = networkSites.flatMap((outer) =>
          networkSites.flatMap((inner) => {
            const { namespace } = inner.linted.policy;
            if (outer === inner || outer.direction !== inner.direction) return [];
            if (outer.linted.policy.namespace !== namespace) return [];
            return ruleCovers(outer.rule, inner.rule, namespaces.get(namespace)) ? [{ outer, inner }] : [];
          }),
        );
        if (pairs.length === 0) return;
        count.rules += pairs.length;
        for (const flow of flows(index)) {
          const resolved = resolveFlow(index, flow);
          if ("kind" in resolved) continue;
          for (const { outer, inner } of pairs) {
            const [wide, narrow] = [outer, inner].map(({ indexed, direction }) =>
              matchRule(indexed, direction, resolved, flow),
            );
            if (narrow !== undefined && wide === undefined) assert.fail(`${JSON.stringify(inner.rule)}: ${show(flow)}`);
          }
        }
      }),
      { numRuns: CLUSTERS, seed: countedSeed() },
    );
    assert.ok(count.rules > CLUSTERS / 10 && count.subjects > CLUSTERS / 10, JSON.stringify(count));
  });
});
