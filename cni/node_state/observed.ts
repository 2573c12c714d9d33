import type { DrawbridgeError } from "../../kernel/error.ts";
import type { Address } from "../../kernel/ip/address.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import type { MacAddress } from "../../kernel/ip/mac.ts";
import type { Link } from "../../kernel/route/link.ts";
import type { DesiredBridge, DesiredPort } from "./desired.ts";

/** The way of the node's packets for an address: a link, or an error, since a route discards them or none exists. */
export type Way = { readonly link: number } | { readonly error: string };

/** The filters of a port that lead around the bridge (cni/wiring/bypass.ts). */
export interface ObservedFilters {
  /** The links to which our filters lead; 0 for a removed one. */
  readonly targets: readonly number[];
  /** Whether there are filters of another program, or the one that leads to the delay device. */
  readonly hasOthers: boolean;
}

export interface ObservedPort {
  /** undefined if the node has no link of its name. */
  readonly link: Link | undefined;
  /** The port by which the bridge sends to the pod; undefined if the bridge knows none. */
  readonly entry: number | undefined;
  /** undefined if they were not read. */
  readonly filters: ObservedFilters | undefined;
  /** The device that delays what the pod sends; undefined if there is none. */
  readonly delay: Pick<Link, "index" | "up"> | undefined;
}

/** The kernel's state of a bridge with pods. */
export interface ObservedBridge {
  readonly link: Link | undefined;
  readonly addresses: readonly Cidr[];
  /** The settings by their keys, without those that the kernel does not have. */
  readonly settings: ReadonlyMap<string, string>;
  /** The ports in the scope. */
  readonly ports: ReadonlyMap<string, ObservedPort>;
  /** The ways of the addresses in the scope. */
  readonly ways: ReadonlyMap<Address, Way>;
  /** The permanent neighbours among the addresses of those ports. */
  readonly neighbours: ReadonlyMap<Address, MacAddress>;
}

/** The parts that are read besides the bridge itself: all of its ports, or some. */
export interface Scope {
  readonly ports: "all" | ReadonlySet<string>;
  /** Pods' addresses to look up besides those of these ports; "all" for those of every port. */
  readonly ways: "all" | ReadonlySet<Address>;
  /** Whether ports' filters are read, which is one request for each port. */
  readonly hasFilters: boolean;
}

/** The whole state, for a start and after lost notifications. */
export const EVERYTHING: Scope = { ports: "all", ways: "all", hasFilters: true };

/** The subject of a step: the label of the metric, and the word in a report. */
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
  | {
      readonly type: "delay-sending";
      readonly index: number;
      /** The delay device; undefined if the node has none. */
      readonly device: number | undefined;
      readonly hasFilter: boolean;
      readonly port: DesiredPort;
    }
  | { readonly type: "set-neighbour"; readonly index: number; readonly address: Address; readonly mac: MacAddress }
);

/** The kernel operations for the node's state. */
export interface NodeStateKernel {
  /** Reads the state of a bridge. @throws DrawbridgeError when the kernel does not answer */
  observe(desired: DesiredBridge, scope: Scope): ObservedBridge;
  /**
   * Carries out steps in order, each regardless of the outcome of those before.
   *
   * @returns the refusals
   * @throws DrawbridgeError when the kernel does not answer
   */
  apply(steps: readonly Step[]): readonly DrawbridgeError[];
}
