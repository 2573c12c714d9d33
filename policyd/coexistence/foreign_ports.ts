import type { AttachmentRecord } from "../../attachment/attachment.ts";
import { dumpLinks, type Link, parseLink } from "../../kernel/route/link.ts";
import { withRouteSocket } from "../../kernel/route/socket.ts";
import type { Syscalls } from "../../kernel/syscall/syscalls.ts";

/** The fields of a link that show whether it is a port of a bridge, and of which. */
export type PortLink = Pick<Link, "index" | "name" | "master">;

/** The plugin's names for pods' host ends (attachment/names_and_macs.ts). */
const HOST_END = /^dbv[0-9a-f]{12}$/;

/** Whether a link has a name that the plugin gives to host ends of pods. */
export function isPodsLink(name: string): boolean {
  return HOST_END.test(name);
}

/**
 * Returns the sorted names of a bridge's ports that do not belong to our pods: they have no name of ours and are in no
 * record. Empty without the bridge.
 */
export function foreignPorts(
  links: readonly PortLink[],
  bridge: string,
  attachments: Iterable<Pick<AttachmentRecord, "hostInterface">>,
): readonly string[] {
  const index = links.find(({ name }) => name === bridge)?.index;
  if (index === undefined) return [];
  const recorded = new Set([...attachments].map(({ hostInterface }) => hostInterface));
  return links
    .filter(({ name, master }) => master === index && !isPodsLink(name) && !recorded.has(name))
    .map(({ name }) => name)
    .toSorted();
}

/** Returns whether a bridge of this network namespace has such ports, with no pod recorded. @throws DrawbridgeError */
export function hasForeignPorts(syscalls: Syscalls, bridge: string): boolean {
  const links = withRouteSocket(syscalls, (socket) => socket.dump(dumpLinks()).map(parseLink));
  return foreignPorts(links, bridge, []).length > 0;
}

/** Number of ports that are listed by name; a node may have hundreds. */
const MOST_NAMED = 3;

/** Describes a bridge's ports in words, such as `2 ports that are not of Drawbridge (veth1, veth2)`. */
export function portWords(ports: readonly string[]): string {
  const named = ports.slice(0, MOST_NAMED).join(", ");
  const rest = ports.length > MOST_NAMED ? " …" : "";
  return `${ports.length} ${ports.length === 1 ? "port that is" : "ports that are"} not of Drawbridge (${named}${rest})`;
}
