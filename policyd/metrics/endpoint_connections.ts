import { addressFromValue, familyOf, formatAddress } from "../../kernel/ip/address.ts";
import { keyText } from "../../kernel/nftables/element.ts";
import type { Element } from "../../kernel/nftables/object.ts";

/** Which port of a Service a number of connections is about. */
export interface PortLabels {
  readonly namespace: string;
  readonly service: string;
  /** The port's name; empty where it has none. */
  readonly port: string;
  readonly protocol: string;
}

/** Who a number of connections is about. */
export interface EndpointLabels extends PortLabels {
  /** Address and port: `10.0.0.1:80`, `[fd00::1]:80`. */
  readonly endpoint: string;
}

/** One line of the metric. */
export interface EndpointSeries {
  readonly labels: EndpointLabels;
  /** Since this daemon knows the endpoint, and what its elements had counted before. */
  readonly connections: number;
}

/** An element whose counter is part of a series: that of the endpoint in its data. */
export interface CountingElement {
  readonly set: string;
  readonly element: Element;
  /** One object for all elements of a port. */
  readonly port: PortLabels;
}

/** A moment between two batches, to tell what was asked of the kernel before a batch from what was asked behind it. */
export type Moment = number;

/** A node has tens of thousands of these: the text of the endpoint is made when somebody reads it. */
interface Series {
  readonly port: PortLabels;
  readonly endpoint: Element["data"];
  connections: number;
}

interface Counter {
  readonly owner: string;
  readonly series: Series;
  readonly set: CountersOfSet;
  /** In its set. */
  readonly id: string;
  /** What the kernel showed last. */
  packets: number;
  /** The kernel began to count at this moment or before. */
  since: Moment;
}

interface CountersOfSet {
  readonly name: string;
  readonly byId: Map<string, Counter>;
}

/** What an owner claims, made out when it is first asked for: until then nothing of it keeps a batch waiting. */
class Claims {
  readonly #list: () => readonly CountingElement[];
  #elements: readonly CountingElement[] | undefined;
  #series: ReadonlySet<string> | undefined;

  constructor(list: () => readonly CountingElement[]) {
    this.#list = list;
  }

  get elements(): readonly CountingElement[] {
    this.#elements ??= this.#list();
    return this.#elements;
  }

  has(series: string): boolean {
    this.#series ??= new Set(this.elements.map(({ port, element }) => seriesId(port, element.data)));
    return this.#series.has(series);
  }
}

/**
 * The new connections of each endpoint: pure sums of what elements' counters show.
 *
 * An endpoint has an element for each frontend, and other ones when the number of its Service's endpoints changes; an
 * element that is written anew counts from 0. So a series is the sum of the growth that was seen, and never falls while
 * its endpoint stays. It ends with its endpoint.
 *
 * What is claimed takes effect by {@link settle}, when the kernel has it.
 */
export class EndpointConnections {
  readonly #owners = new Map<string, readonly Counter[]>();
  readonly #sets = new Map<string, CountersOfSet>();
  readonly #claims = new Map<string, Claims>();
  #moment: Moment = 0;

  /** Now: whatever is asked of the kernel from here on is no older. */
  get moment(): Moment {
    return this.#moment;
  }

  /** Sets what belongs to an owner, a Service, once the kernel has it; an empty list forgets the owner. */
  claim(owner: string, elements: () => readonly CountingElement[]): void {
    this.#claims.set(owner, new Claims(elements));
  }

  /** Whether an element counts for a series that will still be there when all claims are in force. */
  isWanted(set: string, element: Element): boolean {
    const counter = this.#counter(set, element);
    if (counter === undefined) return false;
    const next = this.#claims.get(counter.owner);
    return next === undefined || next.has(seriesId(counter.series.port, counter.series.endpoint));
  }

  /** The sets in which elements count. */
  sets(): readonly string[] {
    return [...this.#sets.keys()];
  }

  /**
   * Takes over what the kernel showed of an element.
   *
   * @param asked the moment at which it was asked at the latest; what it said of an earlier element of the same key and
   *   endpoint is passed over
   */
  observe(set: string, element: Element, packets: number, asked: Moment = this.#moment): void {
    const counter = this.#counter(set, element);
    if (counter === undefined || counter.since > asked) return;
    counter.series.connections += packets >= counter.packets ? packets - counter.packets : packets;
    counter.packets = packets;
  }

  /** An element was deleted: one of the same key and endpoint begins at 0. */
  removed(set: string, element: Element): void {
    const counter = this.#counter(set, element);
    if (counter === undefined) return;
    counter.packets = 0;
    counter.since = ++this.#moment;
  }

  /** All elements of these sets were deleted. */
  allRemoved(sets: ReadonlySet<string>): void {
    this.#moment++;
    for (const { name, byId } of this.#sets.values()) {
      if (!sets.has(name)) continue;
      for (const counter of byId.values()) {
        counter.packets = 0;
        counter.since = this.#moment;
      }
    }
  }

  /** The kernel has what is claimed. */
  settle(): void {
    if (this.#claims.size === 0) return;
    this.#moment++;
    const before = new Map<string, Counter>();
    // All that goes comes first, since an element may pass from one Service to another.
    for (const owner of this.#claims.keys()) {
      for (const counter of this.#owners.get(owner) ?? []) {
        const { set, id } = counter;
        if (set.byId.get(id) !== counter) continue;
        before.set(`${set.name} ${id}`, counter);
        set.byId.delete(id);
      }
    }
    for (const [owner, { elements }] of this.#claims) this.#take(owner, elements, before);
    this.#claims.clear();
    for (const { name, byId } of this.#sets.values()) if (byId.size === 0) this.#sets.delete(name);
  }

  *series(): Generator<EndpointSeries, void, void> {
    for (const counters of this.#owners.values()) {
      for (const { port, endpoint, connections } of new Set(counters.map(({ series }) => series))) {
        yield { labels: { ...port, endpoint: endpointText(endpoint) }, connections };
      }
    }
  }

  #take(owner: string, elements: readonly CountingElement[], before: ReadonlyMap<string, Counter>): void {
    const old = new Map(this.#owners.get(owner)?.map(({ series: one }) => [seriesId(one.port, one.endpoint), one]));
    const series = new Map<string, Series>();
    const counters = elements.map(({ set, port, element }): Counter => {
      const name = seriesId(port, element.data);
      const own = series.get(name) ?? old.get(name) ?? { port, endpoint: element.data, connections: 0 };
      series.set(name, own);
      const id = elementId(element);
      const { packets = 0, since = this.#moment } = before.get(`${set} ${id}`) ?? {};
      return { owner, series: own, set: this.#set(set), id, packets, since };
    });
    for (const counter of counters) counter.set.byId.set(counter.id, counter);
    if (counters.length === 0) this.#owners.delete(owner);
    else this.#owners.set(owner, counters);
  }

  #set(name: string): CountersOfSet {
    let set = this.#sets.get(name);
    if (set === undefined) this.#sets.set(name, (set = { name, byId: new Map() }));
    return set;
  }

  #counter(set: string, element: Element): Counter | undefined {
    return this.#sets.get(set)?.byId.get(elementId(element));
  }
}

/** The same text for the same key and endpoint of one set; in one piece, as tens of thousands of them are kept. */
function elementId({ key, data }: Element): string {
  return [keyText(key), dataText(data)].join(" ");
}

/** The same text for the same series of one Service. */
function seriesId({ port, protocol }: PortLabels, endpoint: Element["data"]): string {
  return `${port} ${protocol} ${dataText(endpoint)}`;
}

function dataText(data: Element["data"]): string {
  return data === undefined || "kind" in data ? "" : data.join(" ");
}

/** What an element sends connections to: `10.0.0.1:80`, `[fd00::1]:80`. */
function endpointText(data: Element["data"]): string {
  const [value, port] = data === undefined || "kind" in data ? [] : data;
  if (typeof value !== "number" && typeof value !== "bigint") return "";
  const address = addressFromValue(typeof value === "number" ? 4 : 6, BigInt(value));
  if (address === undefined) return "";
  return familyOf(address) === 4 ? `${formatAddress(address)}:${port}` : `[${formatAddress(address)}]:${port}`;
}
