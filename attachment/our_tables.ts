import type { TableReference } from "../kernel/nftables/model/object.ts";

/** The prefix of the comment of each table of the daemon. The kernel lets nobody change a comment of a table. */
export const DAEMON_MARK = "drawbridge schema ";

/** Returns the comment of a table of the daemon. @param version where its version is found */
export function ownComment(version: string): string {
  return `${DAEMON_MARK}${version}`;
}

/** Returns whether a comment is of a table that some version of the daemon made. */
export function isOfDaemon(comment: string | undefined): boolean {
  return comment?.startsWith(DAEMON_MARK) === true;
}

/** The prefix of the comment of each table that the plugin makes on a node without the daemon. */
export const PLUGIN_MARK = "drawbridge-cni version ";

/** The daemon's table that sees the frames of the node's bridge. */
export const BRIDGE_TABLE: TableReference = Object.freeze({ family: "bridge", name: "drawbridge" });

/** The daemon's table that sees the node's IPv4 and IPv6 packets. */
export const INET_TABLE: TableReference = Object.freeze({ family: "inet", name: "drawbridge" });

/** The daemon's table of policies. */
export const POLICY_TABLE: TableReference = Object.freeze({ family: "inet", name: "drawbridge-policy" });

/** The plugin's table of host ports and masquerade, on a node without the daemon. */
export const PLUGIN_TABLE: TableReference = Object.freeze({ family: "inet", name: "drawbridge-cni" });

/** The plugin's table of the bridge's frames, on a node without the daemon. */
export const PLUGIN_BRIDGE_TABLE: TableReference = Object.freeze({ family: "bridge", name: "drawbridge-cni" });
