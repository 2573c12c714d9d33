import type { ClusterObject, Labels, Node, Pod } from "../../objects/model.ts";
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

/** The parts of a pod or a node that a policy may see. */
type Traits = Pick<Pod, "labels" | "ports"> & {
  /** Undefined for a node. */
  readonly namespace: string | undefined;
  /** For each block of {@link blocksOf} whether it has one of the addresses. */
  readonly within: readonly boolean[];
};

type ByText = ReadonlyMap<string, Traits>;
type Pair<T> = readonly [before: T, after: T];
type Difference = Pair<readonly Traits[]>;

/** The policies that decide about changed pods and nodes. */
export interface SeenChanges {
  /** Those that see another pod in a workload, or another node, on the two sides. */
  readonly seeing: readonly Policy[];
  /** Others that select such a pod, and so decide whom it reaches and who reaches it. */
  readonly beside: readonly Policy[];
}

/**
 * Returns the policies that see a difference between the two sides: in the labels of a pod or a node, its addresses or
 * the number of a port that they name. They see all of a new or a removed workload, and no node of one side only, whose
 * connections are not compared.
 *
 * @param namespaces the labels of the namespaces
 */
export function seenChanges(
  policies: readonly Policy[],
  sides: Pair<readonly ClusterObject[]>,
  namespaces: ReadonlyMap<string, Labels>,
): SeenChanges {
  const keys = new Set(policies.flatMap(selectionsOf).flatMap(({ pods }) => keysOf(pods)));
  const names = new Set(policies.flatMap(namedPortsOf).map(portKey));
  const blocks = policies.map((policy) => peersOf(policy).flatMap(blocksOf));
  const allBlocks = blocks.flat();
  const placesOf = (addresses: Pod["addresses"]): readonly boolean[] =>
    allBlocks.map((has) => addresses.some((one) => has(one)));
  const ofPod = ({ namespace, labels, ports, addresses }: Pod): Traits => ({
    namespace,
    labels: Object.fromEntries(Object.entries(labels).filter(([key]) => keys.has(key))),
    ports: ports.filter((port) => names.has(portKey(port))),
    within: placesOf(addresses),
  });
  const ofNode = ({ labels, addresses }: Node): Traits => ({
    namespace: undefined,
    labels,
    ports: [],
    within: placesOf(addresses.map(({ address }) => address)),
  });
  const workloads = inPair(sides, (side) => traitsBy(side.filter(isRunning), workloadKeyOf, ofPod));
  const nodes = inPair(sides, (side) =>
    traitsBy(
      side.filter((one) => one.kind === "Node"),
      ({ name }) => name,
      ofNode,
    ),
  );
  const changed = [
    ...differences(workloads),
    ...differences(nodes).filter((some) => some.every((traits) => traits.length > 0)),
  ];
  let first = 0;
  const seen = new Set<Difference>();
  const seeing = new Set<Policy>();
  for (const [i, policy] of policies.entries()) {
    const range = [first, first + (blocks[i]?.length ?? 0)] as const;
    first = range[1];
    const view = viewOf(policy, namespaces, range);
    const textOf = (all: readonly Traits[]): string =>
      [...new Set(all.map(view))]
        .filter((text) => text !== "")
        .sort()
        .join();
    const some = changed.filter(([was, is]) => textOf(was) !== textOf(is));
    for (const one of some) seen.add(one);
    if (some.length > 0) seeing.add(policy);
  }
  const pods = [...seen].flat(2).filter(({ namespace }) => namespace !== undefined);
  const isSubject = (policy: Policy): boolean =>
    selectionsOf(policy).some((one) => one.isSubject && pods.some((pod) => isSelected(one, pod, namespaces)));
  return { seeing: [...seeing], beside: policies.filter((policy) => !seeing.has(policy) && isSubject(policy)) };
}

/** Returns the traits of objects by a name that some share, each once. */
function traitsBy<T>(
  objects: readonly T[],
  nameOf: (one: T) => string,
  traitsOf: (one: T) => Traits,
): ReadonlyMap<string, ByText> {
  const groups = Map.groupBy(objects, nameOf);
  const textsOf = (some: readonly T[]): ByText =>
    new Map(some.map(traitsOf).map((traits) => [JSON.stringify(traits), traits]));
  return new Map([...groups].map(([name, some]) => [name, textsOf(some)]));
}

/** Returns the traits before and after of each name with which they differ; none on a side without the name. */
function differences(sides: Pair<ReadonlyMap<string, ByText>>): readonly Difference[] {
  const names = new Set(sides.flatMap((side) => [...side.keys()]));
  return [...names].flatMap((name): readonly Difference[] => {
    const [was, is] = inPair(sides, (side) => side.get(name) ?? new Map<string, Traits>());
    const areEqual = was.size === is.size && [...was.keys()].every((text) => is.has(text));
    return areEqual ? [] : [[[...was.values()], [...is.values()]]];
  });
}

function inPair<T, U>([before, after]: Pair<T>, compute: (one: T) => U): Pair<U> {
  return [compute(before), compute(after)];
}

/** Returns whether a selection has a pod. */
function isSelected(
  { pods, within }: Selection,
  { namespace = "", labels }: Traits,
  namespaces: ReadonlyMap<string, Labels>,
): boolean {
  const isPlace = typeof within === "string" ? within === namespace : selects(within, namespaces.get(namespace) ?? {});
  return isPlace && selects(pods, labels);
}

/** Returns a function that describes what a policy sees of a pod or a node; "" for nothing. */
function viewOf(
  policy: Policy,
  namespaces: ReadonlyMap<string, Labels>,
  [first, end]: readonly [number, number],
): (one: Traits) => string {
  const selections = selectionsOf(policy);
  const names = new Set(namedPortsOf(policy).map(portKey));
  const isForAll = policy.egress.some(({ peers }) => peers === undefined || peers.some(isBlock));
  const ofNodes = peersOf(policy).flatMap((peer) => (peer.type === "nodes" ? [peer.selector] : []));
  return (traits) => {
    const { namespace, labels, ports, within } = traits;
    const met =
      namespace === undefined
        ? ofNodes.map((one) => selects(one, labels))
        : selections.map((one) => isSelected(one, traits, namespaces));
    const places = within.slice(first, end);
    const numbers = isForAll || met.includes(true) ? ports.filter((port) => names.has(portKey(port))) : [];
    return [...met, ...places].includes(true) || numbers.length > 0 ? JSON.stringify([met, places, numbers]) : "";
  };
}

export function isBlock({ type }: { readonly type: string }): boolean {
  return type === "ipBlock" || type === "networks";
}
