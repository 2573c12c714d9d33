import { forgetPort, putPort } from "../kernel/bpf/port_table.ts";
import { acquireDirectoryLock } from "../kernel/file_lock.ts";
import type { NetlinkSocket } from "../kernel/netlink/socket.ts";
import { setPortEntry } from "../kernel/route/forwarding_entry.ts";
import { addClassifiers } from "../kernel/traffic_control/queueing_discipline.ts";
import { receiveAtBridge } from "../kernel/traffic_control/receive_at_bridge.ts";
import type { Bridge } from "./bridge.ts";
import type { Node } from "./node.ts";
import type { Wiring } from "./wiring.ts";

/** A pod's port, by its index. */
export interface PortOnBridge {
  readonly bridge: Bridge;
  readonly port: number;
  /** The directory under whose lock tables of ports are written. */
  readonly runDir: string;
}

/**
 * Takes a pod's packets around the bridge: in routed mode all of them go up to the node's IP layer, as received by the bridge,
 * and come down from it, as sent by the bridge, which has nothing to decide about them. What a pod sends as itself to its
 * port is received by the bridge at once, and what the bridge sends to the pod leaves by its port at once. All else takes the
 * bridge, as does everything where the kernel lacks the means: a refusal changes nothing but the time it takes.
 *
 * The bridge learns nothing from what it does not see, so it is told where the pod is: else it would send frames for the
 * pod to all ports, and who listens there could read them. Where it does not take that, the pod uses the bridge. So does one
 * that has asked for a MAC address which is another's, or the bridge's: it takes nothing from one whose place is kept.
 *
 * It is to be called while the port is down: a link that is up and gets a place for classifiers loses what is on its way
 * (qdisc_graft).
 *
 * @throws DrawbridgeError when the kernel does not answer, or another plugin keeps the table of ports locked; SyscallError when
 *   the kernel does not let it be changed
 */
export function bypassBridge(
  { syscalls }: Pick<Node, "syscalls">,
  socket: NetlinkSocket,
  { bridge, port, runDir }: PortOnBridge,
  { hostMac, podMac, isMacRequested, addresses, shaping }: Wiring,
): void {
  const [entry] = socket.batch([setPortEntry(port, podMac, isMacRequested ? "refuse" : "move")]);
  if (entry?.error !== undefined) return;
  locked(syscalls, runDir, () => putPort(syscalls, bridge.index, podMac, port));
  // All that is received is delayed where sending is limited, and takes the bridge behind that.
  if (shaping?.fromPod !== undefined) return;
  socket.batch([
    addClassifiers(port),
    ...addresses.map(({ address }) =>
      receiveAtBridge(port, bridge.index, { source: podMac, destination: hostMac, address }),
    ),
  ]);
}

/**
 * For a pod whose packets take the bridge: another that has its MAC address, since it asked for that or was its address' last
 * holder, does not get what is for it any more. A pod that itself asked for its MAC address takes nothing from others.
 *
 * @throws as {@link bypassBridge}
 */
export function leaveToBridge(
  { syscalls }: Pick<Node, "syscalls">,
  socket: NetlinkSocket,
  { bridge, port, runDir }: PortOnBridge,
  { podMac, isMacRequested }: Wiring,
): void {
  if (isMacRequested) return;
  socket.batch([setPortEntry(port, podMac, "move")]);
  locked(syscalls, runDir, () => forgetPort(syscalls, bridge.index, podMac));
}

/**
 * Of two that write one place of a table at once, the MAC address of one could stay with the other's port. The directory of the
 * attachment's record is there by then.
 */
function locked(syscalls: Node["syscalls"], runDir: string, write: () => void): void {
  const release = acquireDirectoryLock(syscalls, runDir);
  try {
    write();
  } finally {
    release();
  }
}
