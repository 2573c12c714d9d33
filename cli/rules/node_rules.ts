import { keyText } from "../../kernel/nftables/encode/element.ts";
import type { Element, Table } from "../../kernel/nftables/model/object.ts";
import type { ClusterObject, Pod } from "../../objects/model.ts";
import type { Configuration } from "../../policyd/configuration/configuration.ts";
import { Signal } from "../../policyd/lib/signal.ts";
import type { Commit } from "../../policyd/ruleset/difference.ts";
import { type DesiredElement, tableKey } from "../../policyd/ruleset/desired/desired_element.ts";
import { elementOf } from "../../policyd/ruleset/desired/packed_element.ts";
import { DesiredElements } from "../../policyd/ruleset/desired/desired_elements.ts";
import { DesiredObjects, type ProvidedObjects } from "../../policyd/ruleset/desired/desired_objects.ts";
import type { Ruleset } from "../../policyd/ruleset/ruleset.ts";
import { withVersion } from "../../policyd/ruleset/schema.ts";
import { attachedElements } from "../../policyd/node/tables/attached_addresses.ts";
import { leavingPodElements } from "../../policyd/node/masquerade/cluster_masquerade.ts";
import { openMasquerade } from "../../policyd/node/masquerade/masquerade_networks.ts";
import { configuredTables } from "../../policyd/node/tables/tables.ts";
import { openNodeAddressSets } from "../../policyd/node/node_address_sets.ts";
import { POLICY_TABLE } from "../../policyd/policies/compile/policy_table.ts";
import { OwnNetworks } from "../../policyd/policies/own_networks.ts";
import { isFinished } from "../../objects/semantics/policies/address_owner.ts";
import { NodeJudge } from "../../objects/nodes/node_judge.ts";
import { configuredSockets } from "../../policyd/protection/configured_sockets.ts";
import { ProtectedSocketIndex } from "../../policyd/protection/socket_index.ts";
import { localPodElements } from "../../policyd/services/elements/node_elements.ts";
import { ServiceProxy } from "../../policyd/services/service_proxy.ts";
import { nodePolicies } from "./node_policies.ts";
import { wholeTable } from "./whole_table.ts";

/** The tables of a node with what is in their sets. */
export interface NodeRules {
  readonly tables: readonly { readonly table: Table; readonly elements: ReadonlyMap<string, readonly Element[]> }[];
  /** Keys of the pods that count as the node's own. */
  readonly localPods: readonly string[];
  /** Sentences for people about Services that cannot be served and policies that are not enforced as written. */
  readonly problems: readonly string[];
}

/**
 * Returns what the daemon would load on a node for these objects: its own tables, filled by its own code. Pods are
 * known only by their objects; of what attachments contribute, only the addresses of the node's pods are included.
 *
 * @throws DrawbridgeError ERR_NFTABLES_VALUE when the bridge has a name no rule can hold
 */
export function nodeRules(objects: readonly ClusterObject[], configuration: Configuration): NodeRules {
  const { nodeName, masquerade } = configuration;
  // nft cannot read back the flags of an owned table.
  const tables = configuredTables({ ...configuration, tableOwner: false }).map(withVersion);
  const desired = new DesiredElements();
  const claim = (owner: string, claims: readonly DesiredElement[]): void => void desired.replace(owner, claims);
  const localPods = objects.filter((object) => isLocalPod(object, nodeName));
  for (const { key, addresses } of localPods) {
    const leaving = masquerade ? leavingPodElements(addresses) : [];
    claim(`pod ${key}`, [...attachedElements(addresses), ...localPodElements(addresses), ...leaving]);
  }
  const wanted = new DesiredObjects(tables);
  const provide = (owner: string, provided: ProvidedObjects): void => void wanted.replace(owner, provided);
  const ofServices = claimServices(objects, configuration, { claim, provide });
  const parts = tables.map((table) =>
    tableKey(table) === tableKey(POLICY_TABLE)
      ? nodePolicies(objects, localPods, { nodeName, options: configuration, table, claim })
      : { table: wholeTable(table, wanted), problems: [] },
  );
  return {
    tables: parts.map(({ table }) => ({
      table,
      elements: new Map(
        table.sets.map(({ name }) => [
          name,
          inOrder([...desired.elements(tableKey(table), name)].map(([key, element]) => elementOf(key, element))),
        ]),
      ),
    })),
    localPods: localPods.map(({ key }) => key),
    problems: [...ofServices, ...parts.flatMap(({ problems }) => problems)],
  };
}

/** Adds the rules of Services. @returns the problems of Services that cannot be served */
function claimServices(
  objects: readonly ClusterObject[],
  configuration: Configuration,
  wanted: Pick<Ruleset, "claim" | "provide">,
): readonly string[] {
  const { nodeName, podCIDRs, nodePortAddresses, refuseExternalIPs } = configuration;
  const ruleset = { ...wanted, committed: new Signal<Commit>(), isReconciled: false };
  // Nothing changes later.
  const clock = { after: () => () => {}, now: () => 0 };
  const judge = new NodeJudge({ nodeName, ownCidrs: podCIDRs, serviceCidrs: configuration.serviceCIDRs });
  const protection = new ProtectedSocketIndex(configuredSockets(configuration), judge, podCIDRs);
  const ofNode = { nodeName, ruleset, clock, protection };
  const parts = { ...ofNode, nodePortAddresses, refuseExternalIps: refuseExternalIPs };
  const services = configuration.services ? [new ServiceProxy(parts)] : [];
  const components = [
    judge,
    protection,
    ...services,
    ...openMasquerade(configuration, ruleset, judge).components,
    openNodeAddressSets(configuration, ruleset, judge),
    ...(configuration.policies ? [new OwnNetworks({ ruleset, nodeName, podCidrs: podCIDRs, judge })] : []),
  ];
  const changes = objects.map((object) => ({ type: "set", kind: object.kind, key: object.key, object }) as const);
  for (const each of components) each.apply(changes);
  return services.flatMap((each) => each.problems());
}

/** Returns whether an object is a pod of this node that has its own address and may send and receive. */
function isLocalPod(object: ClusterObject, nodeName: string): object is Pod {
  return object.kind === "Pod" && object.nodeName === nodeName && !object.hostNetwork && !isFinished(object);
}

function inOrder(elements: Iterable<Element>): readonly Element[] {
  const keyed = [...elements].map((element) => ({ element, key: keyText(element.key) }));
  return keyed.sort((a, b) => (a.key < b.key ? -1 : 1)).map(({ element }) => element);
}
