import { DrawbridgeError } from "../../error.ts";

/** The longest name. NFT_NAME_MAXLEN is 256 with the NUL; ours are short so that listings stay readable. */
const NAME_MAXIMUM = 63;
/** nft's NFTNL_UDATA_COMMENT_MAXLEN: listings with longer comments do not load again. */
const COMMENT_MAXIMUM = 128;
/** NF_LOG_PREFIXLEN is 128 with the NUL. */
const LOG_PREFIX_MAXIMUM = 127;

/** Tells whether nft can read the text back as a quoted interface name. `*` would be a wildcard. */
export function isInterfaceNameText(text: string): boolean {
  return /^[A-Za-z0-9._:@-]{1,15}$/.test(text) && text !== "." && text !== "..";
}

/**
 * Returns the name if it is valid for a table, chain, set or map of ours: a letter, then letters, digits, `_` and `-`.
 * The alphabet is smaller than nft's (no dots and slashes), so that names never need escaping.
 *
 * @param what the kind of object, for the error message
 * @throws DrawbridgeError ERR_NFTABLES_VALUE otherwise
 */
export function checkName(what: string, name: string): string {
  if (/^[A-Za-z][A-Za-z0-9_-]*$/.test(name) && name.length <= NAME_MAXIMUM) return name;
  throw new DrawbridgeError(
    "ERR_NFTABLES_VALUE",
    `nftables ${what}: ${JSON.stringify(name)} is not a valid name; expected a letter, then letters, digits, "_" or "-", at most ` +
      `${NAME_MAXIMUM} characters: hash names that come from outside`,
  );
}

/** NFT_NAME_MAXLEN without the NUL. */
const KERNEL_NAME_MAXIMUM = 255;

/**
 * Returns the name if a kernel object made by any program may have it: an object to delete must be named as it is.
 *
 * @throws DrawbridgeError ERR_NFTABLES_VALUE otherwise
 */
export function checkPresentName(what: string, name: string): string {
  const { length } = new TextEncoder().encode(name);
  if (length > 0 && length <= KERNEL_NAME_MAXIMUM && !name.includes("\0")) return name;
  throw new DrawbridgeError(
    "ERR_NFTABLES_VALUE",
    `nftables ${what}: ${JSON.stringify(name)} is not a valid name; expected 1 to ${KERNEL_NAME_MAXIMUM} bytes without NUL`,
  );
}

/**
 * Returns a text reduced to the alphabet of comments: letters, digits, spaces and `._:/=-`. Any other character becomes
 * `?`, because nft cannot escape a quote inside a string.
 */
export function commentText(text: string): string {
  const cut = text.slice(0, COMMENT_MAXIMUM - 1);
  return /[^A-Za-z0-9 ._:/=-]/.test(cut) ? cut.replaceAll(/[^A-Za-z0-9 ._:/=-]/g, "?") : cut;
}

/**
 * @returns the comment itself
 * @throws DrawbridgeError ERR_NFTABLES_VALUE when {@link commentText} would change it
 */
export function checkComment(comment: string): string {
  if (/^[A-Za-z0-9 ._:/=?-]+$/.test(comment) && comment.length < COMMENT_MAXIMUM) return comment;
  throw new DrawbridgeError(
    "ERR_NFTABLES_VALUE",
    `nftables comment: ${JSON.stringify(comment)}; expected 1 to ${COMMENT_MAXIMUM - 1} letters, digits, spaces or any ` +
      "of . _ : / = -: pass it through commentText",
  );
}

/**
 * @returns the log prefix itself
 * @throws DrawbridgeError ERR_NFTABLES_VALUE when it is empty, too long, or nft could not read it back
 */
export function checkLogPrefix(prefix: string): string {
  if (/^[A-Za-z0-9 ._:/=|-]+$/.test(prefix) && prefix.length <= LOG_PREFIX_MAXIMUM) return prefix;
  throw new DrawbridgeError(
    "ERR_NFTABLES_VALUE",
    `nftables log prefix: ${JSON.stringify(prefix)}; expected 1 to ${LOG_PREFIX_MAXIMUM} letters, digits, spaces or any ` +
      "of . _ : / = | -",
  );
}

/**
 * @param what names the number, for the error message
 * @returns the number itself
 * @throws DrawbridgeError ERR_NFTABLES_VALUE unless it is an integer of the range
 */
export function checkInteger(what: string, value: number, minimum: number, maximum: number): number {
  if (Number.isInteger(value) && value >= minimum && value <= maximum) return value;
  throw new DrawbridgeError(
    "ERR_NFTABLES_VALUE",
    `nftables ${what}: ${value}; expected an integer from ${minimum} to ${maximum}`,
  );
}

/** A year. nft allows more, but a longer timeout is a mistake. */
const TIMEOUT_MAXIMUM = 366 * 86_400_000;

/** Returns milliseconds for the kernel. @throws DrawbridgeError ERR_NFTABLES_VALUE for 0 and for more than a year */
export function checkTimeout(milliseconds: number): bigint {
  return BigInt(checkInteger("timeout", milliseconds, 1, TIMEOUT_MAXIMUM));
}
