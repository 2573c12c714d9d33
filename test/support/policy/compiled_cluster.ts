import type { Address } from "../../../kernel/ip/address.ts";
import { keyText } from "../../../kernel/nftables/encode/element.ts";
import type { Element, Table } from "../../../kernel/nftables/model/object.ts";
import type { ClusterObject, Pod } from "../../../objects/model.ts";
import { addressOwners } from "../../../objects/semantics/policies/address_owner.ts";
import type { PolicyObjects } from "../../../objects/semantics/policies/objects.ts";
import type { PolicyOptions } from "../../../policyd/policies/compile/options.ts";
import { policyTable } from "../../../policyd/policies/compile/policy_table.ts";
import { type FlowEvaluator, flowEvaluator } from "../../../policyd/policies/live/flow_evaluator.ts";
import { LivePolicies } from "../../../policyd/policies/live/live_policies.ts";
import type { PolicyRules } from "../../../policyd/policies/live/policy_rules.ts";
import { set } from "./live/live_node.ts";
import { attachmentOf } from "./live/objects.ts";

/** One node's table of policies, as its daemon desires it. */
export interface CompiledNode {
  readonly table: Table;
  readonly elements: ReadonlyMap<string, readonly Element[]>;
  /** The daemon's own verdicts on existing connections. */
  readonly verdictOf: FlowEvaluator;
  /** The addresses of its attached pods. */
  readonly local: ReadonlySet<Address>;
  /** The node's own addresses, as in its kernel. */
  readonly ownAddresses: ReadonlySet<Address>;
}

/** Where an address is: at a node, in one of its pods or of no pod. */
export interface Holder {
  readonly node: string | undefined;
  readonly pod: Pod | undefined;
}

/** A cluster as the daemons of its nodes compile it: each is given all objects at once, and the pods of its node. */
export class CompiledCluster {
  /** The first holder of each address by name, which is the one that is attached where several have it. */
  readonly holders: ReadonlyMap<Address, Holder>;
  readonly #objects: readonly ClusterObject[];
  readonly #options: PolicyOptions;

  constructor(cluster: PolicyObjects, options: PolicyOptions) {
    this.#objects = [
      cluster.namespaces,
      cluster.nodes,
      cluster.pods,
      cluster.networkPolicies,
      cluster.clusterNetworkPolicies,
    ].flatMap((map: ReadonlyMap<string, ClusterObject>) => [...map.values()]);
    this.#options = options;
    this.holders = new Map(
      [...addressOwners(cluster)].map(([address, [owner]]) => {
        const pod = owner.type === "pod" ? cluster.pods.get(owner.key) : undefined;
        return [address, { pod, node: owner.type === "pod" ? pod?.nodeName : owner.name }];
      }),
    );
  }

  /** Returns the table of a node; for undefined, that of pods that no node has yet. */
  node(name: string | undefined): CompiledNode {
    const rules = new RecordedRules();
    const live = new LivePolicies({
      nodeName: name ?? "",
      rules,
      options: this.#options,
      clock: { now: () => 0, after: () => () => {} },
      isEarlier: undefined,
    });
    live.change(this.#objects.map(set));
    const here = [...this.holders].filter(([, { node }]) => node === name);
    const local = here.flatMap(([address, { pod }]) => (pod === undefined ? [] : [{ address, pod }]));
    for (const [pod, addresses] of Map.groupBy(local, (one) => one.pod)) {
      live.attach(
        attachmentOf(
          pod,
          addresses.map(({ address }) => address),
        ),
      );
    }
    live.start();
    while (live.step());
    const ownAddresses = new Set(here.flatMap(([address, { pod }]) => (pod === undefined ? [address] : [])));
    return {
      ...rules.in(policyTable(this.#options)),
      verdictOf: flowEvaluator(
        live,
        this.#options,
        () => ownAddresses,
        () => [],
      ),
      local: new Set(local.map(({ address }) => address)),
      ownAddresses,
    };
  }
}

/** Collects what a node's daemon desires. */
class RecordedRules implements PolicyRules {
  readonly #claims = new Map<string, Parameters<PolicyRules["claim"]>[1]>();
  readonly #provided = new Map<string, Parameters<PolicyRules["provide"]>[1]>();

  claim(...[owner, claims]: Parameters<PolicyRules["claim"]>): void {
    this.#claims.set(owner, claims);
  }

  provide(...[owner, objects]: Parameters<PolicyRules["provide"]>): void {
    this.#provided.set(owner, objects);
  }

  /** Returns the table with all that was provided, each once, and the elements of its sets. */
  in(table: Table): Pick<CompiledNode, "table" | "elements"> {
    // Sets of members come before those whose elements never change, and these before the chains of profiles.
    const order = ["set ", "fixed ", "profile "];
    const provided = order.flatMap((kind) =>
      [...this.#provided].flatMap(([owner, objects]) => (owner.startsWith(kind) ? [objects] : [])),
    );
    const claims = [...this.#claims.values()].flat();
    return {
      table: {
        ...table,
        sets: [...table.sets, ...byName(provided.flatMap(({ sets }) => sets))],
        chains: [...byName(provided.flatMap(({ chains }) => chains)), ...table.chains],
      },
      elements: new Map(
        [...Map.groupBy(claims, (claim) => claim.set)].map(([name, all]) => [
          name,
          [...new Map(all.map(({ element }) => [keyText(element.key), element])).values()],
        ]),
      ),
    };
  }
}

/** Returns objects that several profiles share once. */
function byName<T extends { readonly name: string }>(all: readonly T[]): Iterable<T> {
  return new Map(all.map((one) => [one.name, one])).values();
}
