import { forgetPort, putPort } from "../../kernel/bpf/port_table.ts";
import { withDirectoryLock } from "../../kernel/file_lock.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { setPortEntry } from "../../kernel/route/forwarding_entry.ts";
import { addClassifiers } from "../../kernel/traffic_control/queueing_discipline.ts";
import { receiveAtBridge } from "../../kernel/traffic_control/redirect.ts";
import type { PluginMachine } from "../host.ts";
import type { Bridge, Wiring } from "./wiring.ts";

/** A pod's bridge port, by its index. */
export interface PortOnBridge {
  readonly bridge: Bridge;
  readonly port: number;
  /**
   * The directory whose lock protects writes to the tables of ports. If two calls wrote one place of a table at once, it
   * could combine one pod's MAC address with the other's port.
   */
  readonly runDir: string;
}

/**
 * Takes a pod's packets around the bridge.
 *
 * In routed mode all of a pod's packets go up to the node's IP layer, as received by the bridge, and come down from it,
 * as sent by the bridge, so the bridge has nothing to decide. A packet that the pod sends with its own addresses is
 * therefore received by the bridge device directly, and a packet that the bridge sends to the pod leaves by its port
 * directly. All other packets take the bridge, as does everything when the kernel lacks the means: a refusal costs only
 * time.
 *
 * The bridge learns nothing from packets that it does not see, so it gets a forwarding entry for the pod. Without one
 * it would flood frames for the pod to all ports, where other programs could read them. When the kernel refuses the
 * entry, the pod uses the bridge. So does a pod that requested a MAC address which the bridge or another pod has: it
 * cannot take over an entry that exists.
 *
 * Call this while the port is down: a link that is up loses the packets in flight when it gets its place for
 * classifiers (qdisc_graft).
 *
 * @throws DrawbridgeError when the kernel does not answer, or another plugin keeps the table of ports locked;
 *   SyscallError when the kernel refuses to change it
 */
export function bypassBridge(
  { syscalls }: Pick<PluginMachine, "syscalls">,
  socket: NetlinkSocket,
  { bridge, port, runDir }: PortOnBridge,
  { hostMac, podMac, isMacRequested, addresses, shaping }: Wiring,
): void {
  const [entry] = socket.batch([setPortEntry(port, podMac, isMacRequested ? "refuse" : "move")]);
  if (entry?.error !== undefined) return;
  withDirectoryLock(syscalls, runDir, () => putPort({ syscalls, socket }, bridge.index, podMac, port));
  // If the pod's sending is limited, all that it sends passes the delay device first, and then takes the bridge.
  if (shaping?.fromPod !== undefined) return;
  socket.batch([
    addClassifiers(port),
    ...addresses.map(({ address }) =>
      receiveAtBridge(port, bridge.index, { source: podMac, destination: hostMac, address }),
    ),
  ]);
}

/**
 * Leaves a pod's packets to the bridge: takes the forwarding entry and the place in the table of ports from another pod
 * that has the same MAC address, because it requested that or held the address before. A pod that requested its own MAC
 * address takes nothing from others.
 *
 * @throws as {@link bypassBridge}
 */
export function leaveToBridge(
  { syscalls }: Pick<PluginMachine, "syscalls">,
  socket: NetlinkSocket,
  { bridge, port, runDir }: PortOnBridge,
  { podMac, isMacRequested }: Wiring,
): void {
  if (isMacRequested) return;
  socket.batch([setPortEntry(port, podMac, "move")]);
  withDirectoryLock(syscalls, runDir, () => forgetPort({ syscalls, socket }, bridge.index, podMac));
}
