import assert from "node:assert/strict";
import * as fc from "fast-check";
import { diffPolicies, type GroupChange, sizeFor } from "../../../../../cli/policy/diff/diff.ts";
import type { EndGroup } from "../../../../../cli/policy/diff/end_class.ts";
import { mergeAlike } from "../../../../../cli/policy/diff/merge.ts";
import type { Cause, PairChange } from "../../../../../cli/policy/diff/pair_change.ts";
import { includes } from "../../../../../cli/policy/connections/connection_set.ts";
import {
  type Address,
  addressPlus,
  type Family,
  familyOf,
  parseAddress,
  FAMILIES,
} from "../../../../../kernel/ip/address.ts";
import { cidrContains, lastAddress, networkAddress, parseCidr } from "../../../../../kernel/ip/cidr.ts";
import type { Pod } from "../../../../../objects/model.ts";
import { isFinished } from "../../../../../objects/semantics/policies/address_owner.ts";
import { evaluatePolicy } from "../../../../../objects/semantics/policies/evaluate.ts";
import type { Flow, FlowEnd, FlowEnds, Traffic } from "../../../../../objects/semantics/policies/flow.ts";
import { familiesOf } from "../../../../../objects/semantics/policies/party.ts";
import { buildPolicyIndex, type PolicyIndex } from "../../../../../objects/semantics/policies/policy_index.ts";
import type { PolicyVerdict } from "../../../../../objects/semantics/policies/verdict.ts";
import { storeOf } from "../../../../support/evaluate/store.ts";
import { show, trafficsIn } from "../../../../support/policy/question.ts";
import { policyCases } from "../../../../support/policy/arbitrary_cluster.ts";
import { manifestsOf, type RawCluster, type RawPod } from "../../../../support/policy/raw_cluster.ts";
import { countedSeed, hasLongForm } from "../../../../support/long_form.ts";

const isFull = hasLongForm("2,000 random changes in place of 10");
const PAIRS = isFull ? 2000 : 10;
/** The rounds of properties about the list of changes. */
const LISTS = isFull ? 200 : 15;
const MOST_OUTSIDE = 8;
const TWINS = 2;

/** Generates a cluster and its successor, which has some policies, pods, namespaces and nodes of another cluster. */
const clusterPairs = fc
  .record({
    first: policyCases,
    second: policyCases,
    pods: fc.array(fc.constantFrom(true, false, false, false), { minLength: 8, maxLength: 8 }),
    policies: fc.array(fc.constantFrom(0, 1, 1, 1, 2), { minLength: 24, maxLength: 24 }),
    lost: fc.array(fc.constantFrom("before", "after", "", "", "", "", ""), { minLength: 8, maxLength: 8 }),
    areNamespacesOthers: fc.constantFrom(true, false, false),
    areNodesOthers: fc.constantFrom(true, false, false),
  })
  .map(({ first: { cluster: first }, second: { cluster: second }, ...choice }): readonly [RawCluster, RawCluster] => {
    const mixed = <T>(ours: readonly T[], theirs: readonly T[]): readonly T[] => [
      ...ours.filter((_, place) => choice.policies[place] !== 0),
      ...theirs.filter((_, place) => choice.policies[place + 12] === 2),
    ];
    const after: RawCluster = {
      namespaces: (choice.areNamespacesOthers ? second : first).namespaces,
      nodes: (choice.areNodesOthers ? second : first).nodes,
      pods: first.pods.map((pod, place) => {
        const other = second.pods[place];
        if (choice.pods[place] !== true || other === undefined) return pod;
        return {
          ...other,
          metadata: { ...other.metadata, name: pod.metadata.name, namespace: pod.metadata.namespace },
        };
      }),
      networkPolicies: mixed(first.networkPolicies, second.networkPolicies),
      clusterNetworkPolicies: mixed(first.clusterNetworkPolicies, second.clusterNetworkPolicies),
    };
    const without = (cluster: RawCluster, side: string): RawCluster => ({
      ...cluster,
      pods: cluster.pods.filter((_, place) => choice.lost[place] !== side),
    });
    return [without(withTwins(first), "before"), without(withTwins(after), "after")];
  });

/**
 * Adds the first pods a second time, with other addresses of the same networks, so that policies cannot distinguish
 * them.
 */
function withTwins(cluster: RawCluster): RawCluster {
  const twins = cluster.pods.slice(0, TWINS).map((pod): RawPod => {
    const podIPs = (pod.status.podIPs ?? []).map(({ ip }) => ({ ip: ip.replace(/5$/, "6") }));
    const metadata = { ...pod.metadata, name: `${pod.metadata.name}-2` };
    return { ...pod, metadata, status: { ...pod.status, podIPs } };
  });
  return { ...cluster, pods: [...cluster.pods, ...twins] };
}

describe("cli/policy/diff: random pairs of clusters", () => {
  it("DIFF-01: the diff is what a comparison of every pair of ends on every port finds", function () {
    this.timeout(isFull ? 3_600_000 : 120_000);
    let changed = 0;
    let unchanged = 0;
    let oneSided = 0;
    fc.assert(
      fc.property(clusterPairs, ([first, second]) => {
        const [before, after] = [first, second].map((one) => buildPolicyIndex(storeOf(manifestsOf(one))));
        assert.ok(before !== undefined && after !== undefined);
        const { changes, appeared, gone } = diffPolicies({ before, after }, "pod");
        const isThere = (end: FlowEnd, others: readonly string[]): boolean =>
          end.type !== "pod" || !others.includes(end.key);
        const sidesOf = ({ source, destination }: Pick<Flow, "source" | "destination">): PolicyIndex[] => [
          ...([source, destination].every((end) => isThere(end, appeared.pods)) ? [before] : []),
          ...([source, destination].every((end) => isThere(end, gone.pods)) ? [after] : []),
        ];
        const found = Map.groupBy(changes, ({ from, to }) => `${from.name} > ${to.name}`);
        const regions = changes.flatMap(({ from, to }) => [from, to]).filter(({ kind }) => kind === "outside");
        const nameOf = (end: FlowEnd): string => {
          if (end.type === "pod") return end.key;
          return end.type === "node"
            ? `node/${end.name}`
            : (regions.find(({ name }) => isIn(name, end.address))?.name ?? "");
        };
        // Where neither end has an address, a packet may be of either family.
        const familiesBetween = (ends: FlowEnds): readonly (Family | undefined)[] =>
          sidesOf(ends).every((index) => familiesOf(index, ends) === undefined) ? [undefined] : FAMILIES;
        const isPossible = (flow: Flow): boolean =>
          sidesOf(flow).every((index) => evaluatePolicy(index, flow).kind !== "impossible");
        const traffics = trafficsIn([first, second]);
        const ends = endsOf([first, second]).filter(
          (end) => end.type !== "pod" || [before, after].some(({ pods }) => isRunning(pods.get(end.key)?.pod)),
        );
        for (const [pair, flows] of flowsOf(ends, traffics, familiesBetween, isPossible)) {
          // A new pod's connections to itself do not count, and a new pod of the host's network is its node.
          const here = sidesOf({ source: pair[0], destination: pair[1] });
          const isPoliced = pair.some((end) => here.some((index) => isSubject(index, end)));
          if (here.length < 2 && (pair[0] === pair[1] || !isPoliced)) continue;
          const reported = found.get(pair.map(nameOf).join(" > ")) ?? [];
          for (const flow of flows) {
            const sides = sidesOf(flow);
            const kindIn = (index: PolicyIndex): PolicyVerdict["kind"] =>
              sides.includes(index) ? evaluatePolicy(index, flow).kind : "denied";
            const [was, is] = [kindIn(before), kindIn(after)];
            if (was === is) unchanged++;
            else changed++;
            if (was !== is && sides.length < 2) oneSided++;
            assert.ok(reported.every(({ change }) => (change.cause === "difference") === (sides.length === 2)));
            const expected: string = was === is ? "none" : is === "allowed" ? "added" : "removed";
            const got = reportedOf(reported, flow);
            if (got !== expected) assert.fail(`expected ${expected}, but the diff has ${got}: ${show(flow)}`);
          }
        }
      }),
      { numRuns: PAIRS, seed: countedSeed() },
    );
    assert.ok(changed > PAIRS * 100 && unchanged > changed / 2, `${changed} changed, ${unchanged} did not`);
    assert.ok(oneSided > PAIRS * 100, `only ${oneSided} changed since an end is on one side only`);
  });

  it("DIFF-02: groups are listed with the number of their pairs, the largest first", function () {
    this.timeout(120_000);
    fc.assert(
      fc.property(clusterPairs, ([first, second]) => {
        const [before, after] = [first, second].map((one) => buildPolicyIndex(storeOf(manifestsOf(one))));
        assert.ok(before !== undefined && after !== undefined);
        const [byPod, byNamespace] = (["pod", "namespace"] as const).map(
          (by) => diffPolicies({ before, after }, by).changes,
        );
        const counts = (all: readonly GroupChange[] = []) => {
          const sums = new Map<string, number>();
          for (const { from, to, change, pairs } of all) {
            const [source, destination] = [from, to].map(({ kind, name }) =>
              kind === "pods" ? name.split("/")[0] : name,
            );
            const key = [source, destination, change.type, change.cause, change.text, change.family].join(" ");
            sums.set(key, (sums.get(key) ?? 0) + pairs);
          }
          return Object.fromEntries([...sums].sort(([a], [b]) => (a < b ? -1 : 1)));
        };
        assert.deepEqual(counts(byNamespace), counts(byPod));
        assert.ok((byNamespace ?? []).every(({ pairs, of }) => pairs > 0 && pairs <= of));
        const order = (byNamespace ?? []).map(({ pairs }) => pairs);
        assert.deepEqual(
          order,
          order.toSorted((a, b) => b - a),
        );
      }),
      { numRuns: LISTS, seed: countedSeed() },
    );
  });

  it("DIFF-02: a merged change contains exactly the changes that are alike", function () {
    this.timeout(120_000);
    let merged = 0;
    fc.assert(
      fc.property(clusterPairs, fc.constantFrom("pod" as const, "workload" as const), ([first, second], by) => {
        const [before, after] = [first, second].map((one) => buildPolicyIndex(storeOf(manifestsOf(one))));
        assert.ok(before !== undefined && after !== undefined);
        const { changes, groups } = diffPolicies({ before, after }, by);
        const together = mergeAlike(changes, groups);
        const there = (cause: Cause) => groups.filter((group) => sizeFor(group, cause) > 0);
        merged += changes.length - together.length;
        const lines = together.flatMap(({ from, to, change, pairs, of }) =>
          from
            .flatMap((source) => expanded(source, there(change.cause)))
            .flatMap((source) =>
              to
                .flatMap((destination) => expanded(destination, there(change.cause)))
                .flatMap((destination) => {
                  const isPossible = source !== destination || sizeFor(source, change.cause) > 1;
                  return isPossible ? [lineOf(source, destination, change, pairs < of)] : [];
                }),
            ),
        );
        const expected = changes.map(({ from, to, change, pairs, of }) => lineOf(from, to, change, pairs < of));
        assert.deepEqual(lines.toSorted(), expected.toSorted());
        assert.equal(sumOf(together), sumOf(changes));
      }),
      { numRuns: LISTS, seed: countedSeed() },
    );
    assert.ok(merged > LISTS, `only ${merged} changes were put together`);
  });
});

function lineOf(from: EndGroup, to: EndGroup, { type, cause, text, family }: PairChange, isPartly: boolean): string {
  return [from.name, to.name, type, cause, text, family, isPartly].join(" ");
}

function sumOf(changes: readonly { readonly pairs: number }[]): number {
  return changes.reduce((sum, { pairs }) => sum + pairs, 0);
}

/** Returns the groups that a name in a merged change represents. */
function expanded(name: string, groups: readonly EndGroup[]): readonly EndGroup[] {
  const all = { "all pods": "pods", "all nodes": "nodes", outside: "outside", "all domain names": "domain names" };
  return groups.filter((group) => {
    if (Object.entries(all).some(([words, kind]) => words === name && kind === group.kind)) return true;
    return group.name === name || (group.kind === "pods" ? `${group.whole}/*` : group.whole) === name;
  });
}

/** Yields all traffic between each two ends of which policies may select one. */
function* flowsOf(
  ends: readonly FlowEnd[],
  traffics: readonly Traffic[],
  familiesBetween: (ends: FlowEnds) => readonly (Family | undefined)[],
  isPossible: (flow: Flow) => boolean,
): Generator<readonly [readonly [FlowEnd, FlowEnd], readonly Flow[]]> {
  for (const source of ends) {
    for (const destination of ends) {
      if (source.type === "address" && destination.type === "address") continue;
      const families = familiesBetween({ source, destination }).filter((family) =>
        isPossible({ source, destination, family, protocol: "ICMP" }),
      );
      const flows = families.flatMap((family) => traffics.map((one) => ({ source, destination, family, ...one })));
      yield [[source, destination], flows];
    }
  }
}

/** Returns the change that the diff lists for one connection. */
function reportedOf(reported: readonly GroupChange[], flow: Flow): string {
  const types = reported.flatMap(({ change }) => {
    if (change.family !== undefined && change.family !== flow.family) return [];
    const { connections } = change;
    const has = flow.port === undefined ? connections.icmp : includes(connections, flow.protocol, flow.port);
    return has ? [change.type] : [];
  });
  return types.join() || "none";
}

/** Returns the pods, the nodes, and unused addresses at and beside the edges of prefixes. */
function endsOf(clusters: readonly RawCluster[]): readonly FlowEnd[] {
  const [first, second] = clusters;
  assert.ok(first !== undefined && second !== undefined);
  const text = JSON.stringify(clusters);
  const addresses = clusters.flatMap(({ pods, nodes }) => [
    ...pods.flatMap(({ status }) => (status.podIPs ?? []).map(({ ip }) => ip)),
    ...nodes.flatMap(({ status }) =>
      status.addresses.filter(({ type }) => type !== "Hostname").map(({ address }) => address),
    ),
  ]);
  const owned = new Set(addresses.map((address) => parseAddress(address)));
  const prefixes = [...new Set(text.match(/"[0-9a-f.:]+\/\d+"/g) ?? [])].map((quoted) =>
    parseCidr(quoted.slice(1, -1)),
  );
  const edges = prefixes.flatMap((prefix): readonly (Address | undefined)[] => [
    networkAddress(prefix),
    lastAddress(prefix),
    addressPlus(lastAddress(prefix), 1n),
  ]);
  const outside = [...new Set([parseAddress("9.9.9.9"), parseAddress("2620::9"), ...edges])];
  const free = outside.filter((address) => address !== undefined && !owned.has(address));
  const some = [4, 6].flatMap((family) =>
    free.filter((address) => address !== undefined && familyOf(address) === family).slice(0, MOST_OUTSIDE),
  );
  return [
    ...[
      ...new Set(
        clusters.flatMap(({ pods }) => pods.map(({ metadata: { namespace, name } }) => `${namespace}/${name}`)),
      ),
    ].map((key): FlowEnd => ({ type: "pod", key })),
    ...first.nodes.map(({ metadata }): FlowEnd => ({ type: "node", name: metadata.name })),
    ...some.flatMap((address): readonly FlowEnd[] => (address === undefined ? [] : [{ type: "address", address }])),
  ];
}

/** Returns whether an address is in a range such as `outside 10.0.0.0/16 except 10.0.1.0/24, 10.0.2.0/24`. */
function isIn(name: string, address: Address): boolean {
  const [prefix = "", exceptions] = name.replace("outside ", "").split(" except ");
  const except = (exceptions ?? "").split(", ").filter((text) => text !== "");
  return cidrContains(parseCidr(prefix), address) && !except.some((one) => cidrContains(parseCidr(one), address));
}

function isRunning(pod: Pod | undefined): boolean {
  return pod !== undefined && !isFinished(pod);
}

function isSubject({ pods }: PolicyIndex, end: FlowEnd): boolean {
  const pod = end.type === "pod" ? pods.get(end.key)?.pod : undefined;
  return isRunning(pod) && pod?.hostNetwork === false;
}
