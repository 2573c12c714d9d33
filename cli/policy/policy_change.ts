import { storeOf } from "../cluster/policy_objects.ts";
import { contentText } from "../output/text.ts";
import type { ClusterObject, ContainerPort, Labels, LabelSelector, Pod, PolicyType } from "../../objects/model.ts";
import { nameLabel, NAMESPACE_NAME } from "../../objects/name.ts";
import { namespaceOf } from "../../objects/namespace_of.ts";
import { addressOwners, type AddressOwners } from "../../objects/semantics/policies/address_owner.ts";
import { selects } from "../../objects/semantics/policies/selector.ts";
import { workloadKeyOf } from "../../objects/workload_name.ts";
import { labelClasses } from "./label_classes.ts";
import { NewAddresses } from "./new_addresses.ts";
import {
  isPolicy,
  isRunning,
  namedPortsOf,
  peersOf,
  type Policy,
  portKey,
  type Selection,
  selectionsOf,
} from "./policy_parts.ts";
import { isBlock, policiesOfChanges } from "./seen_changes.ts";

const MOST_NAMESPACES = 200;
const FIRST_PORT = 60_001;
const OTHER_PORT = 61_001;

/** Named ports of a pod that is in no file. */
export interface PortForm {
  readonly ports: Pod["ports"];
  /** For people, after the pod's labels; "" for the numbers that pods in the files have. */
  readonly text: string;
  /** Labels that tell the form apart from that one. */
  readonly labels: Labels;
}

/** A pod of the files. */
export interface KnownPod {
  readonly pod: Pod;
  /** Whether its workload is on both sides: others come or go with the labels that policies select. */
  readonly isOnBoth: boolean;
}

/** The difference between two sets of objects, as far as it decides on pods that are in neither. */
export class PolicyChange {
  readonly isAny: boolean;
  readonly addresses: NewAddresses;
  /** Those that both sides have, or that one side does not write. */
  readonly namespaces: readonly string[];
  readonly #objects: readonly ClusterObject[];
  readonly #changed: readonly Policy[];
  /** The unchanged policies that decide about changed pods and nodes. */
  readonly #ofChangedPods: ReadonlySet<Policy>;
  readonly #selections: readonly Selection[];
  readonly #labels: readonly ReadonlyMap<string, Labels>[];
  /** The namespaces with changed labels or policies, and those with pods that share an address with a pod of one. */
  readonly #touched: ReadonlySet<string>;
  readonly #isClusterWide: boolean;
  /** The directions of the other ends of what the changed policies decide. */
  readonly #otherTypes: ReadonlySet<PolicyType>;
  readonly #pods: ReadonlyMap<string, readonly KnownPod[]>;
  /** The named ports of all policies, by {@link portKey}. */
  readonly #ports: ReadonlyMap<string, ContainerPort>;
  readonly #portsInPlay: Pod["ports"];
  /** The ports that decisive policies name for destinations that no selector tells apart. */
  readonly #keysForAll: readonly string[];

  constructor(before: readonly ClusterObject[], after: readonly ClusterObject[]) {
    this.#objects = [...before, ...after];
    const [old, young] = [before, after].map(policiesByText);
    const isIn = (text: string, side: ReadonlyMap<string, Policy> | undefined): boolean => side?.has(text) === true;
    const all = new Map([...(old ?? []), ...(young ?? [])]);
    this.#changed = [...all].filter(([text]) => isIn(text, old) !== isIn(text, young)).map(([, policy]) => policy);
    this.#selections = [...all.values()].flatMap(selectionsOf);
    const owners = [before, after].map((side) => addressOwners(storeOf(side)));
    this.addresses = new NewAddresses(this.#objects, owners, [...all.values()].flatMap(peersOf));
    this.#ports = numberedPorts([...all.values()].flatMap(namedPortsOf), this.#objects);
    this.#labels = [namespacesOf(before), namespacesOf(after)];
    const names = [...new Set(this.#labels.flatMap((side) => [...side.keys()]))].sort();
    const moved = names.filter((name) => {
      const [was, is] = this.#labels.map((side) => side.get(name));
      return was !== undefined && is !== undefined && JSON.stringify(was) !== JSON.stringify(is);
    });
    const changed = new Set([...moved, ...this.#changed.flatMap((one) => ("namespace" in one ? [one.namespace] : []))]);
    const shared = owners.flatMap((side) => [...side.values()].filter(({ length }) => length > 1));
    const together = shared.map(namespacesOfOwners);
    this.#touched = new Set([...changed, ...together.filter((some) => some.some((one) => changed.has(one))).flat()]);
    this.#isClusterWide = this.#changed.some(({ kind }) => kind === "ClusterNetworkPolicy");
    const same = [...all].filter(([text]) => isIn(text, old) && isIn(text, young)).map(([, policy]) => policy);
    const labels = new Map(this.#labels.flatMap((side) => [...side]));
    const ofChanges = policiesOfChanges(same, [before, after], labels);
    this.#ofChangedPods = new Set(ofChanges);
    const decisive = [...this.#changed, ...ofChanges];
    const isForCluster = decisive.some(({ kind }) => kind === "ClusterNetworkPolicy");
    const types = decisive.flatMap((one) => ("policyTypes" in one ? one.policyTypes : []));
    const others = types.map((type): PolicyType => (type === "Ingress" ? "Egress" : "Ingress"));
    this.#otherTypes = new Set(moved.length > 0 || isForCluster ? ["Ingress", "Egress"] : others);
    this.isAny = decisive.length + moved.length > 0;
    const written = [before, after].map(
      (side) => new Set(side.flatMap((one) => (one.kind === "Namespace" ? [one.name] : []))),
    );
    this.namespaces = names.filter((name) =>
      [0, 1].every((i) => this.#labels[i]?.has(name) === true || !isWrittenOnly(name, written[1 - i], written[i])),
    );
    const [running, runningAfter] = [before.filter(isRunning), after.filter(isRunning)];
    const workloads = [running, runningAfter].map((pods) => new Set(pods.map(workloadKeyOf)));
    const isOnBoth = (pod: Pod): boolean => workloads.every((keys) => keys.has(workloadKeyOf(pod)));
    const known = new Map(running.map((pod) => [pod.key, pod]));
    const unique = [...running, ...runningAfter.filter((pod) => !hasLabelsOf(pod, known.get(pod.key)))];
    this.#pods = Map.groupBy(
      unique.map((pod): KnownPod => ({ pod, isOnBoth: isOnBoth(pod) })),
      ({ pod }) => pod.namespace,
    );
    this.#portsInPlay = this.namedPorts(this.#selections.filter((one) => this.#isInPlay(one)));
    this.#keysForAll = decisive.filter(isForAllPorts).flatMap(namedPortsOf).map(portKey);
  }

  /** Returns the running pods of a namespace, with other labels on the other side twice. */
  podsIn(namespace: string): readonly KnownPod[] {
    return this.#pods.get(namespace) ?? [];
  }

  /** Returns the selections that may tell pods of an existing namespace apart. */
  inNamespace(name: string): readonly Selection[] {
    const labels = this.#labels.map((side) => side.get(name)).filter((one) => one !== undefined);
    return this.#selections.filter(
      (one) =>
        (typeof one.within === "string" ? one.within === name : labels.some((some) => isWithin(one, some))) &&
        (this.#isTouched(name) || this.#isInPlay(one)),
    );
  }

  /**
   * Returns the classes of an unchanged namespace without those that several of its policies select, where for each of
   * these policies another class with the same peers stands: together they allow what one of them allows.
   */
  withoutUnions(name: string, classes: readonly Labels[] | undefined): readonly Labels[] | undefined {
    const selections = this.inNamespace(name);
    if (classes === undefined || this.#isTouched(name)) return classes;
    const described = classes.map((labels) => {
      const selecting = selections.filter(({ pods }) => selects(pods, labels));
      const isOwn = ({ policy, isSubject }: Selection): boolean => isSubject && policy.kind === "NetworkPolicy";
      const [subjects, peers] = [selecting.filter(isOwn), selecting.filter((one) => !isOwn(one))];
      return { labels, subjects, peers: peers.map((one) => selections.indexOf(one)).join() };
    });
    const fewest = new Map<string, (typeof described)[number]>();
    for (const one of described.toSorted((a, b) => a.subjects.length - b.subjects.length)) {
      const keys = one.subjects.map((subject) => `${selections.indexOf(subject)} ${one.peers}`);
      for (const key of keys.length === 0 ? [one.peers] : keys) if (!fewest.has(key)) fewest.set(key, one);
    }
    const kept = new Set(fewest.values());
    return described.filter((one) => kept.has(one)).map(({ labels }) => labels);
  }

  /** Returns the selections that may tell pods of a namespace with these labels apart that is in no file. */
  inOther(labels: Labels): readonly Selection[] {
    return this.#selections.filter((one) => isWithin(one, labels) && this.#isInPlay(one));
  }

  /** Returns the labels of namespaces that no file has. */
  otherNamespaces(): readonly Labels[] | undefined {
    const selectors = this.#selections.flatMap((one) =>
      typeof one.within !== "string" && this.#isInPlay(one) ? [one.within] : [],
    );
    const taken = new Map([[NAMESPACE_NAME, new Set(this.#labels.flatMap((side) => [...side.keys()]))]]);
    return labelClasses(distinct(selectors), MOST_NAMESPACES, { taken, always: [NAMESPACE_NAME] });
  }

  /** Returns whether a policy speaks of a namespace by this name. */
  namesNamespace(name: string): boolean {
    return this.#selections.some(({ within }) => {
      if (typeof within === "string") return false;
      const values = within.matchExpressions.flatMap((one) => (one.key === NAMESPACE_NAME ? one.values : []));
      return within.matchLabels[NAMESPACE_NAME] === name || values.includes(name);
    });
  }

  /** Returns the labels of nodes that no file has and that the changed policies tell apart. */
  otherNodes(): readonly Labels[] | undefined {
    const peers = this.#changed.flatMap(peersOf);
    const selectors = distinct(peers.flatMap((peer) => (peer.type === "nodes" ? [peer.selector] : [])));
    return selectors.length === 0 ? [] : labelClasses(selectors, MOST_NAMESPACES);
  }

  /**
   * Returns the ports that policies name, with a number that pods use for them, or else one of their own.
   *
   * @param selections of policies that may decide together with the change
   */
  namedPorts(selections: readonly Selection[]): Pod["ports"] {
    const policies = new Set([...this.#changed, ...selections.map(({ policy }) => policy)]);
    const keys = new Set([...policies].flatMap(namedPortsOf).map(portKey));
    return [...keys].flatMap((key) => this.#ports.get(key) ?? []);
  }

  /**
   * Returns the named ports that a pod may have: as pods in the files number them and, where a rule that names one may
   * be about the pod, also with other numbers and without.
   *
   * @param selections those of the pod's namespace
   */
  portForms(selections: readonly Selection[], labels: Labels): readonly PortForm[] {
    const own = { ports: this.#portsInPlay, text: "", labels: {} };
    const about = selections
      .filter(({ pods }) => selects(pods, labels))
      .map(({ policy, isSubject }) => (isSubject ? { ...policy, egress: [] } : { ...policy, ingress: [] }));
    const keys = new Set([...about.flatMap(namedPortsOf).map(portKey), ...this.#keysForAll]);
    if (keys.size === 0) return [own];
    const names = [...new Set([...keys].map((key) => key.replace(/ .*/, "")))].sort().join(", ");
    const isForeign = [...keys].every((key) => (this.#ports.get(key)?.port ?? 0) >= FIRST_PORT);
    const foreign = own.ports.map((one, i) => ({ ...one, port: OTHER_PORT + i }));
    const other = {
      ports: foreign,
      text: ` and another number of port ${names}`,
      labels: { [`port ${names}`]: "other" },
    };
    const none = { ports: [], text: ` and no port ${names}`, labels: { [`port ${names}`]: "none" } };
    return isForeign ? [own, none] : [own, other, none];
  }

  #isTouched(namespace: string): boolean {
    return this.#isClusterWide || this.#touched.has(namespace);
  }

  /**
   * Returns whether a policy may decide together with a change: for the whole cluster, beside a changed policy, about
   * changed pods, or at the other end of what one of these decides.
   */
  #isInPlay({ policy, isSubject }: Selection): boolean {
    if (policy.kind === "ClusterNetworkPolicy" || this.#isTouched(policy.namespace)) return true;
    if (this.#ofChangedPods.has(policy)) return true;
    return isSubject && policy.policyTypes.some((type) => this.#otherTypes.has(type));
  }
}

/** Returns whether an egress rule that names a port is about destinations that no selector tells apart. */
function isForAllPorts({ egress }: Policy): boolean {
  return egress.some(({ peers, ports }) => ports !== undefined && (peers === undefined || peers.some(isBlock)));
}

/** Returns the policies by texts that equal ones share. */
function policiesByText(objects: readonly ClusterObject[]): ReadonlyMap<string, Policy> {
  return new Map(
    objects.filter(isPolicy).map((policy) => [contentText({ ...policy, uid: "", generation: 0 }), policy]),
  );
}

/** Returns the named ports by {@link portKey}, with the number that a pod has for one, or else a number of its own. */
function numberedPorts(
  named: readonly Omit<ContainerPort, "port">[],
  objects: readonly ClusterObject[],
): ReadonlyMap<string, ContainerPort> {
  const used = Map.groupBy(
    objects.flatMap((one) => (one.kind === "Pod" ? one.ports : [])),
    portKey,
  );
  const ports = new Map<string, ContainerPort>();
  for (const one of named) {
    const key = portKey(one);
    if (!ports.has(key)) ports.set(key, { ...one, port: used.get(key)?.[0]?.port ?? FIRST_PORT + ports.size });
  }
  return ports;
}

function isWithin({ within }: Selection, namespaceLabels: Labels): boolean {
  return typeof within !== "string" && selects(within, namespaceLabels);
}

function isWrittenOnly(
  name: string,
  here: ReadonlySet<string> | undefined,
  there: ReadonlySet<string> | undefined,
): boolean {
  return here?.has(name) === true && there !== undefined && there.size > 0;
}

/** Returns the namespaces of the pods among the owners of an address, whose policies decide together (POL-95). */
function namespacesOfOwners(owners: AddressOwners): readonly string[] {
  return owners.flatMap((one) => (one.type === "pod" ? namespaceOf(one.key) : []));
}

function hasLabelsOf({ labels }: Pod, other: Pod | undefined): boolean {
  return other !== undefined && JSON.stringify(labels) === JSON.stringify(other.labels);
}

/** Returns the selectors without repetitions. */
export function distinct(selectors: readonly LabelSelector[]): readonly LabelSelector[] {
  return [...new Map(selectors.map((one) => [JSON.stringify([one.matchLabels, one.matchExpressions]), one])).values()];
}

/** Returns the namespaces of all objects, with their labels. */
export function namespacesOf(objects: readonly ClusterObject[]): ReadonlyMap<string, Labels> {
  const found = new Map<string, Labels>();
  for (const one of objects) {
    if (one.kind === "Namespace") found.set(one.name, one.labels);
    else if ((one.kind === "Pod" || one.kind === "NetworkPolicy") && !found.has(one.namespace)) {
      found.set(one.namespace, nameLabel(one.namespace));
    }
  }
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)));
}
