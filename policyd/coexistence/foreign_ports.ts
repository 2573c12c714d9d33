import type { AttachmentRecord } from "../../ipam/attachment.ts";
import type { Link } from "../../kernel/route/link.ts";
import { dumpLinks, parseLink } from "../../kernel/route/link.ts";
import { openRouteSocket } from "../../kernel/route/socket.ts";
import type { Syscalls } from "../../kernel/syscall/syscalls.ts";

/** The part of a link that says whether it is a port of a bridge, and whose. */
export type PortLink = Pick<Link, "index" | "name" | "master">;

/** How the plugin names pods' host ends (cni/names.ts). */
const HOST_END = /^dbv[0-9a-f]{12}$/;

/**
 * Returns the names of a bridge's ports that do not belong to pods of ours, sorted: not named as one and not in a record. Empty without the
 * bridge.
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
    .filter(({ name, master }) => master === index && !HOST_END.test(name) && !recorded.has(name))
    .map(({ name }) => name)
    .toSorted();
}

/** Whether a bridge of this thread's network namespace has such ports, where no pod of ours is recorded. @throws DrawbridgeError */
export function hasForeignPorts(syscalls: Syscalls, bridge: string): boolean {
  const socket = openRouteSocket(syscalls);
  try {
    return foreignPorts(socket.dump(dumpLinks()).map(parseLink), bridge, []).length > 0;
  } finally {
    socket.close();
  }
}

/** The most that are named: a node may have hundreds. */
const MOST_NAMED = 3;

/** A bridge's ports in words, such as `2 ports that are not of Drawbridge (veth1, veth2)`. */
export function portWords(ports: readonly string[]): string {
  const named = ports.slice(0, MOST_NAMED).join(", ");
  const rest = ports.length > MOST_NAMED ? " …" : "";
  return `${ports.length} ${ports.length === 1 ? "port that is" : "ports that are"} not of Drawbridge (${named}${rest})`;
}
