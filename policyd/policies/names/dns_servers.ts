import type { Address } from "../../../kernel/ip/address.ts";
import { CLUSTER_DNS } from "../../../objects/cluster_dns.ts";
import type { ClusterObject, EndpointPort, ObjectChange } from "../../../objects/model.ts";
import type { DesiredElement } from "../../ruleset/desired/desired_element.ts";
import type { Ruleset } from "../../ruleset/ruleset.ts";
import { serverElement } from "../compile/name_rules.ts";
import { DNS_PORT } from "../../../objects/domain_name.ts";
import { serviceKeyOf } from "../../../objects/service_key.ts";

/** The keys of the Services of the cluster's DNS. */
const SERVICES: ReadonlySet<string> = new Set(CLUSTER_DNS.map(({ namespace, service }) => `${namespace}/${service}`));

/** Claims the DNS servers whose answers count: those of the configuration, and those of the cluster's DNS. */
export class DnsServers {
  readonly #ruleset: Pick<Ruleset, "claim">;

  /** @param configured addresses of the servers that answer at the usual port */
  constructor(ruleset: Pick<Ruleset, "claim">, configured: readonly Address[]) {
    this.#ruleset = ruleset;
    ruleset.claim(
      "DNS servers",
      configured.flatMap((address) => (["udp", "tcp"] as const).map((one) => serverElement(address, one, DNS_PORT))),
    );
  }

  apply(changes: readonly ObjectChange[]): void {
    for (const change of changes) {
      if (change.kind !== "EndpointSlice" && change.kind !== "Service") continue;
      const elements = change.type === "set" ? elementsOf(change.object) : [];
      this.#ruleset.claim(`DNS servers of ${change.kind} ${change.key}`, elements, "urgent");
    }
  }
}

/** NodeLocal DNSCache answers from the Service's own addresses, too. */
function elementsOf(object: ClusterObject): readonly DesiredElement[] {
  if (object.kind === "Service") return SERVICES.has(object.key) ? elementsAt(object.ports, object.clusterIps) : [];
  if (object.kind !== "EndpointSlice" || !SERVICES.has(serviceKeyOf(object) ?? "")) return [];
  const addresses = object.endpoints.map(({ address }) => address);
  return elementsAt(object.ports, addresses);
}

function elementsAt(
  ports: readonly Pick<EndpointPort, "name" | "protocol" | "port">[],
  addresses: readonly Address[],
): readonly DesiredElement[] {
  return ports.flatMap(({ name, protocol, port }) => {
    // Beside DNS itself they have a port of metrics.
    if (port === undefined || protocol === "SCTP" || !name.startsWith("dns")) return [];
    const transport = protocol === "TCP" ? "tcp" : "udp";
    return addresses.map((address) => serverElement(address, transport, port));
  });
}
