import { familyOf } from "../../../kernel/ip/address.ts";
import { cidrContains } from "../../../kernel/ip/cidr.ts";
import type { Node, Pod } from "../../../policyd/cluster/model.ts";
import { isFinished } from "../../../policyd/policy/evaluate/address_owner.ts";
import type { FlowEnd } from "../../../policyd/policy/evaluate/flow.ts";
import { podClasses } from "../../../policyd/policy/evaluate/pod_class.ts";
import type { PolicyIndex } from "../../../policyd/policy/evaluate/policy_index.ts";
import type { Grouping } from "../../cluster/group.ts";
import { groupName } from "../../cluster/group.ts";
import type { OutsideRegion } from "../outside_region.ts";
import { namedPrefixes, outsideRegions, regionText } from "../outside_region.ts";

/** A cluster before and after. */
export interface Sides {
  readonly before: PolicyIndex;
  readonly after: PolicyIndex;
}

/** What ends are told as: a workload with some others of its namespace, a node, a part of the outside. */
export interface EndGroup {
  readonly name: string;
  /** What it is one of, and what stands for all of those: the pods of a namespace, the nodes, the outside. */
  readonly kind: "pods" | "nodes" | "outside";
  readonly whole: string;
  /** How many ends. */
  readonly size: number;
}

/** One end of connections, of both sides. */
export interface End {
  readonly flowEnd: FlowEnd;
  readonly group: EndGroup;
  /** Where it is, on each side; undefined outside and for what is on none. */
  readonly nodeBefore: string | undefined;
  readonly nodeAfter: string | undefined;
}

/** Ends that no policy of either side tells apart, but as a pod's own node. */
export interface EndClass {
  readonly ends: readonly [End, ...End[]];
  /** They are nodes, or pods that policies take for theirs, on one side at least. */
  readonly isNode: boolean;
  /** Policies may select them. */
  readonly isSubject: boolean;
}

/** Everything a connection may begin or end at, on both sides. */
export interface Ends {
  readonly classes: readonly EndClass[];
  readonly groups: readonly EndGroup[];
  /** Keys of pods that run on one side alone. */
  readonly appeared: readonly string[];
  readonly gone: readonly string[];
}

interface Found {
  readonly end: Omit<End, "group">;
  readonly group: Omit<EndGroup, "size">;
  readonly signature: string;
  readonly isNode: boolean;
  readonly isSubject: boolean;
}

/** The pods that run on both sides, the nodes of both and the outside, in classes; pods come by their keys. */
export function endsOf(sides: Sides, by: Grouping): Ends {
  const [before, after] = [classNumbers(sides.before), classNumbers(sides.after)];
  const keys = [...before.keys()].filter((key) => after.has(key)).sort();
  const found: readonly Found[] = [
    ...keys.flatMap((key) => foundPod(sides, key, by, `${before.get(key)} ${after.get(key)}`)),
    ...foundNodes(sides),
    ...outsideRegions([sides.before, sides.after]).map(foundRegion),
  ];
  const sizes = new Map<string, number>();
  for (const { group } of found) sizes.set(groupKey(group), (sizes.get(groupKey(group)) ?? 0) + 1);
  const groups = new Map<string, EndGroup>();
  const classes = new Map<
    string,
    { readonly ends: [End, ...End[]]; readonly isNode: boolean; readonly isSubject: boolean }
  >();
  for (const { end, group, signature, isNode, isSubject } of found) {
    const key = groupKey(group);
    const known = groups.get(key) ?? { ...group, size: sizes.get(key) ?? 0 };
    groups.set(key, known);
    const whole: End = { ...end, group: known };
    const one = classes.get(signature);
    if (one === undefined) classes.set(signature, { ends: [whole], isNode, isSubject });
    else one.ends.push(whole);
  }
  return {
    classes: [...classes.values()],
    groups: [...groups.values()],
    appeared: [...after.keys()].filter((key) => !before.has(key)).sort(),
    gone: [...before.keys()].filter((key) => !after.has(key)).sort(),
  };
}

/** A namespace may be called "node". */
function groupKey({ kind, name }: Pick<EndGroup, "kind" | "name">): string {
  return `${kind} ${name}`;
}

function classNumbers(index: PolicyIndex): ReadonlyMap<string, number> {
  return new Map(podClasses(index).flatMap(({ pods }, number) => pods.map((key) => [key, number] as const)));
}

function foundPod({ before, after }: Sides, key: string, by: Grouping, numbers: string): readonly Found[] {
  const [old, young] = [before.pods.get(key)?.pod, after.pods.get(key)?.pod];
  if (old === undefined || young === undefined) return [];
  return [
    {
      end: { flowEnd: { type: "pod", key }, nodeBefore: old.nodeName, nodeAfter: young.nodeName },
      group: { name: groupName(young, by), kind: "pods", whole: young.namespace },
      signature: `pod ${numbers}`,
      isNode: old.hostNetwork || young.hostNetwork,
      isSubject: canBeSubject(old) || canBeSubject(young),
    },
  ];
}

function canBeSubject(pod: Pod): boolean {
  return !pod.hostNetwork && !isFinished(pod);
}

function foundNodes({ before, after }: Sides): readonly Found[] {
  const [placeBefore, placeAfter] = [nodePlace(before), nodePlace(after)];
  return [...before.nodes.values()].flatMap((old): readonly Found[] => {
    const young = after.nodes.get(old.name);
    if (young === undefined) return [];
    return [
      {
        end: { flowEnd: { type: "node", name: old.name }, nodeBefore: old.name, nodeAfter: old.name },
        group: { name: `node/${old.name}`, kind: "nodes", whole: "node" },
        signature: `node ${placeBefore(old)} ${placeAfter(young)}`,
        isNode: true,
        isSubject: false,
      },
    ];
  });
}

/** What policies ask about nodes: which of their selectors select it, and in which of their prefixes its addresses are. */
function nodePlace(index: PolicyIndex): (node: Node) => string {
  const rules = index.clusterPolicies.flatMap((one) => [...one.rules.egress, ...one.rules.ingress]);
  const peers = rules.flatMap((rule) => rule.peers ?? []);
  const selections = peers.flatMap((peer) => (peer.type === "nodes" ? [peer.names] : []));
  const prefixes = namedPrefixes([index]);
  return ({ name, addresses }) => {
    const internal = addresses.filter(({ type }) => type === "InternalIP");
    const ordered = [...internal, ...addresses.filter((one) => !internal.includes(one))];
    const places = ordered.map(({ address }) => {
      const within = prefixes.map((prefix) => (cidrContains(prefix, address) ? "1" : "0"));
      return `${familyOf(address)}:${within.join("")}`;
    });
    return `${selections.map((names) => (names.has(name) ? "1" : "0")).join("")} ${places.join()}`;
  };
}

function foundRegion(region: OutsideRegion): Found {
  const name = `outside ${regionText(region)}`;
  return {
    end: { flowEnd: { type: "address", address: region.representative }, nodeBefore: undefined, nodeAfter: undefined },
    group: { name, kind: "outside", whole: `outside IPv${region.family}` },
    signature: name,
    isNode: false,
    isSubject: false,
  };
}
