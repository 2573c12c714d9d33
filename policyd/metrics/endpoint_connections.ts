import type { Service, ServicePort } from "../../objects/model.ts";
import { namespaceOf } from "../../objects/namespace_of.ts";
import { ENDPOINT_SERIES } from "../bounds.ts";
import { Budget, type BudgetBounds } from "../lib/budget.ts";
import { identityOf } from "../services/rules/priority_number.ts";
import { listOf, type OneOrMore, putList } from "../lib/one_or_more.ts";

/** One line of the metric: an endpoint's labels and count. */
export interface EndpointSeries {
  readonly namespace: string;
  readonly service: string;
  /** The port's name; empty where it has none. */
  readonly port: string;
  readonly protocol: string;
  /** Address and port: `10.0.0.1:80`, `[fd00::1]:80`. */
  readonly endpoint: string;
  /** Connections since this daemon knows the endpoint, plus those that the kernel had counted before. */
  readonly connections: number;
}

/** A port of a Service, with the keys that its connections are counted by. */
export interface CountedPort {
  /** A reference to the stored Service and port, since a node has tens of thousands of them. */
  readonly service: Pick<Service, "namespace" | "name">;
  readonly port: Pick<ServicePort, "name" | "protocol">;
  /** The identities (`identityOf`) under which the kernel counts the port's connections. */
  readonly identities: readonly number[];
  /** Each once, as in {@link EndpointSeries}. */
  readonly endpoints: readonly string[];
}

/** The kernel's count of an endpoint. */
export interface CountedEndpoint {
  /** The number under which the kernel counts it. */
  readonly number: number;
  /** As in {@link EndpointSeries}. */
  readonly endpoint: string;
  readonly packets: number;
}

/** Number of times that the kernel's tables have been written as a whole. */
export type Moment = number;

/** The counts of a port whose endpoints have received connections. */
interface Counts {
  /** The endpoints of the port. */
  readonly endpoints: ReadonlySet<string>;
  /** The kernel's last counts, by number and endpoint. */
  readonly seen: Map<string, number>;
  /** By endpoint. */
  readonly sums: Map<string, number>;
}

/**
 * Sums up the new connections of each endpoint from the kernel's counters.
 *
 * The kernel counts an endpoint of a port from its first connection on, whatever becomes of the Service. The count
 * restarts when the tables are written as a whole, or after a day without clients. So a series is the sum of the growth
 * that was seen: it never falls while its endpoint exists, and ends with it.
 *
 * Claims take effect by {@link settle}, when the kernel has them. A port has no series if there is no room for its
 * endpoints at that time.
 */
export class EndpointConnections {
  /** The ports by owner; a single port, as in nearly all cases, is stored without a list. */
  readonly #owners = new Map<string, OneOrMore<CountedPort>>();
  /** The ports by identity, stored in the same way. */
  readonly #ports = new Map<number, OneOrMore<CountedPort>>();
  /** The counts of ports that received connections, which most never do. */
  readonly #counts = new Map<CountedPort, Counts>();
  /** Pending claims. They are computed when they are settled, so that no batch waits for them. */
  readonly #claims = new Map<string, () => readonly CountedPort[]>();
  readonly #budget: Budget;
  #moment: Moment = 0;

  constructor(bounds: BudgetBounds = ENDPOINT_SERIES) {
    this.#budget = new Budget(bounds);
  }

  /** The moment that a request to the kernel made now belongs to. */
  get moment(): Moment {
    return this.#moment;
  }

  /** Sets the ports of an owner, a Service, effective once the kernel has them; without ports it is forgotten. */
  claim(owner: string, ports: () => readonly CountedPort[]): void {
    this.#claims.set(owner, ports);
  }

  /**
   * Adds the kernel's count of an endpoint.
   *
   * @param asked the moment of the request; counts of earlier tables are ignored
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

  /** Resets the counts seen, because the kernel starts to count from 0. */
  allRemoved(): void {
    this.#moment++;
    for (const { seen } of this.#counts.values()) seen.clear();
  }

  /** Applies the pending claims, because the kernel has them now. */
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
          const connections = sums?.get(endpoint) ?? 0;
          yield { namespace, service, port: name, protocol, endpoint, connections };
        }
      }
    }
  }

  #replace(owner: string, claimed: readonly CountedPort[]): void {
    const namespace = namespaceOf(owner);
    const before = listOf(this.#owners.get(owner));
    for (const { endpoints } of before) this.#budget.change(namespace, -endpoints.length);
    const ports = claimed.filter(({ endpoints }) => this.#budget.take(namespace, endpoints.length));
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

  /** Moves the counts of a replaced port to its successor, without those of endpoints that are gone. */
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
