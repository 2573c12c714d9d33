import { type Address, type Family, familyOf } from "../../../kernel/ip/address.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import type { Pod } from "../../model.ts";
import { internalFirst } from "../../nodes/node_addresses.ts";
import { type AddressOwner, isFinished, isSameOwner } from "./address_owner.ts";
import type { Flow, FlowEnd } from "./flow.ts";
import type { PolicyIndex } from "./policy_index.ts";
import type { Subject } from "./profile.ts";
import type { ImpossibleFlow, Party } from "./verdict.ts";

/** An end of a flow, with the facts that policies use. */
export interface ResolvedEnd {
  readonly party: Party;
  readonly address: Address | undefined;
  /** The family of the flow; undefined if neither end has an address yet. */
  readonly family: Family | undefined;
  /** The domain name for which DNS gave an outside address to the sender; undefined if none is known. */
  readonly asked?: string | typeof ANY_NAME;
  /** The pod that policies may select; undefined for nodes and outside addresses. */
  readonly pod: Pod | undefined;
  readonly subject: Subject | undefined;
  /** The others that have its address as much as it does: only what is allowed to each is allowed (POL-95). */
  readonly others: readonly ResolvedEnd[];
}

/** Stands for every domain name of every policy. */
export const ANY_NAME: unique symbol = Symbol("any name");

export interface ResolvedFlow {
  readonly family: Family | undefined;
  readonly source: ResolvedEnd;
  readonly destination: ResolvedEnd;
}

/** An end before its address is chosen. */
interface Candidate {
  readonly pod: Pod | undefined;
  readonly subject: Subject | undefined;
  readonly node: { readonly name: string | undefined; readonly pod: string | undefined } | undefined;
  readonly addresses: readonly Address[];
}

/**
 * Finds the pods, nodes or outside addresses at the ends of a flow.
 *
 * @throws DrawbridgeError ERR_OBJECT for a pod or a node that the index does not have
 */
export function resolveFlow(index: PolicyIndex, flow: Flow): ResolvedFlow | ImpossibleFlow {
  const source = candidate(index, flow.source);
  const destination = candidate(index, flow.destination);
  const finished = finishedEnd(source, "source") ?? finishedEnd(destination, "destination");
  if (finished !== undefined) return finished;
  const family = flow.family ?? firstCommonFamily(source.addresses, destination.addresses);
  if (family === "none" || !(mayHave(source.addresses, family) && mayHave(destination.addresses, family))) {
    return { kind: "impossible", reason: { type: "no common family" } };
  }
  const to = resolved(index, destination, family);
  const asked = flow.destination.type === "address" ? flow.destination.asked : undefined;
  return { family, source: resolved(index, source, family), destination: asked === undefined ? to : { ...to, asked } };
}

/** Returns the end as each of the pods or nodes that have its address, without the others. */
export function eachOf(end: ResolvedEnd): readonly ResolvedEnd[] {
  return end.others.length === 0 ? [end] : [{ ...end, others: [] }, ...end.others];
}

/**
 * Returns the families in which a flow can be sent, the destination's first choice first; undefined if neither end has
 * an address yet.
 *
 * @throws DrawbridgeError as {@link resolveFlow}
 */
export function familiesOf(
  index: PolicyIndex,
  { source, destination }: Pick<Flow, "source" | "destination">,
): readonly Family[] | undefined {
  const [from, to] = [candidate(index, source).addresses, candidate(index, destination).addresses];
  const known = [...new Set((to.length > 0 ? to : from).map(familyOf))];
  return known.length === 0 ? undefined : known.filter((family) => mayHave(from, family));
}

/** Returns the first family that both ends have; undefined if neither has an address. */
function firstCommonFamily(source: readonly Address[], destination: readonly Address[]): Family | undefined | "none" {
  const [first] = destination.length > 0 ? destination : source;
  if (first === undefined) return undefined;
  for (const address of destination) if (mayHave(source, familyOf(address))) return familyOf(address);
  return destination.length > 0 ? "none" : familyOf(first);
}

/** Returns whether an end may have a family; one without addresses, such as a pod not started yet, may get any. */
function mayHave(addresses: readonly Address[], family: Family | undefined): boolean {
  for (const address of addresses) if (familyOf(address) === family) return true;
  return addresses.length === 0;
}

function candidate(index: PolicyIndex, end: FlowEnd): Candidate {
  switch (end.type) {
    case "pod":
      return podCandidate(index, end.key);
    case "node":
      if (index.nodes.get(end.name) === undefined) throw unknown("node", end.name, "the name of a Node");
      return nodeCandidate(index, end.name);
    case "address": {
      const [owner] = index.owners.get(end.address) ?? [];
      return owner === undefined ? { ...NOBODY, addresses: [end.address] } : ownerCandidate(index, owner, end.address);
    }
  }
}

function ownerCandidate(index: PolicyIndex, owner: AddressOwner, address: Address): Candidate {
  const known = owner.type === "pod" ? podCandidate(index, owner.key) : nodeCandidate(index, owner.name);
  return { ...known, addresses: [address] };
}

const NOBODY: Candidate = { pod: undefined, subject: undefined, node: undefined, addresses: [] };

function podCandidate(index: PolicyIndex, key: string): Candidate {
  const entry = index.pods.get(key);
  if (entry === undefined) throw unknown("pod", key, "a Pod as namespace/name");
  const { pod, subject } = entry;
  if (!pod.hostNetwork || isFinished(pod)) return { pod, subject, node: undefined, addresses: pod.addresses };
  const { addresses } = nodeCandidate(index, pod.nodeName);
  return {
    ...NOBODY,
    node: { name: pod.nodeName, pod: key },
    addresses: addresses.length > 0 ? addresses : pod.addresses,
  };
}

function nodeCandidate({ nodes }: PolicyIndex, name: string | undefined): Candidate {
  const addresses = internalFirst((name === undefined ? undefined : nodes.get(name))?.addresses ?? []);
  return { ...NOBODY, node: { name, pod: undefined }, addresses };
}

function resolved(index: PolicyIndex, end: Candidate, family: Family | undefined): ResolvedEnd {
  const { pod, subject, node } = end;
  const address = ofFamily(end.addresses, family);
  const alone = { party: partyOf(pod, node, address), address, family, pod, subject, others: NO_OTHERS };
  const owners = address === undefined ? undefined : index.owners.get(address);
  if (address === undefined || owners === undefined || owners.length === 1) return alone;
  const isIt = (owner: AddressOwner): boolean =>
    pod === undefined
      ? isSameOwner(owner, { type: "node", name: node?.name ?? "" })
      : isSameOwner(owner, { type: "pod", key: pod.key });
  if (!owners.some(isIt)) return alone;
  const others = owners.filter((owner) => !isIt(owner)).map((owner) => ownerCandidate(index, owner, address));
  return { ...alone, others: others.map((one) => ({ ...alone, ...one, party: partyOf(one.pod, one.node, address) })) };
}

const NO_OTHERS: readonly never[] = [];

function ofFamily(addresses: readonly Address[], family: Family | undefined): Address | undefined {
  for (const address of addresses) if (familyOf(address) === family) return address;
  return undefined;
}

function partyOf(pod: Pod | undefined, node: Candidate["node"], address: Address | undefined): Party {
  if (pod !== undefined) return { type: "pod", key: pod.key, address };
  if (node !== undefined) return { type: "node", name: node.name, address, pod: node.pod };
  if (address === undefined) throw new RangeError("an end outside of the cluster has an address");
  return { type: "outside", address };
}

function finishedEnd({ pod }: Candidate, end: "source" | "destination"): ImpossibleFlow | undefined {
  if (pod === undefined || !isFinished(pod)) return undefined;
  return { kind: "impossible", reason: { type: "pod has finished", end, pod: pod.key } };
}

function unknown(what: string, name: string, expectation: string): DrawbridgeError {
  return new DrawbridgeError(
    "ERR_OBJECT",
    `${what}: ${JSON.stringify(name)} is not among the objects; expected ${expectation}`,
  );
}
