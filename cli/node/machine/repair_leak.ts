import { del } from "../../../cni/del/del.ts";
import { hasEnded, linksOf } from "../../../cni/gc/proof.ts";
import { HOST_INTERFACE_PREFIX, hostInterfaceName } from "../../../attachment/names_and_macs.ts";
import { type PluginMachine, openStore } from "../../../cni/host.ts";
import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import { readAttachment } from "../../../attachment/attachment_reader.ts";
import { endedSince } from "../../../attachment/ended.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { currentNamespace } from "../../../kernel/network_namespace.ts";
import { deleteLink } from "../../../kernel/route/link.ts";
import type { MachineCalls } from "../../../kernel/syscall/machine_calls.ts";
import type { Repair } from "../audit/leak.ts";
import type { NodePlace } from "../place.ts";
import { nodeOf, processesByContainer } from "./read_audit.ts";
import { withRouteSocket } from "../../../kernel/route/socket.ts";

/** The most milliseconds that the daemon may take to unregister a pod. */
const DAEMON_MILLISECONDS = 10_000;
const NOBODY = { netns: undefined, arguments: { mac: undefined, ip: undefined, pod: undefined } };

/**
 * Repairs one leak, under the locks that ADD and DEL take. It checks the reason again: pods come and go.
 *
 * @throws DrawbridgeError ERR_INPUT where it is in use again; what DEL throws
 */
export function repairLeak(syscalls: MachineCalls, place: NodePlace, repair: Repair): void {
  const node = nodeOf(syscalls);
  const hasLink = linksOf(node);
  switch (repair.kind) {
    case "detach":
      return detach(node, place, repair.record);
    case "release": {
      const { network, owner, address } = repair;
      const link = hostInterfaceName(node.sha256, owner.containerId, owner.ifname);
      openStore(node, network, place.dataDirectory).releaseAddresses(owner, [address], {
        // If this throws, the address stays reserved.
        last: () => {
          const isRecorded = readAttachment(place.stateDirectory, network, owner, node.files) !== undefined;
          if (isRecorded || hasLink(link) || processesByContainer()(owner.containerId)) throw inUse(owner.containerId);
        },
      });
      return;
    }
    case "link": {
      const { name } = repair;
      if (hasLink(`${HOST_INTERFACE_PREFIX}${name.slice(3)}`)) throw inUse(name);
      return withRouteSocket(syscalls, (socket) => {
        const [reply] = socket.batch([deleteLink({ name })]);
        if (reply?.error !== undefined && reply.error.errnoName !== "ENODEV") throw reply.error;
      });
    }
    case "withdraw": {
      const { hostInterface } = repair;
      if (hasLink(hostInterface)) throw inUse(hostInterface);
      return node.nodeRules().withdraw(node, place.stateDirectory, hostInterface, undefined);
    }
  }
}

/** Detaches as DEL does, with the daemon and all locks. */
function detach(node: PluginMachine, place: NodePlace, record: AttachmentRecord): void {
  const { network, containerId, ifname, dataDir, bridge, hostInterface } = record;
  const hasLink = linksOf(node);
  const current = readAttachment(place.stateDirectory, network, record, node.files);
  if (current === undefined) return;
  const isMarked = endedSince(place.stateDirectory, current, node.files) !== undefined;
  if (!hasEnded(node, current, hasLink) && (!isMarked || hasLink(hostInterface))) throw inUse(containerId);
  const configuration = {
    name: network,
    runDir: place.stateDirectory,
    bridge,
    ipam: { dataDir },
    policyd: record.policyd === undefined ? undefined : { socket: place.socket, wait: DAEMON_MILLISECONDS },
  };
  const home = currentNamespace(node.syscalls);
  del(node, configuration, { containerId, ifname, ...NOBODY }, { home, namespace: undefined });
}

function inUse(what: string): DrawbridgeError {
  return new DrawbridgeError("ERR_INPUT", `${what} is in use by now: it stays`);
}
