import type { AttachmentRecord } from "../../../ipam/attachment.ts";
import type { FoundOriginal } from "../../../ipam/original_settings.ts";
import type { TableOverview } from "../../../kernel/nftables/overview.ts";
import type { Route } from "../../../kernel/route/route.ts";
import type { RoutingRule } from "../../../kernel/route/rule.ts";
import type { NetworkList } from "../../../policyd/installation/list_text.ts";
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

/** A kernel setting that Drawbridge has changed at some time. */
export interface ChangedSetting extends FoundOriginal {
  /** The value that it has now; undefined where the kernel has no such setting any more. */
  readonly present: string | undefined;
}

/** The part of an inventory that says which pods are there, and whether they are ours to wait for. */
export type PodsThere = Pick<Inventory, "links" | "records" | "isDaemonRunning">;

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
  /** The lists by which runtimes attach and delete pods. */
  readonly lists: {
    /** Ours as it is; undefined where it is missing or cannot be read. */
    readonly own: NetworkList | undefined;
    /** Whether the one by which pods can only be deleted is there. */
    readonly isDetachThere: boolean;
    /** Names of configurations of others, which runtimes use when ours is gone. */
    readonly others: readonly string[];
  };
  /** The kernel settings that we have changed. */
  readonly settings: readonly ChangedSetting[];
  /** The number of connections that are tracked; undefined without connection tracking. */
  readonly connections: number | undefined;
  /** Names in the state directory; undefined where it is missing. */
  readonly state: readonly string[] | undefined;
  /** The plugin server's directory; undefined where it is missing. */
  readonly server: { readonly names: readonly string[]; readonly isRunning: boolean } | undefined;
  /** Names in the directory of the flow ledger; undefined where it is missing. */
  readonly flows: readonly string[] | undefined;
  /** Directories of the address store that are there: the network's, and that of unfinished claims. */
  readonly stores: readonly { readonly path: string; readonly strange: readonly string[] }[];
}
