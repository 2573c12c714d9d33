import { PORT_PROGRAM } from "../../../kernel/bpf/port_table.ts";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { formatCidr } from "../../../kernel/ip/cidr.ts";
import type { TableReference } from "../../../kernel/nftables/object.ts";
import type { Route } from "../../../kernel/route/route.ts";
import type { RoutingRule } from "../../../kernel/route/rule.ts";

/** One thing to remove, or to give back. */
export type Removal =
  | { readonly kind: "file"; readonly path: string }
  /** Our part of a network configuration list. */
  | { readonly kind: "entry"; readonly path: string }
  /** Our network configuration list, in whose place another one comes. */
  | { readonly kind: "list"; readonly path: string; readonly replacement: string; readonly text: string }
  | { readonly kind: "table"; readonly table: TableReference; readonly isOwned: boolean }
  | { readonly kind: "route"; readonly route: Route }
  | { readonly kind: "rule"; readonly rule: RoutingRule }
  | { readonly kind: "link"; readonly name: string; readonly index: number }
  /** The connection of a pod by its link, which is taken down and goes with the pod. */
  | { readonly kind: "connection"; readonly name: string; readonly index: number }
  /** The program that takes the packets of a bridge around it, whoever made the bridge. */
  | { readonly kind: "program"; readonly bridge: string; readonly index: number }
  /** A kernel setting of ours: it gets the value that it had before. `record` says what that was. */
  | { readonly kind: "setting"; readonly key: string; readonly value: string; readonly record: string }
  /** With all that is in it. */
  | { readonly kind: "directory"; readonly path: string };

/** Something that stays, and why. */
export interface Kept {
  readonly what: string;
  readonly why: string;
}

/** A part of a cleanup, as a value. */
export interface Plan {
  /** In the order they are carried out. */
  readonly removals: readonly Removal[];
  readonly kept: readonly Kept[];
}

/** Names the thing that a removal removes, in words. */
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
    case "link":
      return removal.name;
    case "connection":
      return `by ${removal.name}`;
    case "program":
      return `${PORT_PROGRAM} of ${removal.bridge}`;
    case "setting":
      return `${dotted(removal.key)}, back to ${removal.value}`;
  }
}

/** A setting's name as sysctl(8) takes it: with dots, and with slashes where a link's name has dots. */
export function dotted(key: string): string {
  return key.includes(".") ? key : key.replaceAll("/", ".");
}
