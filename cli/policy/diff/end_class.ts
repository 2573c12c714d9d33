import { formatAddress } from "../../../kernel/ip/address.ts";
import type { Pod } from "../../../objects/model.ts";
import { isFinished } from "../../../objects/semantics/policies/address_owner.ts";
import type { FlowEnd } from "../../../objects/semantics/policies/flow.ts";
import { hasSharedAddress, type PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import { type Grouping, groupName } from "../../cluster/group.ts";
import { domainNamesIn } from "../domain_names.ts";
import { type ClassifiedPod, classifiedPods } from "../connections/pair_table.ts";
import { NO_STAND_INS, type StandIns } from "../stand_ins.ts";
import { furtherAddresses, nodePlace } from "../node_place.ts";
import { type OutsideRegion, outsideRegions, regionEnd, regionText } from "../outside_region.ts";
import { workloadKeyOf } from "../../../objects/workload_name.ts";

/** A cluster before and after. */
export interface Sides {
  readonly before: PolicyIndex;
  readonly after: PolicyIndex;
}

/** The unit of a report: a workload, a class of pods that no file has, a node, a part of the outside, or a domain name in one family. */
export interface EndGroup {
  readonly name: string;
  /** The larger unit it belongs to: the pods of a namespace, the nodes, the outside in one family, or a domain name in both. */
  readonly kind: "pods" | "new pods" | "nodes" | "outside" | "domain names";
  readonly whole: string;
  /** The number of ends on each side, and of those on both, which are compared. */
  readonly sizes: Sizes;
}

export interface Sizes {
  readonly before: number;
  readonly after: number;
  readonly both: number;
}

/** One end of connections; undefined on a side where it is absent. */
export interface End {
  readonly before: FlowEnd | undefined;
  readonly after: FlowEnd | undefined;
  readonly group: EndGroup;
  /** Its node on each side; undefined outside and for a pod without a node. */
  readonly nodeBefore: string | undefined;
  readonly nodeAfter: string | undefined;
  /** Whether other pods have its addresses on a side: their nodes count as its own, too (POL-95). */
  readonly isShared?: boolean;
  /** The pod on each side; undefined where it is absent, and for a node or an address. */
  readonly podBefore: ClassifiedPod | undefined;
  readonly podAfter: ClassifiedPod | undefined;
}

/** Ends that no policy of either side distinguishes, except as a pod's own node. */
export interface EndClass {
  readonly ends: readonly [End, ...End[]];
  /** Whether they are nodes, or pods that count as nodes for policies, on at least one side. */
  readonly isNode: boolean;
  /** Whether policies may select them. */
  readonly isSubject: boolean;
}

/** All possible ends of connections, on both sides. */
export interface Ends {
  readonly classes: readonly EndClass[];
  readonly groups: readonly EndGroup[];
  readonly appeared: OneSided;
  readonly gone: OneSided;
}

/** Pods and nodes of one side only. */
export interface OneSided {
  /** Keys of pods whose workload does not run on the other side, and the names of these workloads. */
  readonly pods: readonly string[];
  readonly names: readonly string[];
  /** Names of nodes; their connections are not compared. */
  readonly nodes: readonly string[];
}

interface Found {
  readonly end: Omit<End, "group">;
  readonly group: Omit<EndGroup, "sizes">;
  readonly signature: string;
  readonly isNode: boolean;
  readonly isSubject: boolean;
}

/**
 * Returns the pods that run on either side, the nodes of both and the outside, in classes.
 *
 * @param standIns the names of those among them that are in no file
 */
export function endsOf(sides: Sides, by: Grouping, standIns = NO_STAND_INS.names): Ends {
  const [before, after] = [classifiedPods(sides.before), classifiedPods(sides.after)];
  const indexes = [sides.before, sides.after];
  const pairs = counterparts(podsOf(sides.before, before.keys()), podsOf(sides.after, after.keys()));
  const found: readonly Found[] = [
    ...pairs.flatMap((pair) => {
      const [old, young] = [pair.before ?? "", pair.after ?? ""];
      const classified = { podBefore: before.get(old), podAfter: after.get(young) };
      return foundPod(sides, pair, { by, standIns }, classified);
    }),
    ...foundNodes(sides, standIns),
    ...[undefined, ...domainNamesIn(indexes)].flatMap((asked) => outsideRegions(indexes, asked).map(foundRegion)),
  ];
  const sizes = new Map(
    [...Map.groupBy(found, ({ group }) => groupKey(group))].map(([key, all]) => [key, sizesOf(all)]),
  );
  const groups = new Map<string, EndGroup>();
  const classes = new Map<
    string,
    { readonly ends: [End, ...End[]]; readonly isNode: boolean; readonly isSubject: boolean }
  >();
  for (const { end, group, signature, isNode, isSubject } of found) {
    const key = groupKey(group);
    const known = groups.get(key) ?? { ...group, sizes: sizes.get(key) ?? NO_SIZES };
    groups.set(key, known);
    const whole: End = { ...end, group: known };
    const one = classes.get(signature);
    if (one === undefined) classes.set(signature, { ends: [whole], isNode, isSubject });
    else one.ends.push(whole);
  }
  return {
    classes: [...classes.values()],
    groups: [...groups.values()],
    appeared: oneSided(
      found.filter(({ end }) => end.before === undefined),
      nodesOnly(sides.after, sides.before),
    ),
    gone: oneSided(
      found.filter(({ end }) => end.after === undefined),
      nodesOnly(sides.before, sides.after),
    ),
  };
}

/** The sizes of a group without ends. */
export const NO_SIZES: Sizes = { before: 0, after: 0, both: 0 };

function sizesOf(found: readonly Found[]): Sizes {
  const count = (holds: (end: Found["end"]) => boolean): number => found.filter(({ end }) => holds(end)).length;
  return {
    before: count(({ before }) => before !== undefined),
    after: count(({ after }) => after !== undefined),
    both: count(({ before, after }) => before !== undefined && after !== undefined),
  };
}

function oneSided(found: readonly Found[], nodes: readonly string[]): OneSided {
  const ends = found.map(({ end }) => end.before ?? end.after);
  return {
    pods: ends.flatMap((end) => (end?.type === "pod" ? [end.key] : [])).sort(),
    names: [...new Set(found.map(({ group }) => group.name))].sort(),
    nodes,
  };
}

function nodesOnly(here: PolicyIndex, there: PolicyIndex): readonly string[] {
  return [...here.nodes.keys()].filter((name) => !there.nodes.has(name)).sort();
}

function podsOf({ pods }: PolicyIndex, keys: Iterable<string>): readonly Pod[] {
  return [...keys].flatMap((key) => pods.get(key)?.pod ?? []);
}

/** The kind is part of the key because a namespace may be called "node". */
function groupKey({ kind, name }: Pick<EndGroup, "kind" | "name">): string {
  return `${kind} ${name}`;
}

type ClassifiedPods = Pick<End, "podBefore" | "podAfter">;

const NO_PODS: ClassifiedPods = { podBefore: undefined, podAfter: undefined };

function foundPod(
  { before, after }: Sides,
  keys: Counterparts,
  { by, standIns }: { readonly by: Grouping; readonly standIns: StandIns["names"] },
  classified: ClassifiedPods,
): readonly Found[] {
  const [old, young] = [before.pods.get(keys.before ?? "")?.pod, after.pods.get(keys.after ?? "")?.pod];
  const pod = young ?? old;
  if (pod === undefined) return [];
  const both = [old, young].filter((one) => one !== undefined);
  const standIn = standIns.get(pod.key);
  return [
    {
      end: {
        before: podEnd(old),
        after: podEnd(young),
        nodeBefore: old?.nodeName,
        nodeAfter: young?.nodeName,
        isShared: hasSharedAddress(before, old) || hasSharedAddress(after, young),
        ...classified,
      },
      group:
        standIn === undefined
          ? { name: groupName(pod, by), kind: "pods", whole: pod.namespace }
          : { name: standIn.text, kind: "new pods", whole: standIn.namespace },
      signature: `pod ${classified.podBefore?.classNumber ?? "-"} ${classified.podAfter?.classNumber ?? "-"}`,
      isNode: both.some(({ hostNetwork }) => hostNetwork),
      isSubject: both.some((one) => !one.hostNetwork && !isFinished(one)),
    },
  ];
}

function podEnd(pod: Pod | undefined): FlowEnd | undefined {
  return pod === undefined ? undefined : { type: "pod", key: pod.key };
}

function foundNodes({ before, after }: Sides, standIns: StandIns["names"]): readonly Found[] {
  const [placeBefore, placeAfter] = [nodePlace(before), nodePlace(after)];
  const further = furtherAddresses([before, after]);
  return [...before.nodes.values()].flatMap((old): readonly Found[] => {
    const young = after.nodes.get(old.name);
    if (young === undefined) return [];
    const { name } = old;
    const found = (end: FlowEnd, text: string, signature: string): Found => ({
      end: { before: end, after: end, nodeBefore: name, nodeAfter: name, ...NO_PODS },
      group: { name: text, kind: "nodes", whole: "node" },
      signature,
      isNode: true,
      isSubject: false,
    });
    const text = standIns.get(name)?.text ?? `node/${name}`;
    return [
      found({ type: "node", name }, text, `node ${placeBefore(old)} ${placeAfter(young)}`),
      ...further(old).map((address) => {
        const alone = { name, addresses: [{ type: "InternalIP", address }] } as const;
        const signature = `address of node ${placeBefore(alone)} ${placeAfter(alone)}`;
        return found({ type: "address", address }, `${text} (${formatAddress(address)})`, signature);
      }),
    ];
  });
}

function foundRegion(region: OutsideRegion): Found {
  const { asked, family } = region;
  const name = `outside ${regionText(region)}`;
  const end = regionEnd(region);
  return {
    end: { before: end, after: end, nodeBefore: undefined, nodeAfter: undefined, ...NO_PODS },
    group:
      asked === undefined
        ? { name, kind: "outside", whole: `outside IPv${family}` }
        : { name: `${asked} IPv${family}`, kind: "domain names", whole: asked },
    signature: `${name} ${asked ?? ""}`,
    isNode: false,
    isSubject: false,
  };
}

/** A pod by its key on each side; undefined where its workload is absent. */
interface Counterparts {
  readonly before: string | undefined;
  readonly after: string | undefined;
}

/**
 * Pairs each pod with the one to compare it with: the pod of its name, or else another one of its workload. Pods of a
 * Deployment get new names with each change, and pods that stand for templates have names of their own; neither makes a
 * new workload. A pod by which a workload grew or shrank is paired with the first one of the other side.
 *
 * @param before the running pods, likewise `after`
 */
function counterparts(before: readonly Pod[], after: readonly Pod[]): readonly Counterparts[] {
  const [old, young] = [keysOf(before), keysOf(after)];
  const same = [...old].filter((key) => young.has(key)).map((key): Counterparts => ({ before: key, after: key }));
  const [oldWorkloads, youngWorkloads] = [byWorkload(before), byWorkload(after)];
  const others = [...new Set([...oldWorkloads.keys(), ...youngWorkloads.keys()])].flatMap((workload) => {
    const [all, allAfter] = [oldWorkloads.get(workload) ?? [], youngWorkloads.get(workload) ?? []];
    const [left, leftAfter] = [all.filter((key) => !young.has(key)), allAfter.filter((key) => !old.has(key))];
    return Array.from({ length: Math.max(left.length, leftAfter.length) }, (_, i): Counterparts => ({
      before: left[i] ?? all[0],
      after: leftAfter[i] ?? allAfter[0],
    }));
  });
  return [...same, ...others].sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
}

function keysOf(pods: readonly Pod[]): ReadonlySet<string> {
  return new Set(pods.map(({ key }) => key));
}

function byWorkload(pods: readonly Pod[]): ReadonlyMap<string, readonly string[]> {
  const groups = Map.groupBy(pods, workloadKeyOf);
  return new Map([...groups].map(([workload, some]) => [workload, some.map(({ key }) => key).sort()]));
}

function nameOf({ before, after }: Counterparts): string {
  return after ?? before ?? "";
}
