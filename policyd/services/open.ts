import type { AttachmentRecord } from "../../attachment/attachment.ts";
import { localAddresses } from "../../cni/node_rules/stale_flows.ts";
import { deleteFlows, type Flows } from "../../kernel/conntrack/flow_deletion.ts";
import { type Address, FAMILIES } from "../../kernel/ip/address.ts";
import type { Nftables } from "../../kernel/nftables/socket.ts";
import type { Syscalls } from "../../kernel/syscall/syscalls.ts";
import { PROTOCOL_OF } from "../../objects/protocol.ts";
import { portKey } from "../../objects/socket_refusal.ts";
import type { AttachmentRegistry } from "../attachments/registry.ts";
import { INET_TABLE } from "../ruleset/table_part.ts";
import type { FrontendId } from "./elements/arbitration.ts";
import { byAddress, frontendTypes, nameOf } from "./rules/frontend_kind.ts";
import { type NodeSocket, YieldedFrontends, type YieldedParts } from "./yielded_frontends.ts";
import { HEALTH_CHECK_SOCKETS } from "../bounds.ts";
import { Budget } from "../lib/budget.ts";
import type { Machine } from "../machine.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { DesiredElement } from "../ruleset/desired/desired_element.ts";
import type { NodeFacts } from "./elements/service_index.ts";
import type { ProtectedSocketIndex } from "../protection/socket_index.ts";
import { problemReport, servedExternalIpWarning } from "./problem_report.ts";
import { healthCheckOf, isProxyHealthy } from "./health_check/health_check.ts";
import { HealthCheckServers } from "./health_check/health_check_servers.ts";
import { nodeHttpListener } from "../http/http_listener.ts";
import { answeringAddresses } from "./health_check/listening_addresses.ts";
import { servesNodePorts } from "./node_port_addresses.ts";
import { proxyMode } from "./proxy_mode.ts";
import type { ServiceFollower } from "./service_follower.ts";
import { ServiceProxy } from "./service_proxy.ts";
import { serviceElements } from "./elements/node_elements.ts";
import { StaleFlows, UDP_FLOWS, UNANSWERED_CONNECTIONS } from "./stale_flows/stale_flows.ts";
import { ServedServices } from "./stale_flows/served_frontends.ts";

/** The time between two reads of the node's addresses, if only some of them serve NodePorts. */
const ADDRESS_MILLISECONDS = 10_000;

/** The parts of the machine that Services need beside their rules. */
export interface ServicesMachine extends Machine {
  /** Returns the addresses at which other nodes serve node ports. */
  readonly servingElsewhere: () => ReadonlySet<Address>;
  /** The sockets that no Service gets. */
  readonly protection: ProtectedSocketIndex;
  /** Returns the sockets of the node's programs. */
  readonly programSockets: () => readonly NodeSocket[];
  /** The metrics of Services. */
  readonly metrics: ServiceFollower;
}

/** The component of Services, and the number of stale flows that it has deleted. */
export interface OpenedServices {
  /** Empty if another program serves Services. */
  readonly components: readonly ServiceProxy[];
  readonly staleFlows: () => number;
  /** Returns the numbers of the ports whose clients stay with an endpoint. */
  readonly affinityPorts: () => Iterable<number>;
  /** Returns the elements of an attachment. */
  readonly elementsOf: (attachment: AttachmentRecord) => readonly DesiredElement[];
}

/**
 * Opens Services with their health check servers, stale flows and kube-proxy's mode, in the
 * network namespace of this thread. Nothing is started yet.
 *
 * @throws SyscallError when the kernel refuses a socket
 */
export function openServices(configuration: Configuration, machine: ServicesMachine): OpenedServices {
  const { nodePortAddresses, refuseExternalIPs } = configuration;
  const { clock, logger, events, metrics } = machine;
  const stale = staleFlows(configuration, machine);
  const none = { components: [], staleFlows: stale.deleted, affinityPorts: () => [], elementsOf: () => [] };
  if (!configuration.services) return none;
  const component = new ServiceProxy({
    ...machine,
    ...(configuration.externalIPsTakePorts ? {} : { yielded: new YieldedFrontends(yieldedParts(machine)) }),
    nodePortAddresses,
    refuseExternalIps: refuseExternalIPs,
    followers: [
      problemReport(logger, events),
      metrics,
      ...(refuseExternalIPs ? [] : [servedExternalIpWarning(logger, events)]),
      healthChecks(configuration, machine),
      stale.follower,
      proxyMode(nodeHttpListener(), clock),
    ],
  });
  const affinityPorts = (): Iterable<number> => component.affinityPorts();
  return { components: [component], staleFlows: stale.deleted, affinityPorts, elementsOf: serviceElements };
}

/** Returns the parts of {@link YieldedFrontends}, in the network namespace of the calling thread. */
export function yieldedParts({
  syscalls,
  programSockets,
  attachments,
  kernel,
}: Pick<ServicesMachine, "programSockets"> & {
  readonly syscalls: Syscalls;
  readonly attachments: Pick<AttachmentRegistry, "values">;
  readonly kernel: Pick<Nftables, "elements" | "sets">;
}): YieldedParts {
  return {
    node: () => {
      const sockets = [...programSockets(), ...[...attachments.values()].flatMap(hostPortsOf)];
      const byPort = Map.groupBy(sockets, ({ protocol, port }) => portKey(protocol, port));
      return { addresses: localAddresses(syscalls), sockets: byPort };
    },
    inForce: () => frontendsInForce(kernel),
  };
}

/** Returns the host ports of a pod. */
function hostPortsOf({ pod, portMappings }: Pick<AttachmentRecord, "pod" | "portMappings">): readonly NodeSocket[] {
  const owner = pod === undefined ? "a host port" : `the host port of Pod ${pod.namespace}/${pod.name}`;
  return portMappings.map(({ hostPort, protocol, hostIp }) => ({
    protocol: PROTOCOL_OF[protocol],
    port: hostPort,
    address: hostIp,
    owner,
  }));
}

/** Returns the frontends by address that the kernel has, also those without endpoints; none where it has no such set. */
export function frontendsInForce(kernel: Pick<Nftables, "elements" | "sets">): ReadonlySet<FrontendId> {
  // Without Services the table has none of them.
  const present = new Set(kernel.sets(INET_TABLE).map(({ name }) => name));
  const ids = FAMILIES.flatMap((family) => {
    const kind = byAddress(family);
    const names = (["", "unserved"] as const).map((set) => nameOf(set, kind)).filter((name) => present.has(name));
    return names
      .flatMap((name) => kernel.elements(INET_TABLE, { name, key: frontendTypes(kind) }))
      .map(({ key }) => [family, ...key.map((field) => (typeof field === "object" ? "" : field))].join(" "));
  });
  return new Set(ids);
}

function healthChecks(
  { nodePortAddresses, syncPeriod }: Configuration,
  { syscalls, clock, logger, ruleset }: ServicesMachine,
): ServiceFollower {
  const areAllServing = nodePortAddresses.length === 0;
  let primary: NodeFacts["primaryAddresses"] = [];
  const servers = new HealthCheckServers({
    listener: nodeHttpListener(),
    clock,
    logger,
    addresses: () => answeringAddresses(nodePortAddresses, primary, areAllServing ? [] : [...localAddresses(syscalls)]),
    addressPeriod: areAllServing ? undefined : ADDRESS_MILLISECONDS,
    isProxyHealthy: () => isProxyHealthy(ruleset.status(), clock.now(), syncPeriod),
    budget: new Budget(HEALTH_CHECK_SOCKETS),
  });
  return {
    replace: (key, served) => {
      servers.replace(key, served && healthCheckOf(served.service, served.slices, served.context));
    },
    nodeChanged: ({ primaryAddresses }) => {
      primary = primaryAddresses;
      servers.addressesChanged();
    },
    rulesInForce: () => servers.rulesInForce(),
    problems: () => servers.problems(),
    stop: () => servers.stop(),
  };
}

function staleFlows(
  { nodePortAddresses }: Configuration,
  { syscalls, conntrack, clock, logger, servingElsewhere }: ServicesMachine,
): { readonly follower: ServiceFollower; readonly deleted: () => number } {
  let primary: NodeFacts["primaryAddresses"] = [];
  const flows: Flows = {
    delete: (asked, isMeant) => deleteFlows(conntrack, asked, isMeant),
    nodeAddresses: () => new Set([...localAddresses(syscalls), ...servingElsewhere()]),
  };
  const services = new ServedServices();
  const parts = {
    flows,
    clock,
    logger,
    targetsOf: (protocol: "TCP" | "UDP") => services.targetsOf(protocol),
    servesNodePorts: (address: Address) =>
      servesNodePorts(address, nodePortAddresses, primary) || servingElsewhere().has(address),
  };
  const udp = new StaleFlows(parts, UDP_FLOWS);
  const both = [udp, new StaleFlows(parts, UNANSWERED_CONNECTIONS)];
  const follower: ServiceFollower = {
    // Connections are checked only when rules have changed, since Services with TCP ports change all the time.
    replace: (key, served) => udp.changed(services.replace(key, served), served),
    nodeChanged: ({ primaryAddresses }) => {
      primary = primaryAddresses;
    },
    rulesInForce: (commit) => {
      for (const one of both) one.rulesInForce(commit);
    },
    problems: () => both.flatMap((one) => one.problems()),
    stop: () => {
      for (const one of both) one.stop();
    },
  };
  return { follower, deleted: () => both.reduce((sum, { deleted }) => sum + deleted, 0) };
}
