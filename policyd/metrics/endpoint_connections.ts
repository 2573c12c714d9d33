import type { Service, ServicePort } from "../cluster/model.ts";
import { identityOf } from "../services/compile/priority_number.ts";
import type { OneOrMore } from "../one_or_more.ts";
import { listOf, putList } from "../one_or_more.ts";

/** Who a number of connections is about. */
export interface EndpointLabels {
  readonly namespace: string;
  readonly service: string;
  /** The port's name; empty where it has none. */
  readonly port: string;
  readonly protocol: string;
  /** Address and port: `10.0.0.1:80`, `[fd00::1]:80`. */
  readonly endpoint: string;
}

/** One line of the metric. */
export interface EndpointSeries {
  readonly labels: EndpointLabels;
  /** Since this daemon knows the endpoint, and what the kernel had counted before. */
  readonly connections: number;
}

/** A port of a Service, with what its connections are counted by. */
export interface CountedPort {
  /** These are kept anyway, and a node has tens of thousands of them. */
  readonly service: Pick<Service, "namespace" | "name">;
  readonly port: Pick<ServicePort, "name" | "protocol">;
  /** Under which identities (`identityOf`) the kernel counts its connections. */
  readonly identities: readonly number[];
  /** Each once, as in {@link EndpointLabels}. */
  readonly endpoints: readonly string[];
}

/** What the kernel counts of an endpoint. */
export interface CountedEndpoint {
  /** The number it is counted under. */
  readonly number: number;
  /** As in {@link EndpointLabels}. */
  readonly endpoint: string;
  readonly packets: number;
}

/** The tables as they are from one making anew to the next. */
export type Moment = number;

/** Of the endpoints of a port that got connections. */
interface Counts {
  /** Those of the port. */
  readonly endpoints: ReadonlySet<string>;
  /** What the kernel showed last, by number and endpoint. */
  readonly seen: Map<string, number>;
  /** By endpoint. */
  readonly sums: Map<string, number>;
}

/**
 * The new connections of each endpoint: pure sums of what the kernel's counters show.
 *
 * The kernel counts an endpoint of a port from its first connection on, whatever becomes of the Service, and anew when
 * its tables are made anew or when nobody came for a day. So a series is the sum of the growth that was seen, and never
 * falls while its endpoint stays. It ends with its endpoint.
 *
 * What is claimed takes effect by {@link settle}, when the kernel has it.
 */
export class EndpointConnections {
  /** By itself where it is the only one, as nearly all are. */
  readonly #owners = new Map<string, OneOrMore<CountedPort>>();
  /** By identity, in the same way. */
  readonly #ports = new Map<number, OneOrMore<CountedPort>>();
  /** Of ports that got connections, which most never do. */
  readonly #counts = new Map<CountedPort, Counts>();
  /** Made out when they are settled: until then nothing of it keeps a batch waiting. */
  readonly #claims = new Map<string, () => readonly CountedPort[]>();
  #moment: Moment = 0;

  /** Now: what is asked of the kernel from here on is of these tables. */
  get moment(): Moment {
    return this.#moment;
  }

  /** Sets the ports of an owner, a Service, once the kernel has them; without any it is forgotten. */
  claim(owner: string, ports: () => readonly CountedPort[]): void {
    this.#claims.set(owner, ports);
  }

  /**
   * Takes over what the kernel showed of an endpoint.
   *
   * @param asked the moment at which it was asked; what is of earlier tables is passed over
   */
  observe({ number, endpoint, packets }: CountedEndpoint, asked: Moment = this.#moment): void {
    const ports = listOf(this.#ports.get(identityOf(number)));
    const port = ports.length > 1 ? ports.find(({ endpoints }) => endpoints.includes(endpoint)) : ports[0];
    if (port === undefined || asked !== this.#moment) return;
    const counts = this.#countsOf(port);
    const id = `${number} ${endpoint}`;
    const before = counts.seen.get(id) ?? 0;
    if (packets === before || !counts.endpoints.has(endpoint)) return;
    counts.seen.set(id, packets);
    const growth = packets > before ? packets - before : packets;
    counts.sums.set(endpoint, (counts.sums.get(endpoint) ?? 0) + growth);
  }

  /** The kernel counts everything anew. */
  allRemoved(): void {
    this.#moment++;
    for (const { seen } of this.#counts.values()) seen.clear();
  }

  /** The kernel has what is claimed. */
  settle(): void {
    for (const [owner, ports] of this.#claims) this.#replace(owner, ports());
    this.#claims.clear();
  }

  *series(): Generator<EndpointSeries, void, void> {
    for (const ports of this.#owners.values()) {
      for (const port of listOf(ports)) {
        const sums = this.#counts.get(port)?.sums;
        const { namespace, name: service } = port.service;
        const { name, protocol } = port.port;
        for (const endpoint of port.endpoints) {
          const labels = { namespace, service, port: name, protocol, endpoint };
          yield { labels, connections: sums?.get(endpoint) ?? 0 };
        }
      }
    }
  }

  #replace(owner: string, ports: readonly CountedPort[]): void {
    const before = listOf(this.#owners.get(owner));
    for (const port of before) {
      for (const identity of port.identities) {
        const others = listOf(this.#ports.get(identity)).filter((other) => other !== port);
        putList(this.#ports, identity, others);
      }
    }
    for (const port of ports) {
      for (const identity of port.identities) {
        putList(this.#ports, identity, listOf(this.#ports.get(identity)).concat([port]));
      }
      this.#inherit(
        port,
        before.find((other) => isSamePort(other.port, port.port)),
      );
    }
    for (const port of before) this.#counts.delete(port);
    putList(this.#owners, owner, ports);
  }

  #countsOf(port: CountedPort): Counts {
    let counts = this.#counts.get(port);
    if (counts === undefined) {
      counts = { endpoints: new Set(port.endpoints), seen: new Map(), sums: new Map() };
      this.#counts.set(port, counts);
    }
    return counts;
  }

  /** Of endpoints that are gone nothing is kept. */
  #inherit(port: CountedPort, before: CountedPort | undefined): void {
    const old = before && this.#counts.get(before);
    if (old === undefined) return;
    const { endpoints, seen, sums } = this.#countsOf(port);
    for (const [id, packets] of old.seen) if (endpoints.has(id.slice(id.indexOf(" ") + 1))) seen.set(id, packets);
    for (const [endpoint, sum] of old.sums) if (endpoints.has(endpoint)) sums.set(endpoint, sum);
  }
}

function isSamePort(a: CountedPort["port"], b: CountedPort["port"]): boolean {
  return a.name === b.name && a.protocol === b.protocol;
}
