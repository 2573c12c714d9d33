/**
 * The stable code of every error that Drawbridge raises on purpose.
 *
 * The code is for programs and never changes its meaning. The message is for people and names the field, the value and
 * what was expected. Any error that is not a `DrawbridgeError` is a bug of ours.
 */
export type ErrorCode =
  /** A text that should be an IP address, a prefix or a MAC address is not one. */
  | "ERR_ADDRESS"
  /** A configuration field is missing, of the wrong type or out of range. */
  | "ERR_CONFIGURATION"
  /** A system call failed; `SyscallError` carries the errno. */
  | "ERR_SYSCALL"
  /** A path is not a network namespace, or cannot be entered; `SyscallError` carries the errno. */
  | "ERR_NAMESPACE"
  /** The kernel refused a netlink request; `NetlinkError` carries the errno and the kernel's own words. */
  | "ERR_NETLINK"
  /** A netlink reply is truncated, oversized or out of sequence. */
  | "ERR_NETLINK_MALFORMED"
  /** A rule, set, element or name makes no sense to nftables; nothing was sent. */
  | "ERR_NFTABLES_VALUE"
  /** A name is taken by an object that is not ours or not of the expected kind. */
  | "ERR_FOREIGN_OBJECT"
  /** Every address of a range set is allocated. */
  | "ERR_RANGE_EXHAUSTED"
  /** The requested address cannot be allocated. */
  | "ERR_ADDRESS_UNAVAILABLE"
  /** The container already holds an address or an interface of this name. */
  | "ERR_DUPLICATE"
  /** A port of the node already belongs to another pod. */
  | "ERR_HOST_PORT_TAKEN"
  /** Another process holds a lock for longer than the time we wait for it. */
  | "ERR_LOCK_TIMEOUT"
  /** A file of the address store or a record cannot be read or written. */
  | "ERR_STORE"
  /** A Kubernetes object, or the file that contains it, is not valid for the API. */
  | "ERR_OBJECT"
  /** A file, a directory or a name given on the command line does not lead to anything usable. */
  | "ERR_INPUT"
  /** A message on policyd's socket is malformed, too long or of an unknown version. */
  | "ERR_PROTOCOL"
  /** policyd waits for a pod's Pod or Namespace, which the API server does not have, or is deleting. */
  | "ERR_POD_UNKNOWN"
  /** policyd is unreachable, does not answer in time, or has been replaced by another one. */
  | "ERR_UNAVAILABLE";

/** Base of the error family: a stable `code` and a message for people. */
export class DrawbridgeError extends Error {
  override readonly name: string = "DrawbridgeError";
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Returns the message of the DrawbridgeError with which an action fails; undefined if it succeeds. */
export function problemOf(action: () => unknown): string | undefined {
  return attempt<string | undefined>(
    () => {
      action();
      return undefined;
    },
    ({ message }) => message,
  );
}

/** Returns the result of an action; if it fails with a DrawbridgeError, that of `otherwise`. Other errors are thrown. */
export function attempt<T>(action: () => T, otherwise: (error: DrawbridgeError) => T): T {
  try {
    return action();
  } catch (error) {
    if (error instanceof DrawbridgeError) return otherwise(error);
    throw error;
  }
}
