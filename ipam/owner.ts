import { DrawbridgeError } from "../kernel/error.ts";

/** The holder of an address: one interface of one container. */
export interface Owner {
  readonly containerId: string;
  readonly ifname: string;
}

/**
 * The longest container id and network name, in bytes; with an ifname (15) and our suffixes they fit a file name (255).
 */
export const MAX_NAME_LENGTH = 200;

/** IFNAMSIZ without its NUL. */
export const MAX_IFNAME_BYTES = 15;

const encoder = new TextEncoder();

/**
 * Returns whether a text is a container id or a network name: `[a-zA-Z0-9][a-zA-Z0-9_.-]*` (CNI specification), and
 * short enough for a file name. The first character is a letter or digit, so none is `.`, `..` or `.drawbridge`.
 */
export function isName(text: string): boolean {
  return text.length <= MAX_NAME_LENGTH && /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(text);
}

/**
 * Returns whether the kernel accepts a text as an interface's name and the text is safe as a path component.
 *
 * "%" is refused since the kernel treats "br%d" as a pattern and makes "br0" of it (dev_alloc_name); "all" and
 * "default" are directories of /proc/sys/net/ipv4/conf that do not belong to an interface (sysctl_dev_name_is_allowed).
 */
export function isInterfaceName(text: string): boolean {
  if (text === "" || encoder.encode(text).length > MAX_IFNAME_BYTES) return false;
  // oxlint-disable-next-line no-control-regex -- control characters are what is refused here
  return !/[/:%\s\u0000-\u001f\u007f]|^(\.{1,2}|all|default)$/u.test(text);
}

/** Returns whether a text is an absolute path without `..`, so that it names the same file wherever the plugin runs. */
export function isDirectoryPath(text: string): boolean {
  return text.startsWith("/") && !text.includes("\0") && !text.split("/").includes("..");
}

/**
 * Returns a network name, which is safe as a directory name.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION
 */
export function expectNetworkName(name: string): string {
  return expectName("network name", name);
}

/**
 * Returns a container id of the CNI spec's alphabet: no slash, colon or line break, no leading dot.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION
 */
export function expectContainerId(name: string): string {
  return expectName("container id", name);
}

/**
 * Returns an interface name that the kernel accepts (`dev_valid_name`): no slash, colon or white space.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION
 */
export function expectInterfaceName(name: string): string {
  if (isInterfaceName(name)) return name;
  throw new DrawbridgeError(
    "ERR_CONFIGURATION",
    `interface name: ${JSON.stringify(name)}; expected 1 to ${MAX_IFNAME_BYTES} bytes without slash, colon, "%" or white space, none of ".", "..", "all", "default"`,
  );
}

/**
 * Checks that the two names of an owner are safe in a file name and in a reservation's content.
 *
 * By their alphabets `<id>:<ifname>` and `<id>\r\n<ifname>` can each be split in only one way, and neither leaves its
 * directory.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION
 */
export function expectOwner(owner: Owner): void {
  expectContainerId(owner.containerId);
  expectInterfaceName(owner.ifname);
}

function expectName(what: string, name: string): string {
  if (isName(name)) return name;
  throw new DrawbridgeError(
    "ERR_CONFIGURATION",
    `${what}: ${JSON.stringify(name)}; expected 1 to ${MAX_NAME_LENGTH} letters, digits, "_", "." or "-", the first a letter or digit`,
  );
}
