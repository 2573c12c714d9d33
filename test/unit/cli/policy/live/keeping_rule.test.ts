import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { Connection } from "../../../../../cli/policy/live/connection.ts";
import { forecast } from "../../../../../cli/policy/live/forecast.ts";
import { type KeepingRule, keepingRules } from "../../../../../cli/policy/live/keeping_rule.ts";
import { type Address, familyOf, parseAddress } from "../../../../../kernel/ip/address.ts";
import { buildPolicyIndex, type PolicyIndex } from "../../../../../objects/semantics/policies/policy_index.ts";
import { storeOf } from "../../../../support/evaluate/store.ts";
import { show } from "../../../../support/policy/question.ts";
import { policyCases } from "../../../../support/policy/arbitrary_cluster.ts";
import { manifestsOf, type RawCluster, type RawNetworkPolicy } from "../../../../support/policy/raw_cluster.ts";
import { countedSeed, roundsFor } from "../../../../support/long_form.ts";

const CLUSTERS = roundsFor("random clusters", 50, 200);
const OUTSIDE = ["8.8.8.8", "2001:db8::8"];
const PORTS = [80, 81, 8080];

const indexOf = (cluster: RawCluster): PolicyIndex => buildPolicyIndex(storeOf(manifestsOf(cluster)), {});

/** Returns connections from every address to every other of its family, at some ports. */
function connectionsIn({ pods }: RawCluster): readonly Connection[] {
  const addresses = [...pods.flatMap(({ status }) => (status.podIPs ?? []).map(({ ip }) => ip)), ...OUTSIDE].map((ip) =>
    parseAddress(ip),
  );
  return addresses.flatMap((source) =>
    addresses
      .filter((destination) => destination !== source && familyOf(destination) === familyOf(source))
      .flatMap((destination) =>
        PORTS.map((port): Connection => {
          const asked = { asked: destination, askedPort: port };
          return { protocol: "TCP", source, sourcePort: 40_000, ...asked, destination, port };
        }),
      ),
  );
}

/** Returns the cluster with rules added to its policies. */
function withRules(cluster: RawCluster, rules: readonly KeepingRule[]): RawCluster {
  const networkPolicies = cluster.networkPolicies.map((policy): RawNetworkPolicy => {
    const { name, namespace } = policy.metadata;
    const own = rules.filter((rule) => rule.policy === `${namespace}/${name}`);
    const { ingress, egress } = policy.spec;
    return {
      ...policy,
      spec: {
        ...policy.spec,
        ingress: [...(ingress ?? []), ...own.filter((one) => one.direction === "ingress").map(({ rule }) => rule)],
        egress: [...(egress ?? []), ...own.filter((one) => one.direction === "egress").map(({ rule }) => rule)],
      },
    };
  });
  return { ...cluster, networkPolicies };
}

describe("cli/policy/live: rules that keep connections", () => {
  it("LIVE-04: in random clusters the suggested rules keep every connection that a rule can keep", () => {
    let [cuts, kept] = [0, 0];
    fc.assert(
      fc.property(policyCases, ({ cluster }) => {
        const before = indexOf({ ...cluster, networkPolicies: [], clusterNetworkPolicies: [] });
        const after = indexOf(cluster);
        // A rule is for one pod at an address: it does not keep what another pod with that address may not send.
        const isShared = (address: Address): boolean => (after.owners.get(address)?.length ?? 0) > 1;
        const connections = connectionsIn(cluster).filter((one) => !isShared(one.source) && !isShared(one.destination));
        const suggested = forecast({ before, after }, connections).cuts.map((cut) => ({
          cut,
          rules: keepingRules(after, cut),
        }));
        const rules = suggested.flatMap((one) => one.rules.filter((rule) => "rule" in rule));
        const lost = new Set(
          suggested.filter((one) => one.rules.some((rule) => "reason" in rule)).flatMap(({ cut }) => cut.connections),
        );
        const still = forecast({ before, after: indexOf(withRules(cluster, rules)) }, connections);
        for (const { connections: left } of still.cuts) {
          for (const one of left) assert.ok(lost.has(one), show({ one, rules }));
        }
        cuts += suggested.length;
        kept += suggested.filter((one) => one.rules.every((rule) => "rule" in rule)).length;
      }),
      { numRuns: CLUSTERS, seed: countedSeed() },
    );
    assert.ok(cuts > CLUSTERS && kept > cuts / 4, `${kept} of ${cuts}`);
  });
});
