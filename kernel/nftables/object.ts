import type { DataTypeName, Scalar } from "./data_type.ts";
import type { KeyField, NumberGenerator } from "./expression.ts";
import type { Rule, Verdict } from "./statement.ts";

/** The address family of a table: which packets its chains see. `inet` is IPv4 and IPv6. */
export type TableFamily = "inet" | "ip" | "ip6" | "bridge";

/** Names a table. */
export interface TableReference {
  readonly family: TableFamily;
  readonly name: string;
}

/**
 * A table with all it holds, as a value: what the kernel should have.
 *
 * `isOwned` sets the flags owner and persist (kernel >= 6.9): nobody else can change it, and it outlives the process.
 */
export interface Table extends TableReference {
  readonly comment?: string;
  readonly isOwned?: boolean;
  readonly sets: readonly SetDefinition[];
  readonly chains: readonly Chain[];
}

/** Where a base chain hooks in; each hook with the types the kernel has for it (nft(8), CHAINS). */
export interface BaseChain {
  readonly type: "filter" | "nat" | "route";
  readonly hook: "prerouting" | "input" | "forward" | "output" | "postrouting";
  readonly priority: number;
  readonly policy: "accept" | "drop";
}

/** Rules in order. Without a base it is only reached by a jump or a goto. */
export interface Chain {
  readonly name: string;
  readonly base?: BaseChain;
  readonly comment?: string;
  readonly rules: readonly Rule[];
}

/** What a field of a key is: a data type, or a number below a modulus, as numgen and jhash make it. */
export type KeyPart = FieldType | NumberGenerator;

/** A type that nft can name: it has no name for that of a bare number. */
export type FieldType = Exclude<DataTypeName, "integer" | "byte" | "short" | "boolean">;

/** A set, or with `data` a map. */
export interface SetDefinition {
  readonly name: string;
  readonly key: readonly KeyPart[];
  /** What a map's elements hold; "verdict" for a verdict map. */
  readonly data?: readonly FieldType[] | "verdict";
  /** Elements may be ranges. */
  readonly isInterval?: boolean;
  /** Rules add elements. */
  readonly isDynamic?: boolean;
  /** Elements may have a timeout; milliseconds of the one they have by default. */
  readonly timeout?: number | "per element";
  /** Milliseconds between two looks for elements whose time is over, which until then take room; a second when absent. */
  readonly collectionInterval?: number;
  /** The most elements it holds. */
  readonly size?: number;
  /** Each element counts the packets that met it. */
  readonly hasCounters?: boolean;
  readonly comment?: string;
}

/** One element of a set, or with `data` of a map. */
export interface Element {
  /** Empty for the catch-all, which is met by what no other element has. */
  readonly key: readonly KeyField[];
  readonly data?: readonly Scalar[] | Verdict;
  /** Milliseconds. */
  readonly timeout?: number;
  readonly comment?: string;
}
