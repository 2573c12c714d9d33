import type { OwnProgram } from "../../../kernel/bpf/own_program.ts";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { formatCidr } from "../../../kernel/ip/cidr.ts";
import type { TableReference } from "../../../kernel/nftables/model/object.ts";
import type { ProxyNeighbour } from "../../../kernel/route/neighbour.ts";
import type { Route } from "../../../kernel/route/route.ts";
import type { RoutingRule } from "../../../kernel/route/rule.ts";

/** One thing to remove or to restore. */
export type Removal =
  | { readonly kind: "file"; readonly path: string }
  /** Our plugins in a network configuration list. */
  | { readonly kind: "entry"; readonly path: string }
  /** Our network configuration list, which another one replaces. */
  | { readonly kind: "list"; readonly path: string; readonly replacement: string; readonly text: string }
  | { readonly kind: "table"; readonly table: TableReference; readonly isOwned: boolean }
  | { readonly kind: "route"; readonly route: Route }
  | { readonly kind: "rule"; readonly rule: RoutingRule }
  /** The node's answers on a link, for an address of a pod. */
  | { readonly kind: "proxy"; readonly proxy: ProxyNeighbour; readonly link: string }
  | { readonly kind: "link"; readonly name: string }
  /** A pod's connection by its link, which is taken down and disappears with the pod. */
  | { readonly kind: "connection"; readonly name: string }
  /** A program of ours for the frames of a bridge, whoever made the bridge. */
  | { readonly kind: "program"; readonly program: OwnProgram; readonly bridge: string; readonly index: number }
  /** A kernel setting of ours, which gets its earlier value back. `record` is the file with that value. */
  | { readonly kind: "setting"; readonly key: string; readonly value: string; readonly record: string }
  /** A directory with everything in it. */
  | { readonly kind: "directory"; readonly path: string };

/** Something that stays, and why. */
export interface Kept {
  readonly what: string;
  readonly why: string;
}

/** A part of a cleanup, as data. */
export interface Plan {
  /** In the order in which they are carried out. */
  readonly removals: readonly Removal[];
  readonly kept: readonly Kept[];
}

/** Returns the words for what a removal removes. */
export function removalText(removal: Removal): string {
  switch (removal.kind) {
    case "file":
    case "directory":
      return removal.path;
    case "entry":
      return `our plugins in ${removal.path}`;
    case "list":
      return `${removal.path}, with ${removal.replacement} in its place`;
    case "table":
      return `${removal.table.family} ${removal.table.name}`;
    case "route": {
      const { destination, family, table, gateway } = removal.route;
      const to = destination === undefined ? `default (IPv${family})` : formatCidr(destination);
      return `${to}${gateway === undefined ? "" : ` via ${formatAddress(gateway)}`} table ${table}`;
    }
    case "rule":
      return `${removal.rule.priority}: IPv${removal.rule.family} iif ${removal.rule.inputInterface} lookup ${removal.rule.table}`;
    case "proxy":
      return `${formatAddress(removal.proxy.address)} on ${removal.link}`;
    case "link":
      return removal.name;
    case "connection":
      return `by ${removal.name}`;
    case "program":
      return `${removal.program.name} of ${removal.bridge}`;
    case "setting":
      return `${dotted(removal.key)}, back to ${removal.value}`;
  }
}

/** Returns a setting's name as sysctl(8) takes it: with dots, but with slashes where a link's name has dots. */
export function dotted(key: string): string {
  return key.includes(".") ? key : key.replaceAll("/", ".");
}
