import type { Work } from "../../kernel/waiting.ts";
import type { BridgeConfiguration } from "../configuration.ts";
import { CniErrorCode, toCniError } from "../error.ts";
import type { Node } from "../node.ts";
import { forgetFailure, noteFailure } from "./failure_record.ts";

/**
 * The codes of failures that lie with the node, so that the next pod fails as well. Not among them are a range without a
 * free address, a host port that another pod has, and whatever a call or a pod got wrong.
 */
const NODE_FAILURES: ReadonlySet<number> = new Set([
  CniErrorCode.IO_FAILURE,
  CniErrorCode.TRY_AGAIN_LATER,
  CniErrorCode.FOREIGN_OBJECT,
  CniErrorCode.KERNEL_REFUSED,
  CniErrorCode.INTERNAL,
]);

/** A bridge whose ports are all in use (br_min_ifindex, EXFULL): the pods on it are well, and one that goes makes room. */
const BRIDGE_IS_FULL = /\(EXFULL\b/;

/**
 * Carries out an ADD and notes for STATUS whether pods can be attached on this node (STATUS-01).
 *
 * A success costs one system call more. A failure counts only for an ADD that asks for nothing special: the kernel may
 * refuse a MAC address or a limit that somebody who writes pods has chosen, and such a pod must not take the node away.
 *
 * @param isForeignIpam whether the error may be an IPAM plugin's of others, whose codes do not say that its range is full
 */
export function* noteOutcome<T>(
  node: Node,
  configuration: BridgeConfiguration,
  work: Work<T>,
  isForeignIpam: boolean,
): Work<T> {
  const { runDir, name } = configuration;
  try {
    const result = yield* work;
    forgetFailure(node, runDir, name, "attach");
    return result;
  } catch (error) {
    const { code, message } = toCniError(error);
    if (!isForeignIpam && NODE_FAILURES.has(code) && !BRIDGE_IS_FULL.test(message) && isPlain(configuration)) {
      noteFailure(node, runDir, name, "attach", message);
    }
    throw error;
  }
}

function isPlain({ mac, limits, portMappings, ipam }: BridgeConfiguration): boolean {
  return mac === undefined && limits === undefined && portMappings.length === 0 && ipam.requested.length === 0;
}
