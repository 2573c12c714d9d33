import assert from "node:assert/strict";
import { inspect } from "node:util";
import * as fc from "fast-check";
import { type Address, familyOf } from "../../../../../kernel/ip/address.ts";
import type { Protocol } from "../../../../../objects/model.ts";
import { DEFAULT_POLICY_OPTIONS, type PolicyOptions } from "../../../../../policyd/policies/compile/options.ts";
import type { PolicedFlow } from "../../../../../policyd/policies/compile/profile_verdict.ts";
import { evaluatePolicy } from "../../../../../objects/semantics/policies/evaluate.ts";
import { buildPolicyIndex, type PolicyIndex } from "../../../../../objects/semantics/policies/policy_index.ts";
import type { FlowVerdict } from "../../../../../policyd/policies/live/flow_evaluator.ts";
import { storeOf } from "../../../../support/evaluate/store.ts";
import { policyCases } from "../../../../support/policy/arbitrary_cluster.ts";
import { CompiledCluster } from "../../../../support/policy/compiled_cluster.ts";
import { knownAt } from "../../../../support/policy/known_at.ts";
import { attachmentsOf, eventsOf, liveNodeOf, objectsOf } from "../../../../support/policy/live/live_cluster.ts";
import { elementText } from "../../../../support/policy/live/live_node.ts";
import { manifestsOf } from "../../../../support/policy/raw_cluster.ts";
import { roundsFor } from "../../../../support/long_form.ts";

const RUNS = roundsFor("random cases", 25, 200);
const NODE = "node1";

const cases = fc.record({
  cluster: policyCases.map(({ cluster }) => storeOf(manifestsOf(cluster))),
  order: fc.func(fc.nat()),
  policePodToOwnNode: fc.boolean(),
});

type Case = typeof cases extends fc.Arbitrary<infer T> ? T : never;

function nodeOf({ cluster, order, policePodToOwnNode }: Case): {
  readonly options: PolicyOptions;
  readonly live: ReturnType<typeof liveNodeOf>;
} {
  const options = { ...DEFAULT_POLICY_OPTIONS, policePodToOwnNode };
  const events = eventsOf(objectsOf(cluster), attachmentsOf(cluster, NODE, options));
  const shuffled = events.toSorted((a, b) => order(a) - order(b));
  return { options, live: liveNodeOf(shuffled, options) };
}

describe("policyd/policies/live compared with compiling at once", () => {
  it(`POL-28 POL-95: ${RUNS} random clusters, reported in any order, are in the kernel as they are compiled at once`, function () {
    this.timeout(120_000);
    let sets = 0;
    fc.assert(
      fc.property(cases, (one) => {
        const { options, live } = nodeOf(one);
        const { table, elements } = new CompiledCluster(one.cluster, options).node(NODE);
        assert.deepEqual(
          live.node.provided(),
          [...table.sets, ...table.chains]
            .map(({ name }) => name)
            .filter((name) => !live.node.ruleset.tables.some(isIn(name)))
            .sort(),
        );
        for (const { name } of table.sets) {
          assert.deepEqual(live.node.elements(name), (elements.get(name) ?? []).map(elementText).sort(), name);
        }
        sets += table.sets.length;
        live.node.stop();
      }),
      { numRuns: RUNS },
    );
    assert.ok(sets > 10 * RUNS, `${sets} sets`);
  });

  it(`POL-02 POL-05 POL-07 POL-95: pods' flows get the evaluator's verdicts, in ${RUNS} random clusters`, function () {
    this.timeout(120_000);
    const seen = { allowed: 0, denied: 0, "not ours": 0 };
    fc.assert(
      fc.property(cases, (one) => {
        const { options, live } = nodeOf(one);
        const { policePodToOwnNode, nodeLocalDNS } = options;
        const compiled = new CompiledCluster(one.cluster, options);
        const known = knownAt(one.cluster, compiled.owners, NODE);
        const index = buildPolicyIndex(known, { policePodToOwnNode, nodeLocalDNS });
        const { ownAddresses } = compiled.node(NODE);
        const judge = live.node.component.flowEvaluator(() => ownAddresses);
        const local = new Set(
          attachmentsOf(one.cluster, NODE, options).flatMap(({ addresses }) => addresses.map(({ address }) => address)),
        );
        for (const flow of flowsBetween([...compiled.owners.keys()])) {
          const expected = expectedVerdict(index, flow, local);
          assert.equal(judge(flow), expected, inspect(flow));
          seen[expected]++;
        }
        live.node.stop();
      }),
      { numRuns: RUNS },
    );
    assert.ok(Math.min(...Object.values(seen)) > RUNS, JSON.stringify(seen));
  });
});

function* flowsBetween(addresses: readonly Address[]): Iterable<PolicedFlow & { readonly protocol: Protocol }> {
  for (const source of addresses) {
    for (const destination of addresses) {
      if (familyOf(source) !== familyOf(destination)) continue;
      for (const [protocol, port] of [
        ["TCP", 80],
        ["UDP", 53],
        ["TCP", 8080],
      ] as const) {
        yield { source, destination, protocol, port };
      }
    }
  }
}

/** The expected verdict; a node evaluates only the ends that are its own pods. */
function expectedVerdict(
  index: PolicyIndex,
  { source, destination, protocol, port }: PolicedFlow & { readonly protocol: Protocol },
  local: ReadonlySet<Address>,
): FlowVerdict {
  if (!local.has(source) && !local.has(destination)) return "not ours";
  const verdict = evaluatePolicy(index, {
    source: { type: "address", address: source },
    destination: { type: "address", address: destination },
    protocol,
    port,
    // A packet from a pod to itself arrives only through a Service.
    isThroughService: true,
  });
  if (verdict.kind === "impossible") return "denied";
  const { egress, ingress } = verdict;
  const isAllowed = (egress.isAllowed || !local.has(source)) && (ingress.isAllowed || !local.has(destination));
  return isAllowed ? "allowed" : "denied";
}

function isIn(name: string) {
  return ({
    sets,
    chains,
  }: {
    readonly sets: readonly { name: string }[];
    readonly chains: readonly { name: string }[];
  }) => [...sets, ...chains].some((one) => one.name === name);
}
