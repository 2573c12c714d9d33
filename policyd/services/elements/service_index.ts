import { type Address, type Family, familyOf } from "../../../kernel/ip/address.ts";
import type { ClusterObject, EndpointSlice, Node, ObjectChange, Service } from "../../../objects/model.ts";
import { ZONE_LABEL } from "../../../objects/name.ts";
import { listOf, type OneOrMore, putList } from "../../lib/one_or_more.ts";
import { serviceKeyOf } from "../../../objects/service_key.ts";

/** The facts of the node that the compiler's context contains. */
export interface NodeFacts {
  readonly zone: string | undefined;
  /** The first internal address of each family, or if there is none, the first of any type. */
  readonly primaryAddresses: readonly Address[];
}

/** The effect of changes on Services. */
export interface Touched {
  /** Keys of the Services whose elements have to be compiled again; also of those that are gone. */
  readonly services: ReadonlySet<string>;
  /** {@link ServiceIndex.nodeFacts} have changed. */
  readonly hasNodeChanged: boolean;
}

/**
 * Indexes the Services, their slices and the facts of this node, so that a change finds what depends on it without a
 * search through the rest. Pods are not part of it: the slices of a Service say which pods it has.
 */
export class ServiceIndex {
  readonly #nodeName: string;
  readonly #services = new Map<string, Service>();
  readonly #slices = new Map<string, EndpointSlice>();
  /** Without a list if it is the only one, as for nearly all Services. */
  readonly #slicesOf = new Map<string, OneOrMore<EndpointSlice>>();
  #facts = factsOf(undefined);

  constructor(nodeName: string) {
    this.#nodeName = nodeName;
  }

  service(key: string): Service | undefined {
    return this.#services.get(key);
  }

  /** Returns the slices of a Service, only by their label. */
  slicesOf(serviceKey: string): readonly EndpointSlice[] {
    return listOf(this.#slicesOf.get(serviceKey));
  }

  nodeFacts(): NodeFacts {
    return this.#facts;
  }

  /** Applies changes and returns what depends on them. */
  apply(changes: readonly ObjectChange[]): Touched {
    const services = new Set<string>();
    const before = this.#facts;
    for (const change of changes) {
      const { kind, key } = change;
      const object = change.type === "set" ? change.object : undefined;
      if (kind === "Service") services.add(this.#setService(key, object));
      if (kind === "EndpointSlice") for (const service of this.#setSlice(key, object)) services.add(service);
      if (kind === "Node") this.#setNode(key, object);
    }
    const after = this.#facts;
    const isZoneNew = before.zone !== after.zone;
    const areAddressesNew = before.primaryAddresses.join() !== after.primaryAddresses.join();
    if (isZoneNew) for (const key of this.#hintedServices()) services.add(key);
    if (areAddressesNew) for (const key of this.#restrictedServices()) services.add(key);
    return { services, hasNodeChanged: isZoneNew || areAddressesNew };
  }

  /** Returns the Services with hints in which this node's zone matters. */
  #hintedServices(): readonly string[] {
    return [...this.#slices.values()].flatMap((slice) =>
      slice.endpoints.some(({ zoneHints }) => zoneHints !== undefined) ? (serviceKeyOf(slice) ?? []) : [],
    );
  }

  /** Returns the Services whose source ranges this node may be in. */
  #restrictedServices(): readonly string[] {
    return [...this.#services].flatMap(([key, service]) => (service.loadBalancerSourceRanges === undefined ? [] : key));
  }

  #setNode(key: string, object: ClusterObject | undefined): void {
    if (key === this.#nodeName) this.#facts = factsOf(object?.kind === "Node" ? object : undefined);
  }

  /** @returns the Service's key */
  #setService(key: string, object: ClusterObject | undefined): string {
    const service = object?.kind === "Service" ? object : undefined;
    if (service === undefined) this.#services.delete(key);
    else this.#services.set(key, service);
    return key;
  }

  /** @returns the keys of the Services that the slice belonged to before and belongs to now */
  #setSlice(key: string, object: ClusterObject | undefined): readonly string[] {
    const slice = object?.kind === "EndpointSlice" ? object : undefined;
    const old = this.#slices.get(key);
    const before = old && serviceKeyOf(old);
    const after = slice && serviceKeyOf(slice);
    if (before !== undefined) {
      const siblings = this.slicesOf(before).filter((sibling) => sibling.key !== key);
      this.#setSlices(before, siblings);
    }
    if (slice === undefined) this.#slices.delete(key);
    else this.#slices.set(key, slice);
    if (slice !== undefined && after !== undefined) this.#setSlices(after, this.slicesOf(after).concat([slice]));
    return [before, after].filter((service) => service !== undefined);
  }

  #setSlices(serviceKey: string, slices: readonly EndpointSlice[]): void {
    // The index shares an equal string that is retained anyway.
    const key = this.#services.get(serviceKey)?.key ?? serviceKey;
    putList(this.#slicesOf, key, slices);
  }
}

/** Returns the facts of this node from its Node object; none without one. */
function factsOf(node: Node | undefined): NodeFacts {
  const primaryOf = (family: Family): readonly Address[] => {
    const ofFamily = (node?.addresses ?? []).filter(({ address }) => familyOf(address) === family);
    const primary = ofFamily.find(({ type }) => type === "InternalIP") ?? ofFamily[0];
    return primary === undefined ? [] : [primary.address];
  };
  return { zone: node?.labels[ZONE_LABEL] || undefined, primaryAddresses: [...primaryOf(4), ...primaryOf(6)] };
}
