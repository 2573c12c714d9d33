/**
 * Every error Drawbridge raises on purpose, by a stable code.
 *
 * The code is for programs and never changes its meaning; the message is for people and names the field,
 * the value and what was expected. Whatever is not a `DrawbridgeError` is a bug of ours.
 */
export type ErrorCode =
  /** A text that should be an IP address, a prefix or a MAC address is not one. */
  | "ERR_ADDRESS"
  /** A configuration field is missing, of the wrong type or out of range. */
  | "ERR_CONFIGURATION"
  /** A system call failed; `SyscallError` carries the errno. */
  | "ERR_SYSCALL"
  /** A path is no network namespace, or it cannot be entered; `SyscallError` carries the errno. */
  | "ERR_NAMESPACE"
  /** The kernel refused a netlink request; `NetlinkError` carries the errno and the kernel's own words. */
  | "ERR_NETLINK"
  /** A netlink reply is truncated, oversized or out of sequence. */
  | "ERR_NETLINK_MALFORMED"
  /** A name is taken by an object that is not ours or not of the expected kind. */
  | "ERR_FOREIGN_OBJECT"
  /** Every address of a range set is allocated. */
  | "ERR_RANGE_EXHAUSTED"
  /** The requested address cannot be allocated. */
  | "ERR_ADDRESS_UNAVAILABLE"
  /** The container already holds an address or an interface of this name. */
  | "ERR_DUPLICATE"
  /** Another process holds a lock for longer than we are willing to wait. */
  | "ERR_LOCK_TIMEOUT"
  /** A file of the address store or a record cannot be read or written. */
  | "ERR_STORE";

/** Base of the error family: a stable `code` and a message for people. */
export class DrawbridgeError extends Error {
  override readonly name: string = "DrawbridgeError";
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
