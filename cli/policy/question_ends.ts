import { buildPolicyIndex, type PolicyIndex } from "../../objects/semantics/policies/policy_index.ts";
import { storeOf } from "../cluster/policy_objects.ts";
import { FAMILIES, type Family, familyOf } from "../../kernel/ip/address.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { ClusterNetworkPolicy, ClusterObject, Labels, LabelSelector, Pod } from "../../objects/model.ts";
import { frozenLabels, nameLabel, NAMESPACE_NAME } from "../../objects/name.ts";
import { selects } from "../../objects/semantics/policies/selector.ts";
import { podsNamed } from "../cluster/named_pods.ts";
import { type Cluster, clusterOf } from "../cluster/cluster.ts";
import { type EndName, endNameOf, NEW_PODS } from "../cluster/end_name.ts";
import { type End, findEnd, type Host, type HostsEnd } from "../cluster/find_end.ts";
import type { Io } from "../io.ts";
import { ExplainContext } from "./explain/context.ts";
import { headlessHosts } from "./explain/paths/targets.ts";
import { outsideRegions, regionText } from "./outside_region.ts";
import { namespacesOf, PolicyChange } from "./policy_change.ts";
import type { PolicyInput } from "./policy_input.ts";
import { NO_STAND_INS, type StandIns, standInsFor } from "./stand_ins.ts";

const ALL: LabelSelector = Object.freeze({ matchLabels: frozenLabels([]), matchExpressions: [] });

/** An end that is also about pods to come. */
type OpenEnd = Extract<EndName, { readonly type: "pods" | "new pods" }>;

/**
 * Returns stand-ins for the pods that are in no file and that the policies or the ends of questions tell apart; none
 * where no end is about pods to come.
 *
 * @param texts the ends
 */
function standInsForEnds(objects: readonly ClusterObject[], texts: readonly string[], namespace: string): StandIns {
  const open = texts.flatMap((text) => openEnd(objects, endNameOf(text, namespace)) ?? []);
  if (open.length === 0) return NO_STAND_INS;
  const others = objects.filter(({ kind }) => kind !== "NetworkPolicy" && kind !== "ClusterNetworkPolicy");
  return standInsFor(others, [...objects, ...open.map(asPolicy)], true);
}

/** Pods that do not exist, and that policies would tell apart from those that do. */
export interface NewPods {
  /** The pods, and the namespaces that they need. */
  readonly objects: readonly ClusterObject[];
  /** Their names for people, by key: `new pod in shop with app=web`. */
  readonly names: ReadonlyMap<string, string>;
  /** Their labels with those of new namespaces, by key. */
  readonly labels: ReadonlyMap<string, Labels>;
  /** Whether they are all there. */
  readonly isComplete: boolean;
}

/** Returns one stand-in for each class of pods of which no file has one, and for pods without labels. */
export function newPodsFor(objects: readonly ClusterObject[]): NewPods {
  const { objects: all, names, isComplete } = standInsForEnds(objects, [NEW_PODS], "");
  const found = new Map<string, string>();
  const kept = all.filter((one) => {
    if (one.kind !== "Pod") return one.kind === "Namespace";
    const { text = "", isMinor = false } = names.get(one.key) ?? {};
    if ((isMinor && Object.keys(one.labels).length > 0) || [...found.values()].includes(text)) return false;
    found.set(one.key, text);
    return true;
  });
  const labels = new Map([...found.keys()].map((key) => [key, names.get(key)?.labels ?? {}]));
  return { objects: kept, names: found, labels, isComplete };
}

/** Reports that new pods are left out; those without labels are there. */
export function tellOmitted({ isComplete }: NewPods, { err }: Io): void {
  if (!isComplete) err.write("omitted: new pods, of which the policies tell too many kinds apart\n");
}

/** Returns the policies over some objects and {@link newPodsFor} them, and these new pods. */
export function withNewPods({ objects, options }: PolicyInput): {
  readonly index: PolicyIndex;
  readonly young: NewPods;
} {
  const young = newPodsFor(objects);
  return { index: buildPolicyIndex(storeOf([...objects, ...young.objects]), options), young };
}

/** Returns what answers questions about some ends takes: the objects, with stand-ins for pods that are in no file. */
export function explainContext(read: PolicyInput, ends: readonly string[]): ExplainContext {
  const standIns = standInsForEnds(read.objects, ends, read.namespace);
  return new ExplainContext(clusterOf(read.manifests, read.options, standIns), read);
}

/** Returns the ends of a question. @throws DrawbridgeError ERR_OBJECT for names that do not exist */
export function endsOfQuestion(
  context: ExplainContext,
  { from, to }: { readonly from: string; readonly to: string },
  namespace: string,
): { readonly from: HostsEnd; readonly to: End } {
  const sourceName = endNameOf(from, namespace);
  const named = sourceName.type === "outside" ? undefined : endOf(context, sourceName, 0);
  const destination = endOf(context, endNameOf(to, namespace), 1);
  // A Service with ranges of allowed sources tells parts of the outside apart, too.
  const ranges = destination.type === "service" ? destination.service.loadBalancerSourceRanges : undefined;
  const source = named ?? { ...outside(context.cluster, undefined, ranges), address: undefined };
  if (source.type === "service") throw new RangeError("a Service sends nothing");
  const ends = {
    from: inFamiliesOf(context, source, destination),
    to: destination.type === "service" ? destination : inFamiliesOf(context, destination, source),
  };
  const empty = [ends.from, ends.to].find((end) => end.type !== "service" && end.hosts.length === 0);
  if (empty === undefined) return ends;
  throw new DrawbridgeError("ERR_OBJECT", `${empty.name}: nobody to judge; expected pods that policies can select`);
}

/** @param twin which of the two stand-ins of each class: a pod always reaches itself */
function endOf({ cluster, worlds }: ExplainContext, name: EndName, twin: 0 | 1): End {
  if (name.type === "outside") return { ...outside(cluster), address: undefined };
  if (twin === 1 && name.type === "pod" && name.domain !== undefined) {
    const isPod = podsNamed([...cluster.store.pods.values()], name).length > 0;
    if (!isPod) return { ...outside(cluster, name.domain), address: undefined };
  }
  const open = openEnd(
    [...cluster.manifests.values()].map(({ object }) => object),
    name,
  );
  if (open === undefined) return findEnd(cluster, name, twin === 0 ? new Map() : worlds.objects.services);
  if (cluster.newPods === undefined) {
    throw new DrawbridgeError("ERR_OBJECT", "the policies tell too many kinds of new pods apart; expected named pods");
  }
  const young = cluster.newPods.filter(({ pod, name: text }, i, all) => {
    const isTwin = i === 0 || all[i - 1]?.name !== text;
    const labels = cluster.index.pods.get(pod.key)?.subject?.identity.namespaceLabels ?? nameLabel(pod.namespace);
    return isTwin === (twin === 0) && (open.type === "new pods" || isIn(open, labels, pod.labels));
  });
  const hosts = young.map((one) => ({ type: "pod", ...one }) as const);
  if (open.type === "new pods") return { type: "new pods", name: NEW_PODS, hosts, address: undefined };
  if (hosts.length === 0) return findEnd(cluster, open, new Map());
  const there = podsNamed([...cluster.store.pods.values()], open).length > 0;
  const known = there ? findEnd(cluster, open, new Map()) : undefined;
  const own = known === undefined || known.type === "service" ? [] : known.hosts;
  return { type: "pods", name: open.text, hosts: [...own, ...hosts], address: undefined };
}

function openEnd(objects: readonly ClusterObject[], name: EndName): OpenEnd | undefined {
  if (name.type === "new pods") return name;
  const place = name.type === "pods" ? name.namespace : name.type === "pod" ? name.word : undefined;
  if (place === undefined) return name.type === "pods" ? name : undefined;
  // A namespace that neither an object nor a policy names is probably a mistake.
  const isKnown = namespacesOf(objects).has(place) || new PolicyChange([], objects).namesNamespace(place);
  if (name.type === "pods") return isKnown ? name : undefined;
  const pods = objects.filter((one): one is Pod => one.kind === "Pod" && one.namespace !== place);
  const isPod = podsNamed(pods, name).length > 0;
  return isKnown && !isPod ? { type: "pods", namespace: place, labels: undefined, text: `${place}/*` } : undefined;
}

function isIn({ namespace, labels }: Extract<OpenEnd, { readonly type: "pods" }>, place: Labels, own: Labels): boolean {
  const isPlace = namespace === undefined || place[NAMESPACE_NAME] === namespace;
  return isPlace && (labels === undefined || selects(labels, own));
}

/** Returns a policy that tells the pods of an end apart from others and decides nothing. */
function asPolicy(end: OpenEnd): ClusterNetworkPolicy {
  const { namespace, labels } = end.type === "pods" ? end : { namespace: undefined, labels: undefined };
  const namespaceSelector = namespace === undefined ? ALL : { ...ALL, matchLabels: nameLabel(namespace) };
  const subject = { type: "pods", index: 0, namespaceSelector, podSelector: labels ?? ALL } as const;
  const name = "end of a question";
  const rules = { ingress: [], egress: [] };
  return {
    kind: "ClusterNetworkPolicy",
    key: name,
    name,
    uid: "",
    generation: 0,
    tier: "Baseline",
    priority: 0,
    subject,
    ...rules,
  };
}

/**
 * Returns all parts of the outside that policies tell apart.
 *
 * @param asked a domain name: the parts in which DNS may say that it is
 * @param ranges those that a Service tells apart
 */
function outside(
  { index }: Cluster,
  asked?: string,
  ranges: readonly Cidr[] = [],
): Pick<HostsEnd, "type" | "name" | "hosts"> {
  const hosts = outsideRegions([index], asked, ranges).map((region) => {
    const name = `${asked === undefined ? "outside" : `${asked} in`} ${regionText(region)}`;
    return {
      type: "outside",
      address: region.representative,
      name,
      ...(asked === undefined ? {} : { asked }),
    } as const;
  });
  return { type: "outside", name: asked ?? "outside", hosts };
}

/** Returns an end without the parts of the outside in families that the other end does not have. */
function inFamiliesOf(context: ExplainContext, end: HostsEnd, other: End): HostsEnd {
  if (end.type !== "outside") return end;
  const families = new Set(familiesOf(context, other));
  const isMeant = (one: Host): boolean =>
    one.type !== "outside" || families.size === 0 || families.has(familyOf(one.address));
  return { ...end, hosts: end.hosts.filter(isMeant) };
}

/** Returns the families of an end; empty where the input has none of its addresses. */
function familiesOf(context: ExplainContext, end: End): readonly Family[] {
  if (end.type === "service" && !end.service.isHeadless) return end.service.clusterIps.map(familyOf);
  const target = end.type === "service" ? headlessHosts(context, end) : end;
  if (target === undefined || target === "nobody") return [];
  return target.hosts.flatMap((host) =>
    FAMILIES.filter((family) => {
      if (host.type === "pod" && host.families !== undefined) return host.families.has(family);
      const address = context.addressOf(host, family);
      return address !== undefined && context.cluster.placeholderAddresses.ownerOf(address) === undefined;
    }),
  );
}
