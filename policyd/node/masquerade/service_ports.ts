import type { Address } from "../../../kernel/ip/address.ts";
import type { PortRange } from "../../../kernel/ip/port_range.ts";
import type { ObjectChange, Service } from "../../../objects/model.ts";
import { namespaceOf } from "../../../objects/namespace_of.ts";
import { SERVICE_PORTS } from "../../bounds.ts";
import { Budget } from "../../lib/budget.ts";
import { familiesOf, virtualAddresses } from "../../services/elements/frontends.ts";
import { mayBePods } from "./port_ranges.ts";

/** The ports of a Service that pods might leave with. */
interface OwnPorts {
  /** Those at every address of a node. */
  readonly nodePorts: readonly number[];
  /** Those at its external IPs and load balancer's addresses. */
  readonly ports: readonly number[];
  readonly addresses: readonly Address[];
}

/**
 * The ports at which Services are reached at this node's addresses: a packet for one would be taken for the answer to a
 * pod that had left with it (GUARD-12).
 */
export class ServicePorts {
  /** Only Services that have such ports, in the order in which they came. */
  readonly #services = new Map<string, OwnPorts>();

  /** @returns whether a Service with such ports has come, changed or gone */
  apply(changes: readonly ObjectChange[]): boolean {
    let isChanged = false;
    for (const change of changes) {
      if (change.kind !== "Service") continue;
      const service = change.type === "set" && change.object.kind === "Service" ? change.object : undefined;
      const own = service && ownPortsOf(service);
      isChanged ||= own !== undefined || this.#services.has(change.key);
      if (own === undefined) this.#services.delete(change.key);
      else this.#services.set(change.key, own);
    }
    return isChanged;
  }

  /** Returns each port once: first those in the shares of namespaces, then others. @param local the node's addresses */
  at(local: ReadonlySet<Address>): readonly PortRange[] {
    const found = new Set<number>();
    for (const share of [SERVICE_PORTS.share, SERVICE_PORTS.all]) {
      const budget = new Budget({ share, pool: 0 });
      for (const [key, { nodePorts, ports, addresses }] of this.#services) {
        const isHere = addresses.some((address) => local.has(address));
        for (const port of isHere ? [...nodePorts, ...ports] : nodePorts) {
          if (found.size === SERVICE_PORTS.all) break;
          if (!found.has(port) && budget.take(namespaceOf(key), 1)) found.add(port);
        }
      }
    }
    return [...found].map((port) => ({ first: port, last: port }));
  }
}

function ownPortsOf(service: Service): OwnPorts | undefined {
  if (familiesOf(service).length === 0) return undefined;
  const addresses = [...service.externalIps, ...virtualAddresses(service)];
  const nodePorts = service.ports.flatMap(({ nodePort = 0 }) => (mayBePods(nodePort) ? [nodePort] : []));
  const ports = addresses.length === 0 ? [] : service.ports.map(({ port }) => port).filter(mayBePods);
  return nodePorts.length + ports.length === 0 ? undefined : { nodePorts, ports, addresses };
}
