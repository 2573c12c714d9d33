import { findLink, openRouteSocket, withRouteSocket } from "../../kernel/route/socket.ts";
import type { AttachmentRecord } from "../../attachment/attachment.ts";
import { readAttachment } from "../../attachment/attachment_reader.ts";
import { asksForNodeRules } from "../../attachment/node_rules_need.ts";
import { askPolicyd } from "../../attachment/policyd_client.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { type Address, FAMILIES, formatAddress } from "../../kernel/ip/address.ts";
import { insideNamespace, type NetworkNamespace } from "../../kernel/network_namespace.ts";
import { realWaiting } from "../../kernel/waiting.ts";
import type { BridgeConfiguration } from "../configuration/configuration.ts";
import type { RegistrationAccess } from "../configuration/policyd_access.ts";
import type { Attachment } from "../environment.ts";
import { CniError, CniErrorCode } from "../error.ts";
import { openStore, type PluginMachine } from "../host.ts";
import type { Namespaces } from "../pod_lock.ts";
import { nodeStateDifferences } from "../node_state/repair.ts";
import { type Expectation, expectationOf, type ExpectedRoute, familyOfRoute } from "./expectation.ts";
import { type Cidr, formatCidr } from "../../kernel/ip/cidr.ts";
import { isLinkLocal, UNSPECIFIED } from "../../kernel/ip/special.ts";
import { type InterfaceAddress, listAddresses } from "../../kernel/route/interface_address.ts";
import type { Link } from "../../kernel/route/link.ts";
import { dumpRoutes, parseRouteOfAnyTable, type Route } from "../../kernel/route/route.ts";
import { canForward } from "../wiring/wiring.ts";
import { withSocket } from "../../kernel/netlink/socket.ts";

/**
 * Verifies that an attachment is as its ADD has left it: the CHECK verb.
 *
 * It compares the attachment's record and `prevResult` with the kernel, the reservations and nftables, and changes
 * nothing. Changes by later plugins of the chain are not reported ({@link expectationOf}). CRI-O calls it after each
 * ADD and gives up the sandbox when it fails.
 *
 * @param prevResult of the configuration: the result of the whole chain
 * @throws CniError 107 listing everything that is missing or different (B15), 7 for a `prevResult` of another
 *   attachment; DrawbridgeError when the kernel does not answer
 */
export function check(
  node: PluginMachine,
  configuration: BridgeConfiguration,
  attachment: Attachment,
  prevResult: unknown,
  { home, namespace }: Namespaces,
): void {
  const record = expectRecord(node, configuration, attachment, namespace);
  const expected = expectationOf(configuration, record, prevResult);
  const found = [
    ...differences(expected, observe(node, expected, home, namespace)),
    ...nodeDifferences(node, record),
    ...unheldAddresses(node, record).map(
      (address) => `reservation of ${formatAddress(address)} is missing or another container's in ${record.dataDir}`,
    ),
    ...ruleDifferences(node, configuration, record),
  ];
  if (found.length > 0) throw broken(attachment, found);
}

/** Returns the addresses of a record that are not reserved for it: the only question of CHECK to the network's IPAM. */
function unheldAddresses(node: PluginMachine, record: AttachmentRecord): readonly Address[] {
  const addresses = record.addresses.map(({ address }) => address);
  return openStore(node, record.network, record.dataDir).notHeld(record, addresses);
}

/**
 * Returns the record of the attachment, which says what was made.
 *
 * @throws CniError 107 if there is none, or it is of another boot or another pod namespace
 */
function expectRecord(
  node: PluginMachine,
  { runDir, name }: BridgeConfiguration,
  attachment: Attachment,
  namespace: NetworkNamespace,
): AttachmentRecord {
  const reasons: string[] = [];
  const record = readAttachment(runDir, name, attachment, node.files, ({ path, reason }) => {
    reasons.push(`the attachment record ${path} cannot be read: ${reason}`);
  });
  if (record === undefined) {
    throw broken(attachment, reasons.length > 0 ? reasons : [`its attachment record is missing in ${runDir}`]);
  }
  if (record.bootId !== node.bootId()) throw broken(attachment, ["its attachment record is of another boot"]);
  if (record.netns.inode !== String(namespace.inode)) {
    throw broken(attachment, [
      `it was made in another network namespace than ${namespace.path}: ${record.netns.path} (inode ${record.netns.inode})`,
    ]);
  }
  return record;
}

function nodeDifferences(node: PluginMachine, record: AttachmentRecord): readonly string[] {
  return withRouteSocket(node.syscalls, (socket) => nodeStateDifferences({ socket, sysctl: node.sysctl }, record));
}

function ruleDifferences(
  node: PluginMachine,
  configuration: BridgeConfiguration,
  record: AttachmentRecord,
): readonly string[] {
  if (record.policyd === undefined) {
    if (!asksForNodeRules(record)) return [];
    const rules = node.nodeRules();
    return rules.readRules(node, (tables) => rules.ownRuleDifferences(tables, configuration, record));
  }
  // Without the key, this configuration does not rely on the daemon's tables.
  const { policyd } = configuration;
  return policyd === undefined ? [] : daemonDifferences(node, policyd, record);
}

/** The milliseconds in which a running daemon restores an element that another program removed. */
const REPAIR_TIME = 1000;
const PAUSE = 50;

/**
 * Returns elements that are missing in the daemon's tables for longer than the daemon takes to restore them.
 *
 * With `onUnavailable: "closed"` a pod is attached while the daemon is away or has not read the cluster's objects yet,
 * and is not in the tables until then: such a pod is not broken.
 */
function daemonDifferences(
  node: PluginMachine,
  access: RegistrationAccess,
  record: AttachmentRecord,
): readonly string[] {
  const rules = node.nodeRules();
  const read = (): readonly string[] => rules.readRules(node, (tables) => rules.daemonRuleDifferences(tables, record));
  let found = read();
  if (found.length === 0) return found;
  if (!isDaemonReady(node, access) && access.onUnavailable === "closed") return [];
  const deadline = realWaiting.now() + REPAIR_TIME;
  while (found.length > 0 && realWaiting.now() < deadline) {
    realWaiting.pause(PAUSE);
    found = read();
  }
  return found;
}

/** Whether the daemon answers and has read all objects, so that it has put every pod it knows in force. */
function isDaemonReady(node: PluginMachine, { socket }: RegistrationAccess): boolean {
  try {
    const answer = askPolicyd(node.syscalls, socket, { type: "status" }, REPAIR_TIME);
    return answer.type === "status" && answer.status.isSynced;
  } catch (error) {
    if (error instanceof DrawbridgeError) return false;
    throw error;
  }
}

function broken({ containerId, ifname }: Attachment, found: readonly string[]): CniError {
  return new CniError(
    CniErrorCode.ATTACHMENT_BROKEN,
    found.join("; "),
    `${ifname} of container ${containerId} is not as ADD has left it: remove the sandbox, which a new one replaces`,
  );
}

/** An attachment as the kernel describes it. */
export interface Observation {
  readonly bridge: Link | undefined;
  readonly bridgeAddresses: readonly Address[];
  readonly host: Link | undefined;
  readonly loopback: Link | undefined;
  /** The pod's interface. */
  readonly pod: Link | undefined;
  readonly podAddresses: readonly InterfaceAddress[];
  /** The routes of all routing tables in the pod's namespace. */
  readonly podRoutes: readonly Route[];
}

/** Returns the differences from what ADD made, one message for each (B15). */
export function differences(expected: Expectation, observed: Observation): readonly string[] {
  return [
    ...bridgeDifferences(expected, observed),
    ...hostDifferences(expected, observed),
    ...podDifferences(expected, observed),
  ];
}

function bridgeDifferences(
  { bridge: name, gateways }: Expectation,
  { bridge, bridgeAddresses }: Observation,
): string[] {
  if (bridge === undefined) return [`bridge ${name} is missing`];
  if (bridge.kind !== "bridge") return [`${name} is not a bridge (kind ${bridge.kind ?? "unknown"})`];
  return [
    ...(bridge.up ? [] : [`bridge ${name} is down`]),
    ...gateways
      // A link-local gateway need not exist: the pod's neighbour entry leads to the node
      // (../delegation/ipam_answer.ts).
      .filter((gateway) => !bridgeAddresses.includes(gateway) && !isLinkLocal(gateway))
      .map((gateway) => `address ${formatAddress(gateway)}, the pod's gateway, is missing on bridge ${name}`),
  ];
}

function hostDifferences(expected: Expectation, { bridge, host }: Observation): string[] {
  const name = expected.hostInterface;
  if (host === undefined) return [`host interface ${name} is missing`];
  const isPort = bridge !== undefined && host.master === bridge.index;
  const found: string[] = [];
  if (!host.up) found.push(`host interface ${name} is down`);
  if (host.mac !== expected.hostMac) found.push(macDiffers(`host interface ${name}`, host, expected.hostMac));
  if (bridge !== undefined && !isPort) found.push(`host interface ${name} is not a port of bridge ${expected.bridge}`);
  if (isPort && !canForward(host))
    found.push(`bridge ${expected.bridge} takes no packets of ${name} (bridge link set dev ${name} state 3)`);
  if (isPort && host.bridgePort !== undefined && host.bridgePort.hairpin !== expected.hairpin) {
    found.push(
      `hairpin mode of ${name} is ${onOrOff(!expected.hairpin)}; expected ${onOrOff(expected.hairpin)} by hairpinMode`,
    );
  }
  return found;
}

function podDifferences(expected: Expectation, observed: Observation): string[] {
  const { ifname, addresses, routes } = expected;
  const { host, loopback, pod, podAddresses, podRoutes } = observed;
  const found: string[] = [];
  if (loopback?.up !== true) found.push("interface lo is down in the pod");
  if (pod === undefined) return [...found, `interface ${ifname} is missing in the pod`];
  if (!pod.up) found.push(`interface ${ifname} is down in the pod`);
  if (host !== undefined && (pod.kind !== "veth" || pod.peer !== host.index)) {
    found.push(`interface ${ifname} in the pod is not the peer of ${host.name}`);
  }
  if (pod.mac !== expected.podMac) found.push(macDiffers(`interface ${ifname} in the pod`, pod, expected.podMac));
  const byDestination = Map.groupBy(podRoutes, ({ destination, family }) =>
    formatCidr(destination ?? { address: UNSPECIFIED[family].address, prefixLength: 0 }),
  );
  const isThere = (route: ExpectedRoute): boolean =>
    byDestination.get(formatCidr(route.destination))?.some((one) => isRoute(route, one, pod.index)) === true;
  return [
    ...found,
    ...addresses.flatMap((address) => addressDifference(ifname, address, podAddresses)),
    ...routes.filter((route) => !isThere(route)).map(routeMissing),
  ];
}

function addressDifference(ifname: string, expected: Cidr, present: readonly InterfaceAddress[]): string[] {
  const found = present.find(({ address }) => address.address === expected.address);
  const text = formatAddress(expected.address);
  if (found === undefined) return [`address ${text} is missing on interface ${ifname} in the pod`];
  if (found.duplicateDetected)
    return [`address ${text} in the pod is in use on another host: duplicate address detection failed`];
  return found.tentative ? [`address ${text} in the pod does not answer yet: it is tentative`] : [];
}

/**
 * Whether a found route to the same destination is the expected one, in any table if none is named: a chained `sbr` moves
 * routes.
 */
function isRoute({ gateway, table, priority, mayBeOthers }: ExpectedRoute, found: Route, podIndex: number): boolean {
  if (table !== undefined && table !== found.table) return false;
  if (found.outputInterface !== podIndex) return mayBeOthers;
  return found.gateway === gateway && (priority === undefined || priority === 0 || priority === found.priority);
}

function routeMissing({ destination, gateway }: ExpectedRoute): string {
  return `route ${formatCidr(destination)} by ${formatAddress(gateway)} is missing in the pod`;
}

function macDiffers(what: string, { mac }: Link, expected: string): string {
  return `${what} has MAC address ${mac ?? "none"}; expected ${expected}`;
}

function onOrOff(value: boolean): string {
  return value ? "on" : "off";
}

const LOOPBACK_INDEX = 1;

/**
 * Reads the state that CHECK compares from the kernel: about ten requests on two sockets.
 *
 * @param home the node's namespace, which the calling thread is in
 * @throws NetlinkError, SyscallError when the kernel refuses
 */
export function observe(
  node: PluginMachine,
  { bridge: bridgeName, hostInterface, ifname, routes }: Expectation,
  home: NetworkNamespace,
  namespace: NetworkNamespace,
): Observation {
  return withRouteSocket(node.syscalls, (socket) => {
    const bridge = findLink(socket, { name: bridgeName });
    const bridgeAddresses = bridge === undefined ? [] : listAddresses(socket, { index: bridge.index });
    const host = findLink(socket, { name: hostInterface });
    const podSocket = insideNamespace(node.syscalls, home, namespace, () => openRouteSocket(node.syscalls));
    return withSocket(podSocket, (inPod) => {
      const pod = findLink(inPod, { name: ifname });
      const families = FAMILIES.filter((family) => routes.some((route) => familyOfRoute(route) === family));
      return {
        bridge,
        bridgeAddresses: bridgeAddresses.map(({ address }) => address.address),
        host,
        loopback: findLink(inPod, { index: LOOPBACK_INDEX }),
        pod,
        podAddresses: pod === undefined ? [] : listAddresses(inPod, { index: pod.index }),
        podRoutes: families
          .flatMap((family) => inPod.dump(dumpRoutes(family)))
          .map(parseRouteOfAnyTable)
          .filter((route) => route !== undefined),
      };
    });
  });
}
