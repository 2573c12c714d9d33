import { frozenLabels, nameLabel, NAMESPACE_NAME } from "../../../objects/name.ts";
import type {
  ClusterObject,
  Labels,
  LabelSelector,
  Namespace,
  NetworkPolicy,
  Pod,
  PodPeer,
} from "../../../objects/model.ts";
import { isFinished } from "../../../objects/semantics/policies/address_owner.ts";
import { selects } from "../../../objects/semantics/policies/selector.ts";

/** Pods that do not exist and that policies would distinguish from existing ones. */
export interface NewPods {
  /** The pods, and the namespaces that they need. */
  readonly objects: readonly ClusterObject[];
  /** Their names for people, by key: `new pod in shop with app=web`. */
  readonly names: ReadonlyMap<string, string>;
  /** For a pod with labels, the key of the one without labels in the same namespace. */
  readonly plain: ReadonlyMap<string, string>;
  /** The number of further kinds of pods in policies. */
  readonly omitted: number;
}

/** The most kinds of non-existing pods that are tried. */
const MOST_KINDS = 500;

/**
 * Returns the possible new pods: one without labels in each namespace and in a namespace that does not exist yet, and
 * for each peer that selects no existing pod one that it would select.
 *
 * Policies are evaluated for them as for any pod, so a policy that closes a namespace applies to a new pod in it.
 */
export function newPodsFor(objects: readonly ClusterObject[]): NewPods {
  const namespaces = namespacesOf(objects);
  const pods = objects.filter((one): one is Pod => one.kind === "Pod" && !isFinished(one) && !one.hostNetwork);
  const maker = new Maker(namespaces);
  for (const name of namespaces.keys()) maker.add({ namespace: name, labels: {} }, `new pod in ${name}`);
  maker.add({ namespace: maker.namespaceWith({}), labels: {} }, "new pod in any other namespace");
  const seen = new Set<string>();
  let omitted = 0;
  for (const { peer, namespace } of peersOf(objects)) {
    const key = JSON.stringify([peer.namespaceSelector ?? namespace, peer.podSelector]);
    if (seen.has(key)) continue;
    seen.add(key);
    if (pods.some((pod) => isSelected(peer, namespace, pod, namespaces))) continue;
    if (seen.size > MOST_KINDS || !maker.addFor(peer, namespace)) omitted++;
  }
  return { ...maker.made(), omitted };
}

interface Place {
  readonly namespace: string;
  readonly labels: Labels;
}

class Maker {
  readonly #known: ReadonlyMap<string, Labels>;
  readonly #namespaces = new Map<string, Namespace>();
  readonly #pods = new Map<string, Pod>();
  readonly #names = new Map<string, string>();
  readonly #plain = new Map<string, string>();

  constructor(known: ReadonlyMap<string, Labels>) {
    this.#known = known;
  }

  add({ namespace, labels }: Place, text: string): string {
    const pod = newPod(namespace, `drawbridge-new-pod-${this.#pods.size}`, labels);
    this.#pods.set(pod.key, pod);
    this.#names.set(pod.key, text);
    return pod.key;
  }

  /**
   * Adds a pod that a peer selects; none for a peer that contradicts itself.
   *
   * @returns false where it would need a second namespace of one name, with other labels
   */
  addFor({ podSelector, namespaceSelector }: PodPeer, ofPolicy: string): boolean {
    const labels = podSelector === undefined ? {} : labelsFor(podSelector);
    if (labels === undefined) return true;
    const place =
      namespaceSelector === undefined ? { namespace: ofPolicy, text: ofPolicy } : this.#placeFor(namespaceSelector);
    if (typeof place !== "object") return place === "contradiction";
    const { namespace, text } = place;
    const plain = [...this.#pods.values()].find((pod) => pod.namespace === namespace)?.key;
    const words = labelsText(labels);
    const key = this.add({ namespace, labels }, `new pod in ${text}${words === "" ? "" : ` with ${words}`}`);
    if (plain !== undefined) this.#plain.set(key, plain);
    return true;
  }

  /** Returns a namespace that a selector selects: an existing one or else a new one. */
  #placeFor(
    selector: LabelSelector,
  ): { readonly namespace: string; readonly text: string } | "contradiction" | "name is taken" {
    for (const [namespace, labels] of this.#known) if (selects(selector, labels)) return { namespace, text: namespace };
    const wanted = labelsFor(this.#ofNewNamespace(selector));
    if (wanted === undefined) return "contradiction";
    const made = this.#namespaces.get(wanted[NAMESPACE_NAME] ?? "");
    if (made !== undefined && !selects(selector, made.labels)) return "name is taken";
    return { namespace: this.namespaceWith(wanted), text: namespaceText(wanted) };
  }

  /** Returns the selector for a new namespace: its name is also its label, and differs from existing ones. */
  #ofNewNamespace({ matchLabels, matchExpressions }: LabelSelector): LabelSelector {
    const taken = { key: NAMESPACE_NAME, operator: "NotIn", values: [...this.#known.keys()] } as const;
    const isNamed = NAMESPACE_NAME in matchLabels || matchExpressions.some(({ key }) => key === NAMESPACE_NAME);
    const named = { key: NAMESPACE_NAME, operator: "Exists", values: [] } as const;
    return { matchLabels, matchExpressions: [...matchExpressions, taken, ...(isNamed ? [named] : [])] };
  }

  /** Returns a namespace with some labels that does not exist. */
  namespaceWith(labels: Labels): string {
    let name = labels[NAMESPACE_NAME] ?? `drawbridge-new-namespace-${this.#namespaces.size}`;
    while (labels[NAMESPACE_NAME] === undefined && this.#known.has(name)) name += "-x";
    if (this.#namespaces.has(name)) return name;
    this.#namespaces.set(name, newNamespace(name, { ...labels, [NAMESPACE_NAME]: name }));
    return name;
  }

  made(): Omit<NewPods, "omitted"> {
    const objects = [...this.#namespaces.values(), ...this.#pods.values()];
    return { objects, names: this.#names, plain: this.#plain };
  }
}

/** Returns a running pod without addresses. */
export function newPod(namespace: string, name: string, labels: Labels): Pod {
  return {
    kind: "Pod",
    key: `${namespace}/${name}`,
    name,
    namespace,
    uid: "",
    staticUid: undefined,
    labels: frozenLabels(Object.entries(labels)),
    annotations: frozenLabels([]),
    controller: undefined,
    addresses: [],
    nodeName: undefined,
    hostNetwork: false,
    phase: "Running",
    isTerminating: false,
    ports: [],
  };
}

export function newNamespace(name: string, labels: Labels): Namespace {
  return {
    kind: "Namespace",
    key: name,
    name,
    uid: "",
    labels: frozenLabels(Object.entries(labels)),
    isTerminating: false,
  };
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

function* peersOf(
  objects: readonly ClusterObject[],
): Generator<{ readonly peer: PodPeer; readonly namespace: string }> {
  for (const one of objects) {
    if (one.kind !== "NetworkPolicy" && one.kind !== "ClusterNetworkPolicy") continue;
    const namespace = one.kind === "NetworkPolicy" ? (one satisfies NetworkPolicy).namespace : "";
    for (const { peers } of [...one.ingress, ...one.egress]) {
      for (const peer of peers ?? []) if (peer.type === "pods") yield { peer, namespace };
    }
  }
}

function isSelected(peer: PodPeer, ofPolicy: string, pod: Pod, namespaces: ReadonlyMap<string, Labels>): boolean {
  if (peer.podSelector !== undefined && !selects(peer.podSelector, pod.labels)) return false;
  if (peer.namespaceSelector === undefined) return pod.namespace === ofPolicy;
  return selects(peer.namespaceSelector, namespaces.get(pod.namespace) ?? {});
}

/** Returns the fewest labels that a selector needs; undefined where it contradicts itself. */
function labelsFor({ matchLabels, matchExpressions }: LabelSelector): Labels | undefined {
  const labels: Record<string, string> = { ...matchLabels };
  for (const [key, requirements] of Map.groupBy(matchExpressions, (one) => one.key)) {
    const meets = (value: string | undefined): boolean =>
      selects({ matchLabels: {}, matchExpressions: requirements }, value === undefined ? {} : { [key]: value });
    const named = requirements.flatMap(({ values }) => values);
    // One more than the named values, so that at least one is not forbidden.
    const others = Array.from({ length: named.length + 1 }, (_, i) => (i === 0 ? "any" : `any-${i}`));
    const fixed = labels[key];
    const value = (fixed === undefined ? [undefined, ...named, ...others] : [fixed]).find(meets);
    if (!meets(value)) return undefined;
    if (value !== undefined) labels[key] = value;
  }
  return labels;
}

export function namespaceText(labels: Labels): string {
  const text = labelsText(labels);
  return text === "" ? "any other namespace" : `a namespace with ${text}`;
}

export function labelsText(labels: Labels): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
}
