import { DrawbridgeError } from "../../kernel/error.ts";
import { NetlinkError } from "../../kernel/netlink/error.ts";
import { Errno } from "../../kernel/syscall/errno.ts";
import type { BridgeConfiguration } from "../configuration/configuration.ts";
import { CniErrorCode, toCniError } from "../error.ts";
import type { PluginMachine } from "../host.ts";
import { type FailureCause, forgetFailure, noteFailure } from "./failure_record.ts";

/**
 * The codes of failures that the node causes, so that the next pod fails as well. They do not include an exhausted
 * range, a host port that another pod has, and errors of a call or a pod.
 */
const NODE_FAILURES: ReadonlySet<number> = new Set([
  CniErrorCode.IO_FAILURE,
  CniErrorCode.TRY_AGAIN_LATER,
  CniErrorCode.FOREIGN_OBJECT,
  CniErrorCode.KERNEL_REFUSED,
  CniErrorCode.INTERNAL,
]);

/**
 * Carries out an ADD and notes whether pods can be attached on this node: for STATUS (STATUS-01), and for the daemon,
 * which also reports a full range and a full bridge (STATUS-05).
 *
 * A success costs two more system calls. A failure counts only for an ADD that requests nothing special: the kernel may
 * refuse a MAC address or a limit that the author of a pod has chosen, and such a pod must not make the node
 * unavailable.
 *
 * @param isForeignIpam whether the error may come from an external IPAM plugin, whose codes do not say that its range
 *   is full
 */
export function noteOutcome<T>(
  node: PluginMachine,
  configuration: BridgeConfiguration,
  attach: () => T,
  isForeignIpam: boolean,
): T {
  const { runDir, name } = configuration;
  try {
    const result = attach();
    forgetFailure(node, runDir, name, "full");
    forgetFailure(node, runDir, name, "attach");
    return result;
  } catch (error) {
    const { code, message } = toCniError(error);
    const cause = causeOf(error);
    if (cause === "addresses" || cause === "ports") {
      noteFailure(node, runDir, name, "full", { reason: message, cause });
    } else if (!isForeignIpam && NODE_FAILURES.has(code) && !isOfPod(error) && isPlain(configuration)) {
      noteFailure(node, runDir, name, "attach", { reason: message, cause });
    }
    throw error;
  }
}

/** Classifies a failure by the error's stable code. */
function causeOf(error: unknown): FailureCause {
  if (!(error instanceof DrawbridgeError)) return "other";
  // All ports of the bridge are in use (br_min_ifindex): its pods work, and the removal of one makes room.
  if (error instanceof NetlinkError && error.errno === Errno.EXFULL) return "ports";
  if (error.code === "ERR_RANGE_EXHAUSTED") return "addresses";
  return error.code === "ERR_UNAVAILABLE" || error.code === "ERR_PROTOCOL" ? "daemon" : "other";
}

/** Whether the API server has deleted the Pod, as its author may do again and again: the next pod does not fail. */
function isOfPod(error: unknown): boolean {
  return error instanceof DrawbridgeError && error.code === "ERR_POD_UNKNOWN";
}

function isPlain({ mac, limits, portMappings, ipam }: BridgeConfiguration): boolean {
  return mac === undefined && limits === undefined && portMappings.length === 0 && ipam.requested.length === 0;
}
