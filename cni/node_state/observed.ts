import type { DrawbridgeError } from "../../kernel/error.ts";
import type { Address } from "../../kernel/ip/address.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import type { MacAddress } from "../../kernel/ip/mac.ts";
import type { Link } from "../../kernel/route/link.ts";
import type { DesiredBridge, DesiredPort } from "./desired.ts";

/** Where the node sends a packet for an address: by a link, nowhere since a route discards it, or nowhere for lack of one. */
export type Way = { readonly link: number } | { readonly error: string };

/** The filters of a port that lead around the bridge ({@link ../bridge_bypass.ts}). */
export interface ObservedFilters {
  /** Whether there is a place for classifiers. */
  readonly hasPlace: boolean;
  /** The links to which our own filters lead; 0 for one that is gone. */
  readonly targets: readonly number[];
  /** Whether another program has filters there. */
  readonly hasOthers: boolean;
}

export interface ObservedPort {
  /** undefined where the node has no link of its name. */
  readonly link: Link | undefined;
  /** The port by which the bridge sends to the pod; undefined where it does not know, "unknown" where nobody has looked. */
  readonly entry: number | undefined | "unknown";
  /** undefined where nobody has looked. */
  readonly filters: ObservedFilters | undefined;
}

/** The kernel's state of a bridge with pods. */
export interface ObservedBridge {
  readonly link: Link | undefined;
  readonly addresses: readonly Cidr[];
  /** By their keys; a setting that the kernel does not have is not in it. */
  readonly settings: ReadonlyMap<string, string>;
  /** Of those ports that were looked at. */
  readonly ports: ReadonlyMap<string, ObservedPort>;
  /** Of those addresses that were looked up. */
  readonly ways: ReadonlyMap<Address, Way>;
  /** The permanent neighbours of the addresses of those ports. */
  readonly neighbours: ReadonlyMap<Address, MacAddress>;
}

/** The things that are looked at beside the bridge itself: all of its ports, or some. */
export interface Scope {
  readonly ports: "all" | ReadonlySet<string>;
  /** Pods' addresses to look up beside those of these ports; "all" for those of every port. */
  readonly ways: "all" | ReadonlySet<Address>;
  /** Whether ports' filters are looked at, which is one question for each port. */
  readonly hasFilters: boolean;
}

/** Everything: at a start, and where notifications were lost. */
export const EVERYTHING: Scope = { ports: "all", ways: "all", hasFilters: true };

/** The subject of a step: the label of the metric, and what a report calls it. */
export type Part = "bridge" | "setting" | "address" | "route" | "port" | "neighbour" | "bypass";

/** One change of the kernel. */
export type Step = { readonly part: Part } & (
  | { readonly type: "create-bridge"; readonly name: string; readonly mac: MacAddress }
  | {
      readonly type: "change-bridge";
      readonly index: number;
      readonly to: { readonly mac?: MacAddress; readonly mtu?: number; readonly up?: true; readonly stp?: false };
    }
  | { readonly type: "write-setting"; readonly key: string; readonly value: string }
  | { readonly type: "add-address"; readonly index: number; readonly address: Cidr }
  | { readonly type: "add-subnet-route"; readonly index: number; readonly address: Cidr }
  | { readonly type: "add-host-route"; readonly index: number; readonly destination: Cidr }
  | { readonly type: "change-port"; readonly index: number; readonly bridge: number; readonly port: DesiredPort }
  | { readonly type: "remove-filters"; readonly index: number; readonly port: DesiredPort }
  | {
      readonly type: "lead-around";
      readonly index: number;
      readonly bridge: number;
      readonly port: DesiredPort;
      readonly hasFilters: boolean;
    }
  | { readonly type: "set-neighbour"; readonly index: number; readonly address: Address; readonly mac: MacAddress }
);

/** The kernel, as the node's state needs it. */
export interface NodeStateKernel {
  /**
   * The state of a bridge.
   *
   * @throws DrawbridgeError when the kernel does not answer
   */
  observe(desired: DesiredBridge, scope: Scope): ObservedBridge;
  /**
   * Carries out steps in order, each of them whatever became of those before.
   *
   * @returns what was refused
   * @throws DrawbridgeError when the kernel does not answer
   */
  apply(steps: readonly Step[]): readonly DrawbridgeError[];
}
