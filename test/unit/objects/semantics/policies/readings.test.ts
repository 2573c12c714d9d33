import assert from "node:assert/strict";
import * as fc from "fast-check";
import { type Address, tryParseAddress } from "../../../../../kernel/ip/address.ts";
import { DEFAULT_POLICY_OPTIONS, type PolicyOptions } from "../../../../../policyd/policies/compile/options.ts";
import type { AddressOwner } from "../../../../../objects/semantics/policies/address_owner.ts";
import { evaluatePolicy, isAllowed } from "../../../../../objects/semantics/policies/evaluate.ts";
import type { Direction, Flow } from "../../../../../objects/semantics/policies/flow.ts";
import type { PolicyObjects } from "../../../../../objects/semantics/policies/objects.ts";
import type { EndVerdict, PolicyVerdict } from "../../../../../objects/semantics/policies/verdict.ts";
import { resolveFlow } from "../../../../../objects/semantics/policies/party.ts";
import { buildPolicyIndex, type PolicyIndex } from "../../../../../objects/semantics/policies/policy_index.ts";
import { storeOf } from "../../../../support/evaluate/store.ts";
import { policyCases } from "../../../../support/policy/arbitrary_cluster.ts";
import { CompiledCluster } from "../../../../support/policy/compiled_cluster.ts";
import { knownAt } from "../../../../support/policy/known_at.ts";
import { type AddressedFlow, PolicedCluster } from "../../../../support/policy/policed_cluster.ts";
import { flowOf, manifestsOf, type RawFlow } from "../../../../support/policy/raw_cluster.ts";
import { countedSeed, hasLongForm } from "../../../../support/long_form.ts";

const isFull = hasLongForm("more random clusters");
/** The number of clusters, with eight flows each, of which two thirds can be sent. */
const CLUSTERS = isFull ? 8000 : 200;
const seed = countedSeed();

/** The number of rules above which a profile is flattened: never, the daemon's default, always. */
const FLATTEN_ABOVE = [Number.POSITIVE_INFINITY, undefined, 0] as const;

const cases = fc.record({
  random: policyCases,
  own: fc.record({ policePodToOwnNode: fc.boolean(), policyReset: fc.boolean(), dropLog: fc.boolean() }),
  flattenAbove: fc.constantFrom(...FLATTEN_ABOVE),
});

const DIRECTIONS = ["egress", "ingress"] as const;

/**
 * Random clusters are read by the evaluator, by the tables of all nodes' daemons, which the interpreter of nftables walks,
 * and by these daemons' own verdicts on connections that exist.
 */
describe(`objects/semantics/policies: three readings of random clusters (seed ${seed})`, () => {
  it("POL-03 POL-04 POL-06 POL-07 POL-10 POL-13 POL-25 POL-31 POL-70 POL-72 POL-95 CNP-01 CNP-02 CNP-04 CNP-05 CNP-08: the evaluator and the compiled tables agree on every flow", function () {
    this.timeout(20 * 60_000);
    const seen = new Map<string, number>();
    const count = (feature: string): void => void seen.set(feature, (seen.get(feature) ?? 0) + 1);
    fc.assert(
      fc.property(cases, ({ random: { cluster, flows }, own, flattenAbove }) => {
        const store = storeOf(manifestsOf(cluster));
        const addresses = flows.map(({ destination }) => destination).filter((one) => !one.includes(" "));
        const nodeLocalDNS = addresses.map((text) => tryParseAddress(text)).filter((one) => one !== undefined);
        const flattening = flattenAbove === undefined ? {} : { flattenAbove };
        const options = { ...DEFAULT_POLICY_OPTIONS, ...own, ...flattening, nodeLocalDNS };
        const index = buildPolicyIndex(store, options);
        const compiled = new CompiledCluster(store, options);
        const policed = new PolicedCluster(compiled);
        for (const raw of flows) {
          const text = JSON.stringify(raw);
          const verdict = evaluatePolicy(index, flowOf(raw));
          for (const feature of featuresOf(raw, verdict)) count(feature);
          assert.equal(isAllowed(index, flowOf(raw)), verdict.kind === "allowed", text);
          if (verdict.kind === "impossible") continue;
          const addressed = sendable(index, raw);
          if (addressed === undefined) continue;
          count("sent");
          const { isPassed, isKept, wouldDrop } = policed.send(addressed);
          // A pod whose address another one has as well, or instead, is that address for other nodes.
          const isShared = [verdict.source, verdict.destination].some(({ address, ...party }) => {
            const owners = (address === undefined ? undefined : index.owners.get(address)) ?? [];
            return owners.length > 1 || (party.type === "pod" && owners.some((one) => nameOf(one) !== party.key));
          });
          if (isShared) count("shared");
          const [egress, ingress] = isShared
            ? verdictsOfNodes(compiled, store, options, { flow: flowOf(raw), addressed })
            : [verdict.egress, verdict.ingress];
          assert.equal(isPassed, egress.isAllowed && ingress.isAllowed, `tables: ${text}`);
          // Errors belong to another connection.
          if (raw.protocol !== "ICMP error") assert.equal(isKept, isPassed, `existing connections: ${text}`);
          for (const direction of DIRECTIONS) {
            if (direction === "ingress" && !egress.isAllowed) continue;
            const isCounted = (direction === "egress" ? egress : ingress).shadow?.wouldDrop === true;
            assert.equal(wouldDrop.has(direction), isCounted, `tables' shadow, ${direction}: ${text}`);
          }
        }
      }),
      { numRuns: CLUSTERS, seed },
    );
    const share = (feature: string): number => (seen.get(feature) ?? 0) / (8 * CLUSTERS);
    const shares = JSON.stringify(Object.fromEntries([...seen.keys()].map((one) => [one, share(one)])), null, 1);
    assert.deepEqual(
      FEATURES.filter((feature) => share(feature) < 0.01),
      [],
      shares,
    );
    assert.ok(share("allowed") > 0.3 && share("allowed") < 0.7 && share("sent") > 0.6, shares);
  });
});

/** Returns the features of a flow and its verdict, each once. */
function featuresOf(flow: RawFlow, verdict: PolicyVerdict): ReadonlySet<string> {
  const features = new Set<string>([verdict.kind, flow.protocol, flow.isIpv6 ? "IPv6" : "IPv4"]);
  if (verdict.kind === "impossible") return features;
  features.add(verdict.source.type).add(verdict.destination.type);
  for (const { decision, passed, shadow } of [verdict.egress, verdict.ingress]) {
    features.add(decision.type === "exempt" ? decision.because : decision.type);
    const ofClusters = decision.type === "cluster rule" ? [...passed, decision.rule] : passed;
    for (const { tier, action, unreadable } of ofClusters) {
      features.add(tier).add(action);
      if (unreadable !== undefined) features.add("unreadable");
    }
    if (shadow?.wouldDrop === true) features.add("would drop");
    if (shadow?.decision.type === "rule") features.add("shadow allows");
  }
  return features;
}

function nameOf(owner: AddressOwner): string {
  return owner.type === "pod" ? owner.key : owner.name;
}

/** Returns the verdict at each end of a flow between addresses, by what the end's node knows about who has them. */
function verdictsOfNodes(
  { holders }: CompiledCluster,
  cluster: PolicyObjects,
  options: PolicyOptions,
  { flow, addressed: { source, destination } }: { readonly flow: Flow; readonly addressed: AddressedFlow },
): readonly [EndVerdict, EndVerdict] {
  const at = (end: Address, direction: Direction): EndVerdict => {
    const node = holders.get(end)?.node;
    const verdict = evaluatePolicy(buildPolicyIndex(knownAt(cluster, holders, node), options), {
      ...flow,
      source: { type: "address", address: source },
      destination: { type: "address", address: destination },
    });
    assert.ok(verdict.kind !== "impossible");
    return verdict[direction];
  };
  return [at(source, "egress"), at(destination, "ingress")];
}

/** The addresses of a flow of which a packet can be sent from one pod or node to another. */
function sendable(index: PolicyIndex, raw: RawFlow): AddressedFlow | undefined {
  const flow = flowOf(raw);
  const ends = resolveFlow(index, flow);
  if ("kind" in ends) return undefined;
  const [source, destination] = [ends.source.address, ends.destination.address];
  if (source === undefined || destination === undefined) return undefined;
  // Such a packet stays within the pod.
  if (source === destination && flow.isThroughService !== true) return undefined;
  return { source, destination, protocol: flow.protocol, port: raw.port };
}

/** The features that random clusters have to produce often enough. */
const FEATURES = [
  "allowed",
  "denied",
  "impossible",
  "TCP",
  "UDP",
  "SCTP",
  "ICMP",
  "ICMP error",
  "IPv4",
  "IPv6",
  "pod",
  "node",
  "outside",
  "no pod",
  "own node",
  "itself",
  "default",
  "isolated",
  "rule",
  "cluster rule",
  "would drop",
  "shadow allows",
  "Admin",
  "Baseline",
  "Accept",
  "Deny",
  "Pass",
  "unreadable",
  "shared",
];
