import type { NumberedPort } from "../../../input/port_text.ts";
import { type Address, type Family, familyOf, formatAddress, FAMILIES } from "../../../../kernel/ip/address.ts";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import type { Pod, Service } from "../../../../objects/model.ts";
import type { FlowEnd, Traffic } from "../../../../objects/semantics/policies/flow.ts";
import { familiesOf } from "../../../../objects/semantics/policies/party.ts";
import { isFinished } from "../../../../objects/semantics/policies/address_owner.ts";
import { serviceKeyOf } from "../../../../objects/service_key.ts";
import type { HostPort } from "../../../input/host_ports.ts";
import { flowEndOf, type Host, hostAt, type HostsEnd, type ServiceEnd } from "../../../cluster/find_end.ts";
import type { ExplainContext } from "../context.ts";
import {
  nodesThatMatter,
  startNodes,
  directWay,
  stoppedWay,
  type ConnectionPath,
  type Stop,
  waysToAddress,
} from "./connection_path.ts";

/** Returns the ways from one host to another; to a node also those by the node ports of Services. */
export function waysToHost(
  context: ExplainContext,
  source: Host,
  destination: Host,
  traffic: Traffic,
  families: readonly (Family | undefined)[],
): readonly ConnectionPath[] {
  if (destination.type !== "node" || traffic.port === undefined) {
    return families.map((family) => directWay(source, destination, traffic, family));
  }
  const { protocol, port } = traffic;
  const pods = hostPortsAt(context, destination.name, { protocol, port });
  const ways = families.flatMap((family) => {
    const address = context.addressOf(destination, family ?? 4);
    const behind = pods.filter(
      ({ hostIp }) => hostIp === undefined || (address !== undefined && hostIp === formatAddress(address)),
    );
    if (behind.length > 0) {
      return behind.flatMap(({ pod, containerPort }) =>
        startNodes(context, source, destination.name).map((node) => {
          const via = node === destination.name ? undefined : { host: destination, traffic };
          return directWay(source, { type: "pod", pod }, { protocol, port: containerPort }, family, via);
        }),
      );
    }
    return address === undefined ? [] : waysToAddress(context, source, address, { protocol, port });
  });
  return ways.length > 0 ? ways : [directWay(source, destination, traffic, undefined)];
}

/** Returns the pods to which a port of a node leads. A pod for which no file names a node may be on any. */
function hostPortsAt(
  { cluster }: ExplainContext,
  node: string,
  { protocol, port }: NumberedPort,
): readonly (HostPort & { readonly pod: Pod })[] {
  return [...cluster.manifests.values()].flatMap(({ object: pod, hostPorts = [] }) => {
    if (pod.kind !== "Pod" || isFinished(pod) || (pod.nodeName ?? node) !== node) return [];
    return hostPorts
      .filter((one) => one.protocol === protocol && one.hostPort === port)
      .map((one) => ({ ...one, pod }));
  });
}

/**
 * Returns the families that a connection between two hosts may have: the family of an address in the question, or else
 * all common ones that are meant; undefined where files give neither host an address.
 */
export function familiesBetween(
  { cluster }: ExplainContext,
  source: Host,
  destination: Host,
  pinned: Family | undefined,
): readonly (Family | undefined)[] {
  if (pinned !== undefined) return [pinned];
  const ends: { readonly source: FlowEnd; readonly destination: FlowEnd } = {
    source: flowEndOf(source),
    destination: flowEndOf(destination),
  };
  const families = familiesOf(cluster.index, ends);
  // Without a common family, the evaluator reports that itself.
  if (families === undefined || families.length === 0) return [undefined];
  const meant = destination.type === "pod" ? destination.families : undefined;
  return families.filter((family) => meant?.has(family) ?? true);
}

/** Why a source reaches no address of a Service. */
export const NO_FAMILY: Stop = Object.freeze({ stopped: "the source has no address in a family of the Service" });

/** Returns the ways from a host to a port of a Service, for each of its addresses that the host would use. */
export function waysToService(
  context: ExplainContext,
  source: Host,
  { service, address }: ServiceEnd,
  traffic: Traffic,
): readonly ConnectionPath[] {
  if (traffic.port === undefined)
    return [stoppedWay(source, { stopped: "Services carry TCP, UDP and SCTP: nothing answers an echo request" })];
  const { protocol, port } = traffic;
  const frontends =
    address === undefined ? frontendsFor(context, source, service, { protocol, port }) : [{ address, port }];
  const ways = frontends.flatMap((one) => waysToAddress(context, source, one.address, { protocol, port: one.port }));
  if (ways.length > 0) return ways;
  return [stoppedWay(source, NO_FAMILY)];
}

/** Returns the cluster IPs for a source inside; from outside, balancers' and external IPs, or else node ports. */
function frontendsFor(
  context: ExplainContext,
  source: Host,
  service: Service,
  { protocol, port }: NumberedPort,
): readonly { readonly address: Address; readonly port: number }[] {
  const served = context.worlds.servedPart(service);
  const clusterIps = served.clusterIps.map((address) => ({ address, port }));
  if (source.type !== "outside") return clusterIps;
  const virtual = served.loadBalancerIngress.filter(({ ipMode }) => ipMode === "VIP").map(({ address }) => address);
  const externalIps = context.worlds.settings.refuseExternalIps ? [] : served.externalIps;
  const external = [...virtual, ...externalIps].map((address) => ({ address, port }));
  if (external.length > 0) return external;
  const nodePort = served.ports.find((one) => one.protocol === protocol && one.port === port)?.nodePort;
  if (nodePort === undefined) return clusterIps;
  return nodesThatMatter(context, [service]).flatMap((name) =>
    FAMILIES.flatMap((family) => {
      const address = context.addressOf({ type: "node", name }, family);
      return address === undefined ? [] : [{ address, port: nodePort }];
    }),
  );
}

/**
 * Returns the pods that a headless Service's name resolves to, in the families of its endpoints' addresses: it has no
 * address, and ports are not translated.
 *
 * @returns undefined for any other Service
 * @throws DrawbridgeError ERR_OBJECT for an ExternalName, whose name leads elsewhere
 */
export function headlessHosts(
  { cluster, worlds }: ExplainContext,
  { service, name }: ServiceEnd,
): HostsEnd | "nobody" | undefined {
  if (service.type === "ExternalName") {
    throw new DrawbridgeError(
      "ERR_OBJECT",
      `${name} is an ExternalName, which is only a name in DNS; ask about the address it leads to`,
    );
  }
  if (!service.isHeadless) return undefined;
  const addresses = worlds.objects.endpointSlices
    .filter((slice) => serviceKeyOf(slice) === service.key)
    .flatMap(({ endpoints }) => endpoints.filter(({ isReady }) => isReady || service.publishNotReadyAddresses))
    .map(({ address }) => ({ address, host: hostAt(cluster, address) }));
  const byHost = Map.groupBy(addresses, ({ host, address }) => (host.type === "pod" ? host.pod.key : address));
  const hosts = [...byHost.values()].flatMap((all) =>
    all.slice(0, 1).map(({ host }): Host => {
      const known = all.filter(({ address }) => cluster.placeholderAddresses.ownerOf(address) === undefined);
      if (host.type !== "pod" || known.length === 0) return host;
      return { ...host, families: new Set(known.map(({ address }) => familyOf(address))) };
    }),
  );
  return hosts.length === 0 ? "nobody" : { type: "workload", name, hosts, address: undefined };
}
