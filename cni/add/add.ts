import { attempt, DrawbridgeError } from "../../kernel/error.ts";
import { mayBeRecorded, removeAttachment, writeAttachment } from "../../attachment/attachment_writer.ts";
import { hostInterfaceName } from "../../attachment/names_and_macs.ts";
import { asksForNodeRules } from "../../attachment/node_rules_need.ts";
import { assignRequested } from "../../ipam/allocator.ts";
import type { AddressStore, Allocation, Holding } from "../../ipam/store.ts";
import { formatAddress } from "../../kernel/ip/address.ts";
import { type Cidr, cidrFamily } from "../../kernel/ip/cidr.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { insideNamespace } from "../../kernel/network_namespace.ts";
import { deleteAddress, listAddresses } from "../../kernel/route/interface_address.ts";
import { openRouteSocket } from "../../kernel/route/socket.ts";
import type { BridgeConfiguration } from "../configuration/configuration.ts";
import { dnsOf } from "../configuration/dns.ts";
import type { AddressGiver } from "../delegation/foreign_ipam.ts";
import type { Attachment } from "../environment.ts";
import { openStore, type PluginMachine, rememberingSettings } from "../host.ts";
import { ensureNodeState } from "../node_state/ensure.ts";
import type { Namespaces } from "../pod_lock.ts";
import type { Registration } from "../registration.ts";
import type { AddResult, Dns } from "../result.ts";
import { makePodLink, WiringFailure } from "../wiring/pod_link.ts";
import { addResult, decideWiring } from "../wiring/wiring.ts";
import { allowIpv6, ensureNodeBridge } from "./bridge.ts";
import { claimAddresses } from "./claim.ts";
import { freshGateways } from "./gateways.ts";
import { enableIpv6, prepareNamespace } from "./pod_namespace.ts";
import { recordOf } from "./record.ts";

/**
 * Attaches a pod: the ADD verb.
 *
 * The order makes it safe to be killed at any point. Addresses are claimed first, the record that names them is written
 * before the link exists, and the link is made whole in one message. A DEL finds what exists by the record, or by the
 * container's id in the store and the interface's deterministic name. A failure undoes its own steps at once.
 *
 * @param giver the external IPAM plugin that gives the addresses; its DEL is called when the ADD fails afterwards
 * @throws DrawbridgeError, CniError: a failed ADD leaves nothing, unless the kernel stopped answering and it is unknown
 *   whether the link exists; a DEL then finds it by the record
 */
export function add(
  node: PluginMachine,
  configuration: BridgeConfiguration,
  attachment: Attachment,
  { home, namespace }: Namespaces,
  giver?: AddressGiver,
): AddResult {
  const dns = dnsOf(node, configuration);
  // Checked again under the store's lock. A request that no range serves must not leave a new bridge on the node.
  assignRequested(configuration.ipam.ranges, configuration.ipam.requested);
  const inPod = <T>(action: () => T): T => insideNamespace(node.syscalls, home, namespace, action);
  const podSocket = inPod(() => prepareNamespace(node, attachment.ifname, configuration.hasIpv6));
  refuseSecondAttachment(node, configuration, attachment);
  // Only now: if the pod is attached already, giving addresses and taking them back would free the addresses it holds.
  const given = giver?.give();
  try {
    if (given?.configuration.hasIpv6 === true) inPod(() => enableIpv6(node));
    const place = { podSocket, home, namespace, dns: given?.configuration.dns ?? dns };
    return attach(node, given?.configuration ?? configuration, attachment, given?.allocations, place);
  } catch (error) {
    const isWiringFailure = error instanceof WiringFailure;
    // When the link may still exist, the addresses stay reserved for the DEL that removes it.
    if (!isWiringFailure || error.linkIsGone) giver?.takeBack();
    throw isWiringFailure ? error.cause : error;
  } finally {
    giver?.end();
  }
}

/** The place where a pod is attached. */
interface Place extends Namespaces {
  /** In the pod's namespace. */
  readonly podSocket: NetlinkSocket;
  readonly dns: Dns;
}

/** Attaches a pod. @param given its addresses if another program gave them @throws WiringFailure, and as {@link add} */
function attach(
  node: PluginMachine,
  configuration: BridgeConfiguration,
  attachment: Attachment,
  given: readonly Allocation[] | undefined,
  { podSocket, home, namespace, dns }: Place,
): AddResult {
  const { policyd, runDir } = configuration;
  const hostSocket = openRouteSocket(node.syscalls);
  const sysctl = rememberingSettings(node, runDir);
  const bridge = ensureNodeBridge(node, { socket: hostSocket, sysctl }, configuration);
  const own = listAddresses(hostSocket, { index: bridge.index }).map(({ address }) => address);
  const recorded = (): Generator<Holding> => node.deleting().recordedHoldings(node, configuration);
  const store = openStore(node, configuration.name, configuration.ipam.dataDir, recorded);
  const claimPlace = { store, socket: hostSocket, home, bridge, own };
  const allocations = claimAddresses(node, configuration, attachment, given, claimPlace);
  let gateways: readonly Cidr[] = [];
  let registration: Registration | undefined;
  try {
    const wiring = decideWiring(configuration, attachment, allocations, bridge, node.sha256);
    gateways = freshGateways(node, configuration, claimPlace, wiring);
    if (gateways.some((one) => cidrFamily(one) === 6)) allowIpv6(sysctl, bridge.name);
    const record = recordOf(node, configuration, attachment, namespace, { wiring, bridge });
    const confirm = (): void => {
      // The daemon works on it while the link is made, and makes its part of the node's side (FOREIGN-03).
      registration?.wait();
      ensureNodeState({ syscalls: node.syscalls, socket: hostSocket, sysctl, runDir }, record, bridge.index, node);
    };
    const isFirst = gateways.length > 0;
    const place = { hostSocket, podSocket, netnsFd: namespace.fd, bridge, isFirst, runDir, confirm };
    writeAttachment(runDir, record, node.files);
    if (keepsRules(configuration)) node.nodeRules().publish(node, configuration, attachment, wiring);
    registration = policyd && node.registering().register(node, policyd, record, { runDir });
    makePodLink(node, place, wiring);
    return addResult(wiring, bridge, namespace.path, dns);
  } catch (error) {
    // When the link may still exist, the record and the addresses stay for the DEL that removes it.
    if (!(error instanceof WiringFailure) || error.linkIsGone) {
      // A pod that came meanwhile keeps its gateways.
      const forget = (): void => {
        if (gateways.length === 0 || recorded().next().done !== true) return;
        hostSocket.batch(gateways.map((address) => deleteAddress(bridge.index, address)));
      };
      undo(node, configuration, attachment, store, { allocations, isRegistered: registration !== undefined, forget });
    }
    throw error;
  }
}

/** Whether the plugin keeps the pod's rules itself. With a daemon, the daemon keeps them, from the record. */
function keepsRules(configuration: BridgeConfiguration): boolean {
  return configuration.policyd === undefined && asksForNodeRules(configuration);
}

/** Refuses an attachment that has a record of this boot: a runtime must call DEL before it calls ADD again. */
function refuseSecondAttachment(node: PluginMachine, configuration: BridgeConfiguration, attachment: Attachment): void {
  const { runDir, name } = configuration;
  if (!mayBeRecorded(runDir, name, attachment, node.files)) return;
  const record = node.deleting().readAttachment(runDir, name, attachment, node.files);
  if (record === undefined || record.bootId !== node.bootId()) return;
  const held = record.addresses.map(({ address }) => formatAddress(address)).join(", ");
  throw new DrawbridgeError(
    "ERR_DUPLICATE",
    `${held} has been allocated to ${attachment.containerId}, duplicate allocation is not allowed: call DEL first`,
  );
}

/** The claims of an ADD that fails. */
interface Claimed {
  readonly allocations: readonly Allocation[];
  /** Whether a daemon may have put the pod's addresses in force and then gone away. */
  readonly isRegistered: boolean;
  /** Takes back the addresses that the bridge got, after the record is gone. */
  readonly forget: () => void;
}

/** Takes back what a failed ADD claimed. Swallows errors of its own: the runtime must see the first one. */
function undo(
  node: PluginMachine,
  configuration: BridgeConfiguration,
  attachment: Attachment,
  store: AddressStore,
  { allocations, isRegistered, forget }: Claimed,
): void {
  const addresses = allocations.map(({ address }) => address.address);
  const owner = hostInterfaceName(node.sha256, attachment.containerId, attachment.ifname);
  const { policyd, name: network } = configuration;
  const { containerId, ifname } = attachment;
  const undone = policyd && node.registering().unregister(node, policyd, { network, containerId, ifname });
  const steps: readonly (() => unknown)[] = [
    () => {
      if (isRegistered && undone === "undone") node.nodeRules().forgetAddresses(node, addresses);
    },
    () => {
      if (!keepsRules(configuration)) return;
      node.nodeRules().withdraw(node, configuration.runDir, owner, { ...configuration, addresses });
    },
    () => store.releaseAddresses(attachment, addresses),
    () => removeAttachment(configuration.runDir, configuration.name, attachment, node.files),
    forget,
  ];
  for (const step of steps) attempt(step, () => {});
}
