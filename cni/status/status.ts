import { findLink, withRouteSocket } from "../../kernel/route/socket.ts";
import { listAttachmentNames, readAttachment } from "../../attachment/attachment_reader.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { Link } from "../../kernel/route/link.ts";
import { UnixStream } from "../../kernel/unix_stream.ts";
import { realWaiting } from "../../kernel/waiting.ts";
import { type BridgeConfiguration, bridgeConfiguration } from "../configuration/configuration.ts";
import type { DetachConfiguration } from "../configuration/detach_configuration.ts";
import { CniError, CniErrorCode, toCniError } from "../error.ts";
import type { NetworkInput } from "../configuration/network_input.ts";
import type { PluginMachine } from "../host.ts";
import { type FailureKind, forgetFailure, noteFailure, readFailure, uptime } from "./failure_record.ts";

/** The seconds for which a failure must last before STATUS reports it: a restart of the daemon takes less. */
export const PATIENCE = 60;
/** The seconds after which a failure that was not seen again may be over. */
const STALE_AFTER = 120;

const DAEMON_MILLISECONDS = 1000;

const MOST_SERIOUS_FIRST: readonly FailureKind[] = ["traffic", "node", "attach"];

/**
 * Reports whether pods can be attached: the STATUS verb.
 *
 * The kubelet polls it and marks the node NotReady as long as it fails; after five minutes of that the node's pods are
 * evicted. So STATUS fails only for what has lasted a minute: error 51 when running pods have no network, and error 50
 * when no pod could be attached, by the outcome of ADDs (attach_outcome.ts) and by its own checks. A range without free
 * addresses, a full bridge and a daemon that is being replaced do not count. Where failures cannot be noted, as on a full
 * disk, no pod can be attached either, and for how long is not known: then it fails at once.
 *
 * @param where the network's directories, which exist even in a configuration that ADD refuses
 * @param isForeignIpam whether an external IPAM plugin gives the addresses
 * @throws CniError 50, 51
 */
export function status(
  node: PluginMachine,
  input: NetworkInput,
  where: DetachConfiguration,
  isForeignIpam: boolean,
): void {
  const { runDir, name } = where;
  expectWritable(node, runDir, name);
  // One by one: the kernel interrupts a list of all as long as other programs make and remove links.
  const found = withRouteSocket(node.syscalls, (socket) => {
    const link = (linkName: string): Link | undefined => findLink(socket, { name: linkName });
    return [
      ["traffic", trafficFailure(node, where, link)],
      ["node", attachFailure(node, input, isForeignIpam, link)],
    ] as const;
  });
  for (const [kind, reason] of found) {
    if (reason === undefined) forgetFailure(node, runDir, name, kind);
    else noteFailure(node, runDir, name, kind, { reason, cause: "other" });
  }
  const now = uptime(node) ?? 0;
  for (const kind of MOST_SERIOUS_FIRST) {
    const failure = readFailure(node, runDir, name, kind);
    if (failure === undefined || now - failure.last > STALE_AFTER) continue;
    // Counted up to the last time it was seen: one failed ADD on a quiet node must not count as a minute of failures.
    const seconds = Math.floor(failure.last - failure.since);
    if (seconds < PATIENCE) continue;
    throw kind === "traffic"
      ? new CniError(
          CniErrorCode.LIMITED_CONNECTIVITY,
          `pods of network ${name} have had no connectivity for ${seconds} s: ${failure.reason}`,
        )
      : new CniError(
          CniErrorCode.NOT_AVAILABLE,
          `no pod could be attached to network ${name} for ${seconds} s: ${failure.reason}`,
        );
  }
}

/** Writes and removes a file beside the notes. @throws CniError 50 */
function expectWritable({ files }: PluginMachine, runDir: string, network: string): void {
  const directory = `${runDir}/failures`;
  const trial = `${directory}/.${network}`;
  try {
    files.makeDirectory(directory, 0o700);
    // A failed write leaves an empty file.
    files.unlink(trial);
    files.createFile(trial, "trial");
    files.unlink(trial);
  } catch (error) {
    if (!(error instanceof DrawbridgeError)) throw error;
    throw new CniError(CniErrorCode.NOT_AVAILABLE, `no pod can be attached to network ${network}: ${error.message}`);
  }
}

/** Returns a link by its name, if there is one. */
type FindLink = (name: string) => Link | undefined;

/** Returns why the attached pods have no network at all; undefined if one of them has its bridge. */
function trafficFailure(
  node: PluginMachine,
  { runDir, name }: DetachConfiguration,
  link: FindLink,
): string | undefined {
  let reason: string | undefined;
  for (const owner of listAttachmentNames(runDir, name, node.files)) {
    const record = readAttachment(runDir, name, owner, node.files);
    const port = record?.bootId === node.bootId() ? link(record.hostInterface) : undefined;
    if (record === undefined || port === undefined) continue;
    const bridge = link(record.bridge);
    if (bridge?.up === true && port.master === bridge.index) return undefined;
    if (bridge === undefined) reason ??= `bridge ${record.bridge} is missing`;
    else
      reason ??= bridge.up
        ? `no pod's interface is a port of bridge ${record.bridge}`
        : `bridge ${record.bridge} is down`;
  }
  return reason;
}

/** Returns why every ADD would fail, as far as that is visible without one; undefined if no reason is found. */
function attachFailure(
  node: PluginMachine,
  input: NetworkInput,
  isForeignIpam: boolean,
  find: FindLink,
): string | undefined {
  let configuration: BridgeConfiguration;
  try {
    configuration = bridgeConfiguration(input, { mac: undefined, ip: undefined, pod: undefined }, isForeignIpam);
  } catch (error) {
    return toCniError(error).message;
  }
  const { bridge, policyd } = configuration;
  const link = find(bridge);
  if (link !== undefined && link.kind !== "bridge") return `${bridge} is not a bridge (kind ${link.kind ?? "unknown"})`;
  if (policyd === undefined || policyd.onUnavailable === "closed") return undefined;
  try {
    new UnixStream(node.syscalls, policyd.socket, DAEMON_MILLISECONDS, realWaiting).close();
    return undefined;
  } catch (error) {
    if (error instanceof DrawbridgeError) return error.message;
    throw error;
  }
}
