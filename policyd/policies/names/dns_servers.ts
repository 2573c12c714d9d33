import type { Address } from "../../../kernel/ip/address.ts";
import type { EndpointSlice, ObjectChange } from "../../../objects/model.ts";
import type { DesiredElement } from "../../ruleset/desired/desired_element.ts";
import type { Ruleset } from "../../ruleset/ruleset.ts";
import { serverElement } from "../compile/name_rules.ts";
import { DNS_PORT } from "../compile/options.ts";

/** The Services of the cluster's DNS, as distributions name them; OpenShift has its own. */
const CLUSTER_DNS: ReadonlySet<string> = new Set(["kube-system/kube-dns", "openshift-dns/dns-default"]);

/** Claims the DNS servers whose answers count: those of the configuration, and the endpoints of the cluster's DNS. */
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
      if (change.kind !== "EndpointSlice") continue;
      const slice = change.type === "set" && change.object.kind === "EndpointSlice" ? change.object : undefined;
      this.#ruleset.claim(`DNS servers of ${change.key}`, slice === undefined ? [] : elementsOf(slice), "urgent");
    }
  }
}

function elementsOf({ namespace, serviceName, ports, endpoints }: EndpointSlice): readonly DesiredElement[] {
  if (serviceName === undefined || !CLUSTER_DNS.has(`${namespace}/${serviceName}`)) return [];
  return ports.flatMap(({ name, protocol, port }) => {
    // Beside DNS itself they have a port of metrics.
    if (port === undefined || protocol === "SCTP" || !name.startsWith("dns")) return [];
    const transport = protocol === "TCP" ? "tcp" : "udp";
    return endpoints.map(({ address }) => serverElement(address, transport, port));
  });
}
