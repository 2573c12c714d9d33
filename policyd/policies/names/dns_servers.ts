import type { Address } from "../../../kernel/ip/address.ts";
import { CLUSTER_DNS } from "../../../objects/cluster_dns.ts";
import { DNS_PORT } from "../../../objects/domain_name.ts";
import type { ObjectChange, Service } from "../../../objects/model.ts";
import type { Ruleset } from "../../ruleset/ruleset.ts";
import { dnsServiceElement, serverElements } from "../compile/name_rules.ts";
import { objectOf } from "../live/change_queue.ts";

/** The namespaces of the cluster's DNS. */
const NAMESPACES: ReadonlySet<string> = new Set(CLUSTER_DNS.map(({ namespace }) => namespace));

export interface DnsServersParts {
  readonly ruleset: Pick<Ruleset, "claim">;
  /** Addresses of the servers of the configuration, also of Services. */
  readonly configured: readonly Address[];
  /** Whether the policies of a pod have domain names. */
  readonly areNeeded: () => boolean;
}

/**
 * Claims the DNS servers whose answers count: those of the configuration, and those of the cluster's DNS. The latter are
 * the Services in its namespaces with the usual port, whatever their names: distributions give them different ones.
 */
export class DnsServers {
  readonly #parts: DnsServersParts;
  /** The keys of the Services. */
  readonly #services = new Set<string>();

  constructor(parts: DnsServersParts) {
    this.#parts = parts;
    const { ruleset, configured } = parts;
    ruleset.claim("DNS servers", configured.flatMap(serverElements));
  }

  apply(changes: readonly ObjectChange[]): void {
    for (const change of changes) {
      if (change.kind !== "Service") continue;
      const { key } = change;
      const service = objectOf(change, "Service");
      const addresses = service !== undefined && this.#isDns(service) ? service.clusterIps : [];
      if (addresses.length > 0) this.#services.add(key);
      else if (!this.#services.delete(key)) continue;
      // NodeLocal DNSCache answers from the Service's own addresses, too.
      const elements = addresses.flatMap((address) => [dnsServiceElement(address), ...serverElements(address)]);
      this.#parts.ruleset.claim(`DNS servers of Service ${key}`, elements, "urgent");
    }
  }

  problems(): readonly string[] {
    const { configured, areNeeded } = this.#parts;
    const isKnown = configured.length > 0 || this.#services.size > 0;
    return isKnown || !areNeeded()
      ? []
      : ["domain names: no Service of the cluster's DNS is known: name its cluster IPs in dnsServers"];
  }

  #isDns({ namespace, clusterIps, ports }: Service): boolean {
    const isMeant = NAMESPACES.has(namespace) || clusterIps.some((address) => this.#parts.configured.includes(address));
    return isMeant && ports.some(({ protocol, port }) => protocol === "UDP" && port === DNS_PORT);
  }
}
