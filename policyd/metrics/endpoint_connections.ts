import { addressFromValue, familyOf, formatAddress } from "../../kernel/ip/address.ts";
import { keyText } from "../../kernel/nftables/element.ts";
import type { Element } from "../../kernel/nftables/object.ts";
import type { OneOrMore } from "../one_or_more.ts";
import { listOf, putList } from "../one_or_more.ts";

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

/** What the kernel showed of an element last. */
interface Counter {
  readonly packets: number;
  /** The kernel began to count at this moment or before. */
  readonly since: Moment;
}

/** The elements of an owner in one set that count for one port. */
interface Run {
  readonly owner: string;
  readonly set: CountersOfSet;
  readonly port: PortLabels;
  readonly ids: readonly string[];
  /** Of those without a counter. */
  readonly since: Moment;
}

interface CountersOfSet {
  readonly name: string;
  /** By what each element counts. A node has tens of thousands. */
  readonly runs: Map<string, Run>;
  /** Of elements that have counted, which most of them never do. */
  readonly counters: Map<string, Counter>;
  /** No counter is older. */
  since: Moment;
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
    this.#series ??= new Set(this.elements.map(({ port, element }) => seriesId(port, dataText(element.data))));
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
  /** By itself where it is the only one, as nearly all are. */
  readonly #owners = new Map<string, OneOrMore<Run>>();
  /** The connections of each owner's series, of those that have any. */
  readonly #sums = new Map<string, Map<string, number>>();
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
    const id = elementId(element);
    const run = this.#sets.get(set)?.runs.get(id);
    if (run === undefined) return false;
    const next = this.#claims.get(run.owner);
    return next === undefined || next.has(seriesId(run.port, dataOf(id)));
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
    const id = elementId(element);
    const run = this.#sets.get(set)?.runs.get(id);
    if (run === undefined) return;
    const counter = counterOf(run, id);
    if (counter.since > asked || packets === counter.packets) return;
    const growth = packets >= counter.packets ? packets - counter.packets : packets;
    run.set.counters.set(id, { packets, since: counter.since });
    this.#add(run.owner, seriesId(run.port, dataOf(id)), growth);
  }

  /** An element was deleted: one of the same key and endpoint begins at 0. */
  removed(set: string, element: Element): void {
    const id = elementId(element);
    const run = this.#sets.get(set)?.runs.get(id);
    if (run !== undefined) run.set.counters.set(id, { packets: 0, since: ++this.#moment });
  }

  /** All elements of these sets were deleted. */
  allRemoved(sets: ReadonlySet<string>): void {
    this.#moment++;
    for (const name of sets) {
      const set = this.#sets.get(name);
      if (set === undefined) continue;
      set.counters.clear();
      set.since = this.#moment;
    }
  }

  /** The kernel has what is claimed. */
  settle(): void {
    if (this.#claims.size === 0) return;
    this.#moment++;
    const old = [...this.#claims.keys()].flatMap((owner) => listOf(this.#owners.get(owner)));
    // What goes is looked at first, since an element may pass from one Service to another.
    const before = new Map(old.flatMap(countersOf));
    for (const [owner, { elements }] of this.#claims) this.#take(owner, elements, before);
    for (const run of old) forget(run);
    this.#claims.clear();
    for (const { name, runs } of this.#sets.values()) if (runs.size === 0) this.#sets.delete(name);
  }

  *series(): Generator<EndpointSeries, void, void> {
    for (const [owner, runs] of this.#owners) {
      const sums = this.#sums.get(owner);
      const told = new Set<string>();
      for (const { port, ids } of listOf(runs)) {
        for (const id of ids) {
          const name = seriesId(port, dataOf(id));
          if (told.has(name)) continue;
          told.add(name);
          yield { labels: { ...port, endpoint: endpointText(dataOf(id)) }, connections: sums?.get(name) ?? 0 };
        }
      }
    }
  }

  #take(owner: string, elements: readonly CountingElement[], before: ReadonlyMap<string, Counter>): void {
    const runs: Run[] = [];
    for (const [port, ofSets] of grouped(elements)) {
      for (const [name, ids] of ofSets) runs.push(this.#enter(owner, port, this.#set(name), ids, before));
    }
    putList(this.#owners, owner, runs);
    this.#keepSums(owner, runs);
  }

  #enter(
    owner: string,
    port: PortLabels,
    set: CountersOfSet,
    ids: readonly string[],
    before: ReadonlyMap<string, Counter>,
  ): Run {
    const counters = ids.map((id) => before.get(`${set.name} ${id}`) ?? { packets: 0, since: this.#moment });
    const since = counters.reduce((first, counter) => Math.min(first, counter.since), this.#moment);
    const run: Run = { owner, set, port, ids, since };
    for (const [index, id] of ids.entries()) {
      const counter = counters[index];
      set.runs.set(id, run);
      if (counter !== undefined && (counter.packets > 0 || counter.since > since)) set.counters.set(id, counter);
      else set.counters.delete(id);
    }
    return run;
  }

  /** Of endpoints that are gone nothing is kept. */
  #keepSums(owner: string, runs: readonly Run[]): void {
    const sums = this.#sums.get(owner);
    if (sums === undefined) return;
    const names = new Set(runs.flatMap(({ port, ids }) => ids.map((id) => seriesId(port, dataOf(id)))));
    for (const name of sums.keys()) if (!names.has(name)) sums.delete(name);
    if (sums.size === 0) this.#sums.delete(owner);
  }

  #add(owner: string, series: string, growth: number): void {
    const sums = this.#sums.get(owner) ?? new Map<string, number>();
    this.#sums.set(owner, sums);
    sums.set(series, (sums.get(series) ?? 0) + growth);
  }

  #set(name: string): CountersOfSet {
    let set = this.#sets.get(name);
    if (set === undefined) this.#sets.set(name, (set = { name, runs: new Map(), counters: new Map(), since: 0 }));
    return set;
  }
}

/** What is known of each element that is still of this run. */
function countersOf(run: Run): readonly (readonly [string, Counter])[] {
  const { name, runs } = run.set;
  return run.ids.filter((id) => runs.get(id) === run).map((id) => [`${name} ${id}`, counterOf(run, id)]);
}

/** The elements of a run end that are of no other by now. */
function forget(run: Run): void {
  const { runs, counters } = run.set;
  for (const id of run.ids) if (runs.get(id) === run && runs.delete(id)) counters.delete(id);
}

function counterOf({ set, since }: Run, id: string): Counter {
  const counter = set.counters.get(id) ?? { packets: 0, since };
  return counter.since >= set.since ? counter : { packets: counter.packets, since: set.since };
}

/** The elements' ids by their ports and the sets they are in. */
function grouped(
  elements: readonly CountingElement[],
): ReadonlyMap<PortLabels, ReadonlyMap<string, readonly string[]>> {
  const ports = new Map<PortLabels, Map<string, string[]>>();
  for (const { set, port, element } of elements) {
    const ofSets = ports.get(port) ?? new Map<string, string[]>();
    ports.set(port, ofSets);
    const ids = ofSets.get(set);
    if (ids === undefined) ofSets.set(set, [elementId(element)]);
    else ids.push(elementId(element));
  }
  // A list that was added to has room for more.
  for (const ofSets of ports.values()) for (const [set, ids] of ofSets) ofSets.set(set, ids.slice());
  return ports;
}

const BEHIND_KEY = "\n";

/** The same text for the same key and endpoint of one set; in one piece, as tens of thousands of them are kept. */
function elementId({ key, data }: Element): string {
  return [keyText(key), dataText(data)].join(BEHIND_KEY);
}

/** Of an element by its id as {@link dataText}. */
function dataOf(id: string): string {
  return id.slice(id.indexOf(BEHIND_KEY) + 1);
}

/** The same text for the same series of one Service, in one piece. */
function seriesId({ port, protocol }: PortLabels, data: string): string {
  return [port, protocol, data].join(" ");
}

/** An address, one of IPv6 with an "n" behind it, and a port. */
function dataText(data: Element["data"]): string {
  if (data === undefined || "kind" in data) return "";
  return data.map((value) => (typeof value === "bigint" ? `${value}n` : value)).join(" ");
}

/** What an element sends connections to: `10.0.0.1:80`, `[fd00::1]:80`. */
function endpointText(data: string): string {
  const [, value, big, port] = /^(\d+)(n?) (.+)$/.exec(data) ?? [];
  if (value === undefined) return "";
  const address = addressFromValue(big === "n" ? 6 : 4, BigInt(value));
  if (address === undefined) return "";
  return familyOf(address) === 4 ? `${formatAddress(address)}:${port}` : `[${formatAddress(address)}]:${port}`;
}
