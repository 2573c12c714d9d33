import type { Address } from "../../kernel/ip/address.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import type { FileCalls } from "../../kernel/syscall/file_calls.ts";
import type { Syscalls } from "../../kernel/syscall/syscalls.ts";
import type { AttachmentRecord } from "../../attachment/attachment.ts";
import type { AttachmentRegistry } from "../attachments/registry.ts";
import type { Clock } from "../lib/clock.ts";
import type { NodeJudge } from "../../objects/nodes/node_judge.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { NoticeSink } from "../events/notice.ts";
import type { Logger } from "../log/logger.ts";
import { NetlinkRouteKernel } from "./route_kernel/netlink_kernel.ts";
import { RouteReconciler } from "./route_reconciler.ts";

/**
 * Opens the routes of this thread's network namespace. Nothing is written before all objects have been read.
 *
 * @throws SyscallError when the kernel refuses a socket
 */
export function openRoutes(
  { nodeName, encapsulation, bridge, syncPeriod, markBits }: Configuration,
  {
    syscalls,
    clock,
    logger,
    clusterEvents,
    judge,
    setOnLink,
    attachments,
  }: {
    readonly syscalls: Syscalls & FileCalls;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly clusterEvents: NoticeSink;
    readonly judge: NodeJudge;
    readonly attachments: Pick<AttachmentRegistry, "values">;
    readonly setOnLink: (addresses: ReadonlySet<Address>) => void;
  },
): RouteReconciler {
  return new RouteReconciler({
    kernel: new NetlinkRouteKernel(syscalls),
    clock,
    logger,
    events: clusterEvents,
    nodeName,
    judge,
    options: {
      encapsulation,
      bridge,
      marks: Object.values(markBits),
      uses: (address) => isUsed(address, attachments.values()),
    },
    syncPeriod,
    setOnLink,
  });
}

/** Whether a record names an address of the bridge. */
function isUsed(gateway: Cidr, records: Iterable<AttachmentRecord>): boolean {
  return [...records].some(({ host }) => host.bridgeAddresses.some(({ address }) => address === gateway.address));
}
