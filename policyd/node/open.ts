import { randomInt } from "node:crypto";
import { systemFileSystem } from "../../ipam/file_system.ts";
import type { KernelEvents } from "../../kernel/events/events.ts";
import { startEventThread } from "../../kernel/events/thread.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import { openRouteSocket } from "../../kernel/route/socket.ts";
import type { nodeSyscalls } from "../../kernel/syscall/node.ts";
import { LinkRemoval } from "../attachments/link_removal.ts";
import { isPresent } from "../attachments/presence.ts";
import type { AttachmentRegistry } from "../attachments/registry.ts";
import type { Clock } from "../clock.ts";
import type { Dataplane } from "../dataplane.ts";
import type { Configuration } from "../configuration/configuration.ts";
import { Ruleset } from "../dataplane/ruleset.ts";
import { RulesetWatch } from "../dataplane/ruleset_watch.ts";
import { withVersion } from "../dataplane/schema.ts";
import type { Logger } from "../log/logger.ts";
import type { ServiceRules } from "../services/compile/context.ts";
import { serviceElements, ServicesDataplane } from "../services/services_dataplane.ts";
import { kernelFlowMemory } from "./flow_memory.ts";
import { NodeDataplane } from "./node_dataplane.ts";
import { nodeTables } from "./tables.ts";

/** What the node's tables need from the machine. */
export interface NodeMachine {
  readonly syscalls: ReturnType<typeof nodeSyscalls>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly attachments: AttachmentRegistry;
}

/** The numbers of netlink sockets are process ids by default, which are below 2^22; these are nobody's. */
const LOWEST_PORT_ID = 2 ** 30;
const HIGHEST_PORT_ID = 2 ** 31;

/**
 * Opens the kernel's nftables and links of this thread's network namespace for the node's tables and Services. Nothing is
 * written before {@link NodeDataplane.synced}.
 *
 * @throws SyscallError without CAP_NET_ADMIN or without nftables in the kernel
 * @throws DrawbridgeError ERR_NFTABLES_VALUE when the bridge has a name no rule can hold
 */
export function openNodeDataplanes(configuration: Configuration, machine: NodeMachine): readonly Dataplane[] {
  const { syscalls, clock, logger, attachments } = machine;
  const { minSyncPeriod, syncPeriod, stateDirectory } = configuration;
  const tables = nodeTables({ ...configuration, services: serviceRules(configuration) }).map(withVersion);
  const portId = randomInt(LOWEST_PORT_ID, HIGHEST_PORT_ID);
  const kernel = new NftablesSocket(syscalls, portId);
  const ruleset = new Ruleset({ kernel, clock, logger, tables, minSyncPeriod, syncPeriod });
  const watch = new RulesetWatch({ ruleset, clock, logger, portId });
  // A removal has a socket of its own, since nothing else may use the one it runs on.
  const routes = openRouteSocket(syscalls);
  const removals = openRouteSocket(syscalls);
  const links = new LinkRemoval({
    batch: (requests) => routes.batch(requests),
    inBackground: (request) => removals.inBackground(request, syscalls),
  });
  const startEvents = (): KernelEvents => startEventThread({ calls: syscalls });
  const flows = kernelFlowMemory(syscalls);
  const place = { stateDirectory, files: systemFileSystem(syscalls) };
  const services = new ServicesDataplane({
    nodeName: configuration.nodeName,
    ruleset,
    podCidrs: configuration.podCIDRs,
    nodePortAddresses: configuration.nodePortAddresses,
    refuseExternalIps: configuration.refuseExternalIPs,
  });
  const node = new NodeDataplane({
    ruleset,
    watch,
    startEvents,
    links,
    flows,
    isPresent: (attachment) => isPresent(attachment, place, routes),
    logger,
    attachments,
    furtherElements: serviceElements,
  });
  // The node's comes last: it starts the ruleset, and by then what the others want has been claimed.
  return [services, node];
}

/** How the configuration has Services served: what the rules depend on, apart from what is in the cluster. */
export function serviceRules({ markBits, tcpReset, dropInvalid }: Configuration): ServiceRules {
  return { masqueradeBit: markBits.masquerade, tcpReset, dropInvalid };
}
