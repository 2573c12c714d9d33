import type { DataTypeName, Scalar } from "./data_type.ts";
import type { KeyField, NumberGenerator } from "./expression.ts";
import type { Rule, Verdict } from "./statement.ts";

/** The address family of a table, which decides the packets that its chains see. `inet` is IPv4 and IPv6. */
export type TableFamily = "inet" | "bridge";

/** The name of a table. */
export interface TableReference {
  readonly family: TableFamily;
  readonly name: string;
}

/**
 * A table with its whole content: the desired state in the kernel.
 *
 * `isOwned` sets the flags owner and persist (kernel >= 6.9): nobody else can change it, and it outlives the process.
 * With "until closed" the kernel deletes it when the socket that made it is closed, also by a kill.
 */
export interface Table extends TableReference {
  readonly comment?: string;
  readonly isOwned?: boolean | "until closed";
  readonly sets: readonly SetDefinition[];
  readonly chains: readonly Chain[];
}

/** The hook of a base chain. Each hook has the types that the kernel supports for it (nft(8), CHAINS). */
export interface BaseChain {
  readonly type: "filter" | "nat";
  readonly hook: "prerouting" | "input" | "forward" | "output" | "postrouting";
  readonly priority: number;
  readonly policy: "accept" | "drop";
}

/** Rules in order. A chain without a base is reached only by a jump or a goto. */
export interface Chain {
  readonly name: string;
  readonly base?: BaseChain;
  readonly rules: readonly Rule[];
}

/** The type of a key's field: a data type, or a number below a modulus as numgen and jhash make it. */
export type KeyPart = FieldType | NumberGenerator;

/** A type that nft can name. It has no name for the type of a plain number. */
export type FieldType = Exclude<DataTypeName, "integer" | "byte" | "short" | "boolean">;

/** A set or, with `data`, a map. */
export interface SetDefinition {
  readonly name: string;
  readonly key: readonly KeyPart[];
  /** The types of a map's data; "verdict" for a verdict map. */
  readonly data?: readonly FieldType[] | "verdict";
  /** Whether elements may be ranges. */
  readonly isInterval?: boolean;
  /** Whether rules add elements. */
  readonly isDynamic?: boolean;
  /** Elements may have a timeout. A number is their default timeout in milliseconds. */
  readonly timeout?: number | "per element";
  /** The interval between two removals of expired elements, which take room until then, in ms; a second when absent. */
  readonly collectionInterval?: number;
  /** The largest number of elements. */
  readonly size?: number;
  /** Whether each element counts the packets that match it. */
  readonly hasCounters?: boolean;
}

/** One element of a set or, with `data`, of a map. */
export interface Element {
  /** Empty for the catch-all, which matches whatever no other element matches. */
  readonly key: readonly KeyField[];
  readonly data?: readonly Scalar[] | Verdict;
  /** In milliseconds. */
  readonly timeout?: number;
  /** The part of the timeout that was left when the kernel was asked, in milliseconds; it is never written. */
  readonly expiration?: number;
  readonly comment?: string;
}
