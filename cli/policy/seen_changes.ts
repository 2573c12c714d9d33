import type { ClusterObject, Labels, Pod } from "../../objects/model.ts";
import { keysOf, selects } from "../../objects/semantics/policies/selector.ts";
import { workloadKeyOf } from "../../objects/workload_name.ts";
import { blocksOf } from "./new_addresses.ts";
import {
  isRunning,
  namedPortsOf,
  peersOf,
  type Policy,
  portKey,
  type Selection,
  selectionsOf,
} from "./policy_parts.ts";

/** A pod or a node, as far as a policy may see it. */
type Seen = Pick<Pod, "labels" | "ports" | "addresses"> & {
  /** Undefined for a node. */
  readonly namespace: string | undefined;
};

/**
 * Returns the policies for which a pod of a workload, or a node, differs between the two sides, and those that select
 * such a pod: they decide whom it reaches and who reaches it. Labels, addresses and the numbers of ports differ for a
 * policy that names them. A new or removed workload differs as a whole. A node of one side only does not count: its
 * connections are not compared.
 *
 * @param namespaces the labels of the namespaces
 */
export function policiesOfChanges(
  policies: readonly Policy[],
  [before, after]: readonly [readonly ClusterObject[], readonly ClusterObject[]],
  namespaces: ReadonlyMap<string, Labels>,
): readonly Policy[] {
  const keys = new Set([
    ...policies.flatMap(selectionsOf).flatMap(({ pods }) => keysOf(pods)),
    ...policies.flatMap(nodeSelectorsOf).flatMap(keysOf),
  ]);
  const names = new Set(policies.flatMap(namedPortsOf).map(portKey));
  const blocks = policies.flatMap(peersOf).flatMap(blocksOf);
  // A label or a port for which no policy asks makes no difference.
  const textOf = ({ labels, ports, addresses }: Seen): string =>
    JSON.stringify([
      Object.entries(labels).filter(([key]) => keys.has(key)),
      ports.filter((port) => names.has(portKey(port))),
      blocks.map((has) => addresses.some((one) => has(one))),
    ]);
  const [old, young] = [byText(before, textOf), byText(after, textOf)];
  const changed = [...new Set([...old.keys(), ...young.keys()])].flatMap((name) => {
    const [was, is] = [old.get(name) ?? NOTHING, young.get(name) ?? NOTHING];
    const areEqual = was.size === is.size && [...was.keys()].every((text) => is.has(text));
    const sides = { was: [...was.values()], is: [...is.values()] };
    const isNode = [...sides.was, ...sides.is].some(({ namespace }) => namespace === undefined);
    return areEqual || (isNode && (was.size === 0 || is.size === 0)) ? [] : [sides];
  });
  return policies.filter((policy) => {
    const view = viewOf(policy, namespaces);
    const viewsOf = (all: readonly Seen[]): string => [...new Set(all.map(view))].filter(Boolean).sort().join();
    const [subject] = selectionsOf(policy);
    const isSubject = (one: Seen): boolean => subject !== undefined && isSelected(subject, one, namespaces);
    return changed.some(({ was, is }) => viewsOf(was) !== viewsOf(is) || was.some(isSubject) || is.some(isSubject));
  });
}

const NOTHING: ReadonlyMap<string, Seen> = new Map();

/** Returns the nodes and, by their workloads, the pods, those with equal texts once. */
function byText(
  objects: readonly ClusterObject[],
  textOf: (one: Seen) => string,
): ReadonlyMap<string, ReadonlyMap<string, Seen>> {
  const found = new Map<string, Map<string, Seen>>();
  const add = (name: string, one: Seen): void => {
    const known = found.get(name) ?? new Map<string, Seen>();
    found.set(name, known.set(textOf(one), one));
  };
  for (const object of objects) {
    if (isRunning(object)) add(`pod ${workloadKeyOf(object)}`, object);
    else if (object.kind === "Node") {
      const addresses = object.addresses.map(({ address }) => address);
      add(`node ${object.name}`, { namespace: undefined, labels: object.labels, ports: [], addresses });
    }
  }
  return found;
}

function nodeSelectorsOf(policy: Policy): readonly Selection["pods"][] {
  return peersOf(policy).flatMap((peer) => (peer.type === "nodes" ? [peer.selector] : []));
}

/** Returns whether a selection has a pod; a node is in none. */
function isSelected(
  { pods, within }: Selection,
  { namespace, labels }: Seen,
  namespaces: ReadonlyMap<string, Labels>,
): boolean {
  if (namespace === undefined) return false;
  const isPlace = typeof within === "string" ? within === namespace : selects(within, namespaces.get(namespace) ?? {});
  return isPlace && selects(pods, labels);
}

/** Returns a function that describes what a policy sees of a pod or a node; "" for nothing. */
function viewOf(policy: Policy, namespaces: ReadonlyMap<string, Labels>): (one: Seen) => string {
  const selections = selectionsOf(policy);
  const ofNodes = nodeSelectorsOf(policy);
  const blocks = peersOf(policy).flatMap(blocksOf);
  const names = new Set(namedPortsOf(policy).map(portKey));
  const isForAll = policy.egress.some(({ peers }) => peers === undefined || peers.some(isBlock));
  return (one) => {
    const { namespace, labels, ports, addresses } = one;
    const met = [
      ...selections.map((selection) => isSelected(selection, one, namespaces)),
      ...ofNodes.map((selector) => namespace === undefined && selects(selector, labels)),
    ];
    const places = blocks.map((has) => addresses.some((address) => has(address)));
    const numbers = isForAll || met.includes(true) ? ports.filter((port) => names.has(portKey(port))) : [];
    return [...met, ...places].includes(true) || numbers.length > 0 ? JSON.stringify([met, places, numbers]) : "";
  };
}

export function isBlock({ type }: { readonly type: string }): boolean {
  return type === "ipBlock" || type === "networks";
}
