import { DNS_PORT } from "../../../objects/domain_name.ts";
import {
  eachQuestion,
  endOf,
  exemptionFromAll,
  exemptionFromIsolation,
  isNodeLocalDNS,
  profileOf,
  type Question,
} from "../../../objects/semantics/policies/decide.ts";
import type { Direction, FlowEnds } from "../../../objects/semantics/policies/flow.ts";
import type { IndexedClusterPolicy } from "../../../objects/semantics/policies/indexed_policy.ts";
import { type ResolvedFlow, resolveFlow } from "../../../objects/semantics/policies/party.ts";
import type { PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import { ConnectionAlgebra } from "./algebra.ts";
import { type ConnectionSet, EVERYTHING, NOTHING, ofPorts } from "./connection_set.ts";
import { RuleConnections } from "./rule_connections.ts";

/** The traffic affects only the exemptions of errors and, apart from {@link DNS}, of the node's own DNS. */
const ANY_TRAFFIC = { protocol: "ICMP" } as const;
const DNS = ofPorts((protocol) => (protocol === "SCTP" ? [] : [{ first: DNS_PORT, last: DNS_PORT }]), false);

/**
 * Reads everything that policies let one end send to another: in sets, not port by port as `evaluatePolicy` does. The
 * two agree on every protocol and port (MATRIX-01).
 */
export class ConnectionReader {
  readonly algebra = new ConnectionAlgebra();
  readonly #index: PolicyIndex;
  readonly #rules = new RuleConnections(this.algebra);

  constructor(index: PolicyIndex) {
    this.#index = index;
  }

  /**
   * Returns what one end may send to another; undefined where no packet can be sent, whatever the policies.
   *
   * @throws DrawbridgeError ERR_OBJECT for a pod or a node that the index does not have
   */
  between(ends: FlowEnds): ConnectionSet | undefined {
    const flow = resolveFlow(this.#index, { ...ends, ...ANY_TRAFFIC });
    return "kind" in flow ? undefined : this.ofFlow(flow, ends.isThroughService);
  }

  /** Returns the same for ends that are resolved already. */
  ofFlow(flow: ResolvedFlow, isThroughService = false): ConnectionSet {
    const question = { flow, traffic: ANY_TRAFFIC, isThroughService, options: this.#index.options };
    const sent = this.#allowedToEach("egress", question);
    return sent === NOTHING ? sent : this.algebra.intersection(sent, this.#allowedToEach("ingress", question));
  }

  #allowedToEach(direction: Direction, question: Question): ConnectionSet {
    let all = EVERYTHING;
    for (const one of eachQuestion(direction, question)) {
      all = this.algebra.intersection(all, this.#allowed(direction, one));
    }
    return all;
  }

  /** Returns what the policies of one end allow, by the steps of `decide` with the set of all undecided traffic. */
  #allowed(direction: Direction, question: Question): ConnectionSet {
    if (exemptionFromAll(direction, question) !== undefined) return EVERYTHING;
    const { admin, isolating, baseline } = profileOf(endOf(question.flow, direction), direction);
    // This applies to at least one direction of most pods.
    if (admin.length === 0 && isolating.length === 0 && baseline.length === 0) return EVERYTHING;
    const { algebra } = this;
    const first = this.#clusterTier(admin, direction, question, EVERYTHING);
    if (isolating.length === 0) {
      const last = this.#clusterTier(baseline, direction, question, first.undecided);
      return algebra.union(first.accepted, algebra.union(last.accepted, last.undecided));
    }
    if (exemptionFromIsolation(direction, question) !== undefined) {
      return algebra.union(first.accepted, first.undecided);
    }
    const isToDns = direction === "egress" && isNodeLocalDNS(question.options, question.flow.destination.address);
    let allowed = isToDns ? DNS : NOTHING;
    for (const { rules } of isolating) {
      for (const rule of rules[direction]) {
        allowed = algebra.union(allowed, this.#rules.of(rule, direction, question.flow));
      }
    }
    return algebra.union(first.accepted, algebra.intersection(first.undecided, allowed));
  }

  #clusterTier(
    policies: readonly IndexedClusterPolicy[],
    direction: Direction,
    { flow }: Question,
    asked: ConnectionSet,
  ): { readonly accepted: ConnectionSet; readonly undecided: ConnectionSet } {
    if (policies.length === 0) return { accepted: NOTHING, undecided: asked };
    const { algebra } = this;
    let [accepted, passed, left] = [NOTHING, NOTHING, asked];
    for (const { rules } of policies) {
      for (const indexed of rules[direction]) {
        const matched = algebra.intersection(left, this.#rules.of(indexed, direction, flow));
        left = algebra.difference(left, matched);
        if (indexed.rule.action === "Accept") accepted = algebra.union(accepted, matched);
        if (indexed.rule.action === "Pass") passed = algebra.union(passed, matched);
      }
    }
    return { accepted, undecided: algebra.union(left, passed) };
  }
}
