import assert from "node:assert/strict";
import * as fc from "fast-check";
import { includes } from "../../../../../cli/policy/connections/connection_set.ts";
import { ConnectionReader } from "../../../../../cli/policy/connections/connections_between.ts";
import type { Connections } from "../../../../../cli/policy/connections/pod_connections.ts";
import { regionEnd } from "../../../../../cli/policy/outside_region.ts";
import { type Matrix, matrixOf } from "../../../../../cli/policy/matrix/matrix.ts";
import { cidrContains, lastAddress, networkAddress } from "../../../../../kernel/ip/cidr.ts";
import { parseAddress, FAMILIES } from "../../../../../kernel/ip/address.ts";
import type { Pod } from "../../../../../objects/model.ts";
import { isAllowed } from "../../../../../objects/semantics/policies/evaluate.ts";
import type { FlowEnd, FlowEnds, Traffic } from "../../../../../objects/semantics/policies/flow.ts";
import { familiesOf } from "../../../../../objects/semantics/policies/party.ts";
import type { PolicyIndex } from "../../../../../objects/semantics/policies/policy_index.ts";
import { policyCases } from "../../../../support/policy/arbitrary_cluster.ts";
import { indexOf as indexByDefaults, show, trafficsIn } from "../../../../support/policy/question.ts";
import { manifestsOf, type RawCluster, type RawPod } from "../../../../support/policy/raw_cluster.ts";
import { countedSeed, roundsFor } from "../../../../support/long_form.ts";

const ROUNDS = roundsFor("rounds", 40, 2000);

/**
 * Returns an index of the cluster. For half of the clusters its nodes police what pods send to them, and every third
 * address is the nodes' own DNS.
 */
function indexOf(manifests: Parameters<typeof indexByDefaults>[0]): PolicyIndex {
  const index = indexByDefaults(manifests);
  // The random sizes choose half of the clusters.
  if ((index.pods.size + index.networkPolicies.length) % 2 === 0) return index;
  const nodeLocalDNS = [...index.owners.keys()].filter((_, i) => i % 3 === 0);
  return { ...index, options: { policePodToOwnNode: true, nodeLocalDNS } };
}

describe("cli/policy/matrix: against the evaluator, port by port", function () {
  this.timeout(300_000);

  it("MATRIX-01: connections are what the evaluator allows, on both sides of every named port", () => {
    let [allowed, denied] = [0, 0];
    fc.assert(
      fc.property(policyCases, fc.boolean(), ({ cluster }, isThroughService) => {
        const manifests = manifestsOf(cluster);
        const index = indexOf(manifests);
        const questions = trafficsIn(manifests);
        const reader = new ConnectionReader(index);
        for (const ends of pairsOf(endsOf(index))) {
          for (const family of FAMILIES) {
            const asked = { ...ends, family, isThroughService };
            const set = reader.between(asked);
            for (const traffic of questions) {
              const expected = isAllowed(index, { ...asked, ...traffic });
              if (expected) allowed++;
              else denied++;
              const actual =
                set !== undefined &&
                (traffic.port === undefined ? set.icmp : includes(set, traffic.protocol, traffic.port));
              if (actual !== expected) assert.fail(`${actual}, expected ${expected}: ${show({ asked, traffic })}`);
            }
          }
        }
      }),
      { numRuns: ROUNDS, seed: countedSeed() },
    );
    assert.ok(Math.min(allowed, denied) > 100 * ROUNDS, `${allowed} allowed, ${denied} denied`);
  });

  for (const by of ["pod", "namespace", "workload"] as const) {
    it(`MATRIX-02: cells by ${by} agree with the verdicts of all pairs of pods`, () => {
      const seen = { no: 0, some: 0, yes: 0 };
      fc.assert(
        fc.property(policyCases, ({ cluster }) => {
          const manifests = manifestsOf(crowded(cluster));
          const index = indexOf(manifests);
          checkCells(index, matrixOf(index, by), trafficsIn(manifests), seen);
        }),
        { numRuns: Math.ceil(ROUNDS / 5), seed: countedSeed() },
      );
      assert.ok(
        Object.values(seen).every((count) => count > ROUNDS),
        JSON.stringify(seen),
      );
    });
  }

  it("MATRIX-07: cells between pods and the outside, also by domain names, agree with the evaluator for each address at an edge", () => {
    const seen = { no: 0, some: 0, yes: 0 };
    let names = 0;
    fc.assert(
      fc.property(policyCases, ({ cluster }) => {
        const manifests = manifestsOf(cluster);
        const index = indexOf(manifests);
        const questions = trafficsIn(manifests);
        const matrix = matrixOf(index, "pod");
        const ends = new Set([...matrix.sources, ...matrix.destinations]);
        // A domain name may be in several parts.
        const parts = [...ends].flatMap((one) => one.regions.map((region) => ({ ...one, regions: [region] })));
        for (const end of parts) {
          const [region = assert.fail()] = end.regions;
          if (region.asked !== undefined) names++;
          const edges = [region.representative, networkAddress(region.prefix), lastAddress(region.prefix)];
          const inside = edges.filter(
            (one) => !index.owners.has(one) && !region.except.some((prefix) => cidrContains(prefix, one)),
          );
          for (const group of matrix.groups) {
            for (const [from, to] of [
              [end, group],
              [group, end],
            ] as const) {
              if (from === end && region.asked !== undefined) continue;
              const connections = matrix.between(from, to);
              for (const traffic of questions) {
                const answers = inside.map((address) => {
                  const both = [from, to].map(({ pods: [pod] }): FlowEnd =>
                    pod === undefined
                      ? regionEnd({ ...region, representative: address })
                      : { type: "pod", key: pod.key },
                  );
                  const [source, destination] = both;
                  assert.ok(source !== undefined && destination !== undefined);
                  return isAllowed(index, { source, destination, family: region.family, ...traffic });
                });
                assert.equal(new Set(answers).size, 1, "policies do not distinguish the addresses of a part");
                const expected = answers[0] === true ? "yes" : "no";
                seen[expected]++;
                assert.equal(answerTo(connections, traffic), expected);
              }
            }
          }
        }
      }),
      { numRuns: Math.ceil(ROUNDS / 5), seed: countedSeed() },
    );
    assert.ok(Math.min(seen.no, seen.yes) > ROUNDS && names > 0, `${JSON.stringify(seen)} ${names}`);
  });
});

function checkCells(
  index: PolicyIndex,
  matrix: Matrix,
  questions: readonly Traffic[],
  seen: Record<"no" | "some" | "yes", number>,
): void {
  for (const from of matrix.groups) {
    for (const to of matrix.groups) {
      const pairs = from.pods.flatMap((source) => to.pods.map((destination) => [source, destination] as const));
      const different = pairs.filter(([source, destination]) => source !== destination);
      const cases = (different.length > 0 ? different : pairs).flatMap(([source, destination]) =>
        casesOf(index, source, destination),
      );
      const connections = matrix.between(from, to);
      for (const traffic of questions) {
        const answers = cases.map((ends) => ends !== undefined && isAllowed(index, { ...ends, ...traffic }));
        const expected = answers.every(Boolean) ? "yes" : answers.some(Boolean) ? "some" : "no";
        seen[expected]++;
        if (answerTo(connections, traffic) !== expected)
          assert.fail(`expected ${expected}: ${from.name} -> ${to.name} ${show(traffic)}`);
      }
    }
  }
}

/** Returns the ends in each family that both have; undefined without a common one. */
function casesOf(index: PolicyIndex, source: Pod, destination: Pod): readonly (FlowEnds | undefined)[] {
  const ends = {
    source: { type: "pod", key: source.key },
    destination: { type: "pod", key: destination.key },
  } as const;
  const families = familiesOf(index, ends) ?? [undefined];
  return families.length === 0 ? [undefined] : families.map((family) => ({ ...ends, family }));
}

function answerTo(connections: Connections | undefined, traffic: Traffic): "no" | "some" | "yes" {
  const [some, every] = [connections?.some, connections?.every].map(
    (set) =>
      set !== undefined && (traffic.port === undefined ? set.icmp : includes(set, traffic.protocol, traffic.port)),
  );
  return every === true ? "yes" : some === true ? "some" : "no";
}

/** Returns every pod, every node, and an unused address in each family. */
function endsOf(index: PolicyIndex): readonly FlowEnd[] {
  const pods = [...index.pods.keys()].map((key) => ({ type: "pod", key }) as const);
  const nodes = [...index.nodes.keys()].map((name) => ({ type: "node", name }) as const);
  const outside = ["10.1.2.3", "fd00:1::5"].map(
    (address) => ({ type: "address", address: parseAddress(address) }) as const,
  );
  return [...pods, ...nodes, ...outside];
}

function pairsOf(ends: readonly FlowEnd[]): readonly FlowEnds[] {
  return ends.flatMap((source) => ends.map((destination) => ({ source, destination })));
}

/** Adds pods that are alike, on one node and on two, of controllers and of the host's network. */
function crowded(cluster: RawCluster): RawCluster {
  const twins = cluster.pods.flatMap((pod, number) =>
    ["node1", "node2"].map((nodeName): RawPod => {
      const podIPs = (pod.status.podIPs ?? []).map(({ ip }) => ({
        ip: ip.replace(/5$/, nodeName === "node1" ? "6" : "7"),
      }));
      const isOnHost = number === 0 || pod.spec.hostNetwork === true;
      return {
        ...pod,
        metadata: { ...pod.metadata, name: `${pod.metadata.name}-${nodeName}`, ...controlledBy(number % 3) },
        spec: { ...pod.spec, nodeName, ...(isOnHost ? { hostNetwork: true } : {}) },
        status: { ...pod.status, podIPs: isOnHost ? [] : podIPs },
      };
    }),
  );
  return { ...cluster, pods: [...cluster.pods.slice(0, 4), ...twins] };
}

function controlledBy(number: number): object {
  return { ownerReferences: [{ apiVersion: "apps/v1", kind: "StatefulSet", name: `s${number}`, controller: true }] };
}
