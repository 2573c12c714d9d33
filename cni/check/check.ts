import { withRouteSocket } from "../../kernel/route/socket.ts";
import { type AttachmentRecord, readAttachment } from "../../attachment/attachment.ts";
import { asksForNodeRules } from "../../attachment/node_rules_need.ts";
import { askPolicyd } from "../../attachment/policyd_client.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { formatAddress } from "../../kernel/ip/address.ts";
import type { NetworkNamespace } from "../../kernel/network_namespace.ts";
import { realWaiting } from "../../kernel/waiting.ts";
import type { BridgeConfiguration } from "../configuration/configuration.ts";
import type { RegistrationAccess } from "../configuration/policyd_access.ts";
import type { Attachment } from "../environment.ts";
import { CniError, CniErrorCode } from "../error.ts";
import type { PluginMachine } from "../host.ts";
import { unheldAddresses } from "../ipam_plugin.ts";
import { nodeStateDifferences } from "../node_state/repair.ts";
import { differences, observe } from "./comparison.ts";
import { expectationOf } from "./expectation.ts";

/** The node's network namespace, which the calling thread is in, and the pod's. */
interface BothNamespaces {
  readonly home: NetworkNamespace;
  readonly namespace: NetworkNamespace;
}

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
  { home, namespace }: BothNamespaces,
): void {
  const record = expectRecord(node, configuration, attachment, namespace);
  const expected = expectationOf(configuration, record, prevResult);
  const found = [
    ...differences(expected, observe(node, expected, home, namespace)),
    ...nodeDifferences(node, record),
    ...unheldAddresses(node, configuration, record).map(
      (address) => `reservation of ${formatAddress(address)} is missing or another container's in ${record.dataDir}`,
    ),
    ...ruleDifferences(node, configuration, record),
  ];
  if (found.length > 0) throw broken(attachment, found);
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
