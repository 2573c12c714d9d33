import { DrawbridgeError, type ErrorCode } from "../kernel/error.ts";

/**
 * Error codes of the CNI specification 1.1.0 ("Error"), the reference plugins' code 8, and our own from 100 on.
 *
 * A runtime only shows them to people, except for 11: after that it may try the same call again.
 */
export const CniErrorCode = {
  INCOMPATIBLE_VERSION: 1,
  UNSUPPORTED_FIELD: 2,
  INVALID_ENVIRONMENT: 4,
  IO_FAILURE: 5,
  DECODING_FAILURE: 6,
  INVALID_CONFIGURATION: 7,
  INVALID_NETNS: 8,
  TRY_AGAIN_LATER: 11,
  NOT_AVAILABLE: 50,
  LIMITED_CONNECTIVITY: 51,
  FOREIGN_OBJECT: 101,
  RANGE_EXHAUSTED: 102,
  ADDRESS_UNAVAILABLE: 103,
  DUPLICATE: 104,
  KERNEL_REFUSED: 105,
  HOST_PORT_TAKEN: 106,
  ATTACHMENT_BROKEN: 107,
  INTERNAL: 999,
} as const;

export type CniErrorCode = (typeof CniErrorCode)[keyof typeof CniErrorCode];

/** An error as the CNI specification defines it. */
export class CniError extends Error {
  override readonly name = "CniError";
  /** One of {@link CniErrorCode}, or the code from another plugin that this one executed. */
  readonly code: number;
  readonly details: string | undefined;

  constructor(code: number, message: string, details?: string) {
    super(message);
    this.code = code;
    this.details = details;
  }
}

/** Returns the error for an invalid field of a configuration. */
export function invalidField(field: string, value: unknown, expectation: string): CniError {
  return new CniError(CniErrorCode.INVALID_CONFIGURATION, `${field}: ${showValue(value)}; expected ${expectation}`);
}

/** Formats a value for an error message: its JSON, truncated when long; "missing" for undefined. */
export function showValue(value: unknown): string {
  const text = JSON.stringify(value) ?? "missing";
  return text.length <= LONGEST_SHOWN ? text : `${text.slice(0, LONGEST_SHOWN)}…`;
}

const LONGEST_SHOWN = 200;

const codes: Readonly<Record<ErrorCode, CniErrorCode>> = {
  ERR_ADDRESS: CniErrorCode.INVALID_CONFIGURATION,
  ERR_CONFIGURATION: CniErrorCode.INVALID_CONFIGURATION,
  ERR_SYSCALL: CniErrorCode.KERNEL_REFUSED,
  ERR_NAMESPACE: CniErrorCode.INVALID_NETNS,
  ERR_NETLINK: CniErrorCode.KERNEL_REFUSED,
  ERR_NETLINK_MALFORMED: CniErrorCode.KERNEL_REFUSED,
  ERR_NFTABLES_VALUE: CniErrorCode.INTERNAL,
  ERR_INPUT: CniErrorCode.INTERNAL,
  ERR_FOREIGN_OBJECT: CniErrorCode.FOREIGN_OBJECT,
  ERR_RANGE_EXHAUSTED: CniErrorCode.RANGE_EXHAUSTED,
  ERR_ADDRESS_UNAVAILABLE: CniErrorCode.ADDRESS_UNAVAILABLE,
  ERR_DUPLICATE: CniErrorCode.DUPLICATE,
  ERR_HOST_PORT_TAKEN: CniErrorCode.HOST_PORT_TAKEN,
  ERR_LOCK_TIMEOUT: CniErrorCode.TRY_AGAIN_LATER,
  ERR_STORE: CniErrorCode.IO_FAILURE,
  ERR_OBJECT: CniErrorCode.INVALID_CONFIGURATION,
  ERR_PROTOCOL: CniErrorCode.IO_FAILURE,
  ERR_POD_UNKNOWN: CniErrorCode.TRY_AGAIN_LATER,
  ERR_UNAVAILABLE: CniErrorCode.TRY_AGAIN_LATER,
};

/** Converts any thrown value to a CNI error. A value of no known class becomes an internal error, without its stack. */
export function toCniError(error: unknown): CniError {
  if (error instanceof CniError) return error;
  if (error instanceof DrawbridgeError) return new CniError(codes[error.code], error.message, error.code);
  const message = error instanceof Error ? error.message : String(error);
  return new CniError(CniErrorCode.INTERNAL, message, "unexpected: please report this as a bug of Drawbridge");
}

/** Formats the error for standard output, as the specification defines it. */
export function formatCniError(error: CniError, cniVersion: string): string {
  return JSON.stringify(
    {
      cniVersion,
      code: error.code,
      msg: error.message,
      ...(error.details === undefined ? {} : { details: error.details }),
    },
    undefined,
    4,
  );
}
