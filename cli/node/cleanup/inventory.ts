import type { AttachmentRecord } from "../../../ipam/attachment.ts";
import type { TableOverview } from "../../../kernel/nftables/overview.ts";
import type { Route } from "../../../kernel/route/route.ts";
import type { RoutingRule } from "../../../kernel/route/rule.ts";
import type { NodeAddress, NodeLink } from "../doctor/facts.ts";
import type { NodePlace } from "../place.ts";

/** A name in a directory that might be ours. */
export interface FileEntry {
  readonly path: string;
  readonly isDirectory: boolean;
  /** Whether its content says that it is Drawbridge's. */
  readonly isOurs: boolean;
  /** Whether it is our network configuration list, with a plugin of others in it that works without ours. */
  readonly hasMainPlugin?: boolean;
}

/** What of a node might be ours, and what tells whether it is. */
export interface Inventory {
  readonly place: NodePlace;
  /** Whether policyd answers on its socket. */
  readonly isDaemonRunning: boolean;
  readonly tables: readonly TableOverview[];
  readonly routes: readonly Route[];
  /** Of our protocol. */
  readonly rules: readonly RoutingRule[];
  readonly links: readonly NodeLink[];
  /** The bridges whose packets a table of ports takes around them. */
  readonly bypassedBridges: readonly NodeLink[];
  readonly addresses: readonly NodeAddress[];
  readonly records: readonly AttachmentRecord[];
  /** Of the names that ours have, in the directories of configurations and plugins. */
  readonly files: readonly FileEntry[];
  /** Names in the state directory; undefined where it is missing. */
  readonly state: readonly string[] | undefined;
  /** The plugin server's directory; undefined where it is missing. */
  readonly server: { readonly names: readonly string[]; readonly isRunning: boolean } | undefined;
  /** Directories of the address store that are there: the network's, and that of unfinished claims. */
  readonly stores: readonly { readonly path: string; readonly strange: readonly string[] }[];
}
