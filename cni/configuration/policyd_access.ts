import { LONGEST_WAIT } from "../../attachment/message_frame.ts";
import { isDirectoryPath } from "../../ipam/owner.ts";
import { invalidField } from "../error.ts";
import { decode, type Decoded, isObject } from "../json.ts";

/** The fields of the `policyd` key. */
export const policydShape = { socket: "string", wait: "string", onUnavailable: "string" } as const;

/** The plugin's access to the node's daemon. */
export interface PolicydAccess {
  readonly socket: string;
  /** Milliseconds. */
  readonly wait: number;
}

/** The daemon's access for an ADD. */
export interface RegistrationAccess extends PolicydAccess {
  /**
   * The treatment of a pod that the daemon has not accepted within that time. "fail" refuses it. "closed" attaches it,
   * if the tables keep it from sending and receiving anything until the daemon finds its record.
   */
  readonly onUnavailable: (typeof WAYS_ON)[number];
}

const WAYS_ON = ["fail", "closed"] as const;
const DEFAULT_SOCKET = "/run/drawbridge/policyd.sock";
const DEFAULT_WAIT = "10s";
const units = { ms: 1, s: 1000, m: 60_000 } as const;
/**
 * Validates the `policyd` key. With it, the daemon knows each pod before its first packet; without it, the plugin works
 * without a daemon.
 *
 * @throws CniError 7 naming the field
 */
export function policydAccess(input: Decoded<typeof policydShape> | undefined): RegistrationAccess | undefined {
  if (input === undefined) return undefined;
  const socket = input.socket ?? DEFAULT_SOCKET;
  if (!isDirectoryPath(socket)) throw invalidField("policyd.socket", socket, 'an absolute path without ".."');
  const asked = input.onUnavailable ?? "fail";
  const onUnavailable = asked === "fail" || asked === "closed" ? asked : undefined;
  if (onUnavailable === undefined) throw invalidField("policyd.onUnavailable", asked, WAYS_ON.join(" or "));
  return { socket, wait: milliseconds(input.wait ?? DEFAULT_WAIT), onUnavailable };
}

/**
 * Reads the `policyd` key for DEL, which no configuration may stop: a value that ADD would refuse counts as absent.
 * Everything else is read as for ADD, so that DEL finds the daemon with which ADD registered the pod.
 *
 * @returns undefined without a `policyd` key, or if it is not an object
 */
export function detachAccess(input: unknown): PolicydAccess | undefined {
  if (!isObject(input)) return undefined;
  const { socket } = decode(input, { socket: "any" }, "policyd");
  const isUsable = typeof socket === "string" && isDirectoryPath(socket);
  return { socket: isUsable ? socket : DEFAULT_SOCKET, wait: milliseconds(DEFAULT_WAIT) };
}

function milliseconds(text: string): number {
  const [, count, unit] = /^(\d{1,6})(ms|s|m)$/.exec(text) ?? [];
  const value = Number(count) * (unit === "ms" || unit === "s" || unit === "m" ? units[unit] : Number.NaN);
  if (value >= 1 && value <= LONGEST_WAIT) return value;
  throw invalidField("policyd.wait", text, 'a duration from "1ms" to "2m", such as "10s"');
}
