import { keyText } from "../../kernel/nftables/encode/element.ts";
import type { Element, Table } from "../../kernel/nftables/model/object.ts";
import type { ClusterObject, ObjectChange, Pod } from "../../objects/model.ts";
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
import { changesTo } from "../cluster/policy_objects.ts";
import { isFinished } from "../../objects/semantics/policies/address_owner.ts";
import { NodeJudge } from "../../objects/nodes/node_judge.ts";
import { configuredSockets } from "../../policyd/protection/configured_sockets.ts";
import { ProtectedSocketIndex } from "../../policyd/protection/socket_index.ts";
import { localPodElements } from "../../policyd/services/elements/node_elements.ts";
import { ServiceProxy } from "../../policyd/services/service_proxy.ts";
import { hostCidr } from "../../kernel/ip/cidr.ts";
import { loggerOf } from "../../policyd/log/logger.ts";
import { LivePolicies } from "../../policyd/policies/live/live_policies.ts";
import { PolicyNotices } from "../../policyd/policies/status/policy_notices.ts";

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
  const { nodeName, masquerade, podCIDRs, serviceCIDRs } = configuration;
  // nft cannot read back the flags of an owned table.
  const tables = configuredTables({ ...configuration, tableOwner: false }).map(withVersion);
  const desired = new DesiredElements();
  const claim = (owner: string, claims: readonly DesiredElement[]): void => void desired.replace(owner, claims);
  const localPods = objects.filter((object) => isLocalPod(object, nodeName));
  for (const { key, addresses } of localPods) {
    const leaving = masquerade ? leavingPodElements(addresses) : [];
    claim(`pod ${key}`, [...attachedElements(addresses), ...localPodElements(addresses), ...leaving]);
  }
  const objectsOfTables = new DesiredObjects(tables);
  const provide = (owner: string, provided: ProvidedObjects): void => void objectsOfTables.replace(owner, provided);
  const wanted = { claim, provide };
  const judge = new NodeJudge({ nodeName, ownCidrs: podCIDRs, serviceCidrs: serviceCIDRs });
  const changes = judge.apply(changesTo(objects));
  const problems = [
    ...claimServices(changes, configuration, wanted, judge),
    ...(configuration.policies ? claimPolicies(changes, localPods, configuration, wanted) : []),
  ];
  return {
    tables: tables.map((fixed) => {
      const table = wholeTable(fixed, objectsOfTables);
      const elementsOf = (name: string): readonly Element[] =>
        inOrder([...desired.elements(tableKey(table), name)].map(([key, element]) => elementOf(key, element)));
      return { table, elements: new Map(table.sets.map(({ name }) => [name, elementsOf(name)])) };
    }),
    localPods: localPods.map(({ key }) => key),
    problems,
  };
}

type Wanted = Pick<Ruleset, "claim" | "provide">;

/** Nothing changes later. */
const CLOCK = { after: () => () => {}, now: () => 0 };

/** Adds the rules of Services. @returns the problems of Services that cannot be served */
function claimServices(
  changes: readonly ObjectChange[],
  configuration: Configuration,
  wanted: Wanted,
  judge: NodeJudge,
): readonly string[] {
  const { nodeName, nodePortAddresses, refuseExternalIPs } = configuration;
  const ruleset = { ...wanted, committed: new Signal<Commit>(), isReconciled: false };
  const protection = new ProtectedSocketIndex(configuredSockets(configuration), judge);
  const ofNode = { nodeName, ruleset, clock: CLOCK, protection };
  const parts = { ...ofNode, nodePortAddresses, refuseExternalIps: refuseExternalIPs };
  const services = configuration.services ? [new ServiceProxy(parts)] : [];
  const components = [
    protection,
    ...services,
    ...openMasquerade(configuration, ruleset, judge).components,
    openNodeAddressSets(configuration, ruleset, judge),
    ...(configuration.policies ? [new OwnNetworks({ ruleset, nodeName, judge })] : []),
  ];
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

/** The daemon's log is discarded: it would repeat the problems, which are printed. */
const SILENT = loggerOf("error", () => {});

/**
 * Adds the rules of policies.
 *
 * @param pods those that count as attached, with the addresses of their objects
 * @returns the problems of policies that are not enforced as written, and of pods that send and receive nothing
 */
function claimPolicies(
  changes: readonly ObjectChange[],
  pods: readonly Pod[],
  configuration: Configuration,
  { claim, provide }: Wanted,
): readonly string[] {
  const live = new LivePolicies({
    nodeName: configuration.nodeName,
    options: configuration,
    clock: CLOCK,
    isEarlier: undefined,
    rules: {
      claim: (owner, claims) => claim(`policy ${owner}`, claims),
      provide: (owner, provided) => provide(`policy ${owner}`, { table: POLICY_TABLE, ...provided }),
    },
  });
  const notices = new PolicyNotices({ logger: SILENT, events: { tell: () => {} }, isEnforced: true });
  notices.apply(changes);
  live.change(changes);
  for (const pod of pods) live.attach(attachmentOf(pod));
  live.start();
  while (live.step());
  return [...notices.problems(), ...live.problems()];
}

/** Returns the fields of a pod's attachment that policies need. */
function attachmentOf({ key, namespace, name, uid, addresses }: Pod): Parameters<LivePolicies["attach"]>[0] {
  return {
    network: "",
    containerId: key,
    ifname: "eth0",
    pod: { namespace, name, uid },
    addresses: addresses.map((address) => hostCidr(address)),
  };
}

/** Returns a table with the sets and chains that depend on the cluster, sorted by name. */
function wholeTable(table: Table, wanted: DesiredObjects): Table {
  const key = tableKey(table);
  return {
    ...table,
    sets: fixedFirst(table.sets, wanted.sets(key)),
    chains: fixedFirst(table.chains, wanted.chains(key)),
  };
}

/** Appends the other objects by name, so that the text does not depend on the order in which they came. */
function fixedFirst<T extends { readonly name: string }>(fixed: readonly T[], all: Iterable<T>): readonly T[] {
  const others = [...all].filter((one) => !fixed.includes(one));
  return [...fixed, ...others.sort((a, b) => (a.name < b.name ? -1 : 1))];
}
