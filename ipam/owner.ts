import { DrawbridgeError } from "../kernel/error.ts";

/** Who holds an address: one interface of one container. */
export interface Owner {
  readonly containerId: string;
  readonly ifname: string;
}

/** Longest container id and network name, in bytes: with an ifname (15) and our suffixes still one file name (255). */
export const MAX_NAME_LENGTH = 200;

const MAX_IFNAME_BYTES = 15;

/**
 * Returns a network name that is safe as a directory name (CNI spec: `[a-zA-Z0-9][a-zA-Z0-9_.-]*`).
 *
 * The first character is a letter or digit, so no network is ever named `.`, `..` or `.drawbridge`; there is no slash.
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
 * Returns an interface name the kernel takes (`dev_valid_name`): no slash, colon or white space.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION
 */
export function expectInterfaceName(name: string): string {
  const fits = name !== "" && Buffer.byteLength(name) <= MAX_IFNAME_BYTES;
  if (fits && !/[/:\s\0]/.test(name) && name !== "." && name !== "..") return name;
  throw new DrawbridgeError(
    "ERR_CONFIGURATION",
    `interface name: ${JSON.stringify(name)}; expected 1 to ${MAX_IFNAME_BYTES} bytes without slash, colon or white space, not "." or ".."`,
  );
}

/**
 * Passes an owner whose two names are safe in a file name and in a reservation's content.
 *
 * By their alphabets `<id>:<ifname>` and `<id>\r\n<ifname>` each split in one way only, and neither leaves its
 * directory.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION
 */
export function expectOwner(owner: Owner): void {
  expectContainerId(owner.containerId);
  expectInterfaceName(owner.ifname);
}

function expectName(what: string, name: string): string {
  if (name.length <= MAX_NAME_LENGTH && /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(name)) return name;
  throw new DrawbridgeError(
    "ERR_CONFIGURATION",
    `${what}: ${JSON.stringify(name)}; expected 1 to ${MAX_NAME_LENGTH} letters, digits, "_", "." or "-", the first a letter or digit`,
  );
}
