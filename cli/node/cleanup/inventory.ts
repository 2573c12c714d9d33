import type { OwnProgram } from "../../../kernel/bpf/own_program.ts";
import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import type { FoundOriginal } from "../../../attachment/original_settings.ts";
import type { TableOverview } from "../../../kernel/nftables/decode/overview.ts";
import type { ProxyNeighbour } from "../../../kernel/route/neighbour.ts";
import type { Route } from "../../../kernel/route/route.ts";
import type { RoutingRule } from "../../../kernel/route/rule.ts";
import type { NetworkList } from "../../../policyd/installation/list_text.ts";
import type { NodeAddress } from "../doctor/facts.ts";
import type { CheckedLink } from "../../../policyd/problems/check.ts";
import type { NodePlace } from "../place.ts";

/** A file with a name that might be ours. */
export interface FileEntry {
  readonly path: string;
  /** Whether its content says that it is Drawbridge's. */
  readonly isOurs: boolean;
  /** Whether it is our network configuration list and also holds another plugin that works without ours. */
  readonly hasMainPlugin?: boolean;
}

/** A kernel setting that Drawbridge has changed at some time. */
export interface ChangedSetting extends FoundOriginal {
  /** Its current value; undefined where the kernel no longer has the setting. */
  readonly present: string | undefined;
}

/** The part of an inventory that shows which pods exist, and whether policyd runs. */
export type PodsThere = Pick<Inventory, "links" | "records" | "isDaemonRunning">;

/** Everything on a node that might be ours, and how to tell whether it is. */
export interface Inventory {
  readonly place: NodePlace;
  /** Whether policyd answers on its socket. */
  readonly isDaemonRunning: boolean;
  readonly tables: readonly TableOverview[];
  readonly routes: readonly Route[];
  /** Only those of our protocol. */
  readonly rules: readonly RoutingRule[];
  /** Only ours. */
  readonly proxies: readonly ProxyNeighbour[];
  readonly links: readonly CheckedLink[];
  /** Our programs for the frames of bridges, whoever made the bridges. */
  readonly bridgePrograms: readonly { readonly program: OwnProgram; readonly bridge: CheckedLink }[];
  readonly addresses: readonly NodeAddress[];
  readonly records: readonly AttachmentRecord[];
  /** Files with our names in the directories of configurations and plugins. */
  readonly files: readonly FileEntry[];
  /** The lists by which runtimes attach and delete pods. */
  readonly lists: {
    /** Our list; undefined where it is missing or cannot be read. */
    readonly own: NetworkList | undefined;
    /** Whether the list for deleting pods only exists. */
    readonly isDetachThere: boolean;
    /** Names of other configurations, which runtimes use after ours is gone. */
    readonly others: readonly string[];
  };
  /** The kernel settings that we have changed. */
  readonly settings: readonly ChangedSetting[];
  /** The number of tracked connections; undefined without connection tracking. */
  readonly connections: number | undefined;
  /** Names in the state directory; undefined where it is missing. */
  readonly state: readonly string[] | undefined;
  /** Names in the directory of the flow ledger; undefined where it is missing. */
  readonly flows: readonly string[] | undefined;
  /** Existing directories of the address store: the network's, and that of unfinished claims. */
  readonly stores: readonly { readonly path: string; readonly strange: readonly string[] }[];
}
