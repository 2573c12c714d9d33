import type { AttachmentRecord } from "../ipam/attachment.ts";
import type { AttachmentName } from "../ipam/policyd_messages.ts";
import { isDirectoryPath } from "../ipam/owner.ts";
import { DrawbridgeError } from "../kernel/error.ts";
import { CniError, CniErrorCode, invalidField, showValue } from "./error.ts";
import type { Decoded } from "./json.ts";
import type { Node } from "./node.ts";
import type { PolicydCall } from "./policyd_client.ts";
import { callPolicyd } from "./policyd_client.ts";

/** What the plugin reads of the `policyd` key. */
export const policydShape = { socket: "string", wait: "string", onUnavailable: "string" } as const;

/** How the plugin reaches the node's daemon. */
export interface PolicydAccess {
  readonly socket: string;
  /** Milliseconds. */
  readonly wait: number;
}

const DEFAULT_SOCKET = "/run/drawbridge/policyd.sock";
const DEFAULT_WAIT = "10s";
const LONGEST_WAIT = 120_000;
const units = { ms: 1, s: 1000, m: 60_000 } as const;

/**
 * Judges the `policyd` key: with it the daemon knows each pod before its first packet, without it the plugin works alone.
 *
 * @throws CniError 7 naming the field, 2 for a way of going on without the daemon that this version does not have
 */
export function policydAccess(input: Decoded<typeof policydShape> | undefined): PolicydAccess | undefined {
  if (input === undefined) return undefined;
  const socket = input.socket ?? DEFAULT_SOCKET;
  if (!isDirectoryPath(socket)) throw invalidField("policyd.socket", socket, 'an absolute path without ".."');
  if (input.onUnavailable !== undefined && input.onUnavailable !== "fail") {
    throw new CniError(
      CniErrorCode.UNSUPPORTED_FIELD,
      `policyd.onUnavailable: ${showValue(input.onUnavailable)} is not supported; expected "fail" or absent: ADD fails and is tried again`,
    );
  }
  return { socket, wait: milliseconds(input.wait ?? DEFAULT_WAIT) };
}

/** The same for DEL, which nothing in a configuration may stop: what ADD would refuse counts as absent. */
export function detachAccess(input: unknown): PolicydAccess | undefined {
  if (typeof input !== "object" || input === null || Array.isArray(input)) return undefined;
  const socket: unknown = "socket" in input ? input.socket : DEFAULT_SOCKET;
  return typeof socket === "string" && isDirectoryPath(socket)
    ? { socket, wait: milliseconds(DEFAULT_WAIT) }
    : undefined;
}

function milliseconds(text: string): number {
  const [, count, unit] = /^(\d{1,6})(ms|s|m)$/.exec(text) ?? [];
  const value = Number(count) * (unit === "ms" || unit === "s" || unit === "m" ? units[unit] : Number.NaN);
  if (value >= 1 && value <= LONGEST_WAIT) return value;
  throw invalidField("policyd.wait", text, 'a duration from "1ms" to "2m", such as "10s"');
}

/**
 * Tells the daemon of a pod. It works while the pod is wired; {@link PolicydCall.wait} is the time to find out.
 *
 * @throws DrawbridgeError ERR_UNAVAILABLE when it is away
 */
export function register(node: Node, access: PolicydAccess, attachment: AttachmentRecord): PolicydCall {
  return callPolicyd(node.syscalls, access.socket, { type: "register", attachment }, access.wait);
}

/**
 * Has the daemon remove the pod's link, together with those of other pods that go now, and forget the pod. When it is
 * away or dies over it, nothing is lost: the plugin removes what is left by itself.
 */
export function unregister(node: Node, access: PolicydAccess, attachment: AttachmentName): void {
  try {
    callPolicyd(node.syscalls, access.socket, { type: "unregister", attachment }, access.wait).wait();
  } catch (error) {
    if (!(error instanceof DrawbridgeError)) throw error;
  }
}
