import type { Address } from "../../kernel/ip/address.ts";
import { type Cidr, cidrFamily, formatCidr, hostCidr, networkAddress } from "../../kernel/ip/cidr.ts";
import type { Pod } from "../../objects/model.ts";
import { workloadText } from "../../objects/workload_name.ts";
import type { RowEnd, FlowRow } from "./row.ts";

/** The pod or node that has an address. */
export type AddressHolder =
  | { readonly type: "pod"; readonly pod: Pod }
  | { readonly type: "node"; readonly name: string };

/** Returns the domain name by which a pod knows an address now; undefined where it has not asked for one. */
export type DomainNameOf = (pod: Address, remote: Address) => string | undefined;

/** An end of a flow as of the moment it is seen. */
export interface SeenEnd {
  /** Identifies the end; all addresses of one outside block that have one name share a key. */
  readonly key: string;
  readonly end: RowEnd;
  /** Whether it is a pod of this node. */
  readonly isLocal: boolean;
}

/** Prefix lengths of the blocks that outside addresses are grouped by. */
const BLOCK_BITS = { 4: 24, 6: 64 } as const;
/** Number of nodes, and of outside addresses, whose ends are cached. */
const MOST_REMEMBERED = 4096;

/** Names the ends of flows by the current holders of their addresses. */
export class FlowEndNames {
  readonly #nodeName: string;
  readonly #holderOf: (address: Address) => AddressHolder | undefined;
  readonly #pods = new WeakMap<Pod, SeenEnd>();
  readonly #nodes = new Map<string, SeenEnd>();
  readonly #outside = new Map<Address, SeenEnd>();
  readonly #domainNameOf: DomainNameOf;

  constructor(nodeName: string, holderOf: (address: Address) => AddressHolder | undefined, domainNameOf: DomainNameOf) {
    this.#nodeName = nodeName;
    this.#holderOf = holderOf;
    this.#domainNameOf = domainNameOf;
  }

  /** Returns the ends of a flow; an outside one that a pod sends to has the domain name by which the pod knows it. */
  of(source: Address, server: Address): readonly [SeenEnd, SeenEnd] {
    const [from, to] = [this.#at(source), this.#at(server)];
    if (to.end.type !== "outside") return [from, to];
    const name = this.#domainNameOf(source, server);
    return [from, name === undefined ? to : seenEnd({ ...to.end, name }, false)];
  }

  #at(address: Address): SeenEnd {
    const holder = this.#holderOf(address);
    if (holder === undefined) return this.#outsideAt(address);
    if (holder.type === "node") return this.#nodeAt(holder.name);
    const { pod } = holder;
    const known = this.#pods.get(pod);
    if (known !== undefined) return known;
    const isLocal = pod.nodeName === this.#nodeName && !pod.hostNetwork;
    const found = seenEnd({ type: "workload", name: workloadText(pod) }, isLocal);
    this.#pods.set(pod, found);
    return found;
  }

  #nodeAt(name: string): SeenEnd {
    return remembered(this.#nodes, name, () =>
      // This node's flows are in its ledger only where the other end is one of its pods.
      seenEnd(name === this.#nodeName ? { type: "own node" } : { type: "node", name }, false),
    );
  }

  #outsideAt(address: Address): SeenEnd {
    return remembered(this.#outside, address, () => seenEnd({ type: "outside", range: hostCidr(address) }, false));
  }
}

function remembered<K>(ends: Map<K, SeenEnd>, key: K, make: () => SeenEnd): SeenEnd {
  const known = ends.get(key);
  if (known !== undefined) return known;
  if (ends.size >= MOST_REMEMBERED) ends.clear();
  const made = make();
  ends.set(key, made);
  return made;
}

/** Returns an end with its key. */
export function seenEnd(end: RowEnd, isLocal: boolean): SeenEnd {
  return Object.freeze({ key: keyOf(end), end: Object.freeze(end), isLocal });
}

function keyOf(end: RowEnd): string {
  if (end.type === "own node") return end.type;
  if (end.type !== "outside") return `${end.type} ${end.name}`;
  const block = { address: end.range.address, prefixLength: BLOCK_BITS[cidrFamily(end.range)] };
  return `${formatCidr({ ...block, address: networkAddress(block) })} ${end.name ?? ""}`;
}

/** Returns a key that is equal for all rows with the same ends, protocol, port and verdict. */
export function rowKey({ from, to, protocol, port, verdict }: FlowRow): string {
  return [keyOf(from), keyOf(to), protocol, port ?? 0, verdict].join(" ");
}

/** Returns one end for two with the same key; for two outside ends, the smallest prefix that contains both. */
export function joinedEnd(known: RowEnd, seen: RowEnd): RowEnd {
  if (known.type !== "outside" || seen.type !== "outside") return known;
  const range = joinedRange(known.range, seen.range);
  return range === known.range ? known : { ...known, range };
}

/** Returns the smallest prefix that contains two prefixes of one family. */
function joinedRange(a: Cidr, b: Cidr): Cidr {
  if (a.prefixLength === b.prefixLength && a.address === b.address) return a;
  let prefixLength = Math.min(a.prefixLength, b.prefixLength);
  const networkOf = (cidr: Cidr): Address => networkAddress({ address: cidr.address, prefixLength });
  while (networkOf(a) !== networkOf(b)) prefixLength--;
  return Object.freeze({ address: networkOf(a), prefixLength });
}
