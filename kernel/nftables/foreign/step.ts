import type { Verdict } from "../model/statement.ts";
import type { ExtensionTest } from "./extension.ts";

/** A part of a packet, or something known about it, that a rule loads into registers. */
export type ForeignField =
  | { readonly kind: "payload"; readonly base: number; readonly offset: number; readonly length: number }
  /** NFT_META_*. */
  | { readonly kind: "meta"; readonly key: number }
  /** NFT_CT_*. */
  | { readonly kind: "ct"; readonly key: number; readonly direction: number | undefined }
  /** NFT_FIB_RESULT_* and NFTA_FIB_F_*. */
  | { readonly kind: "fib"; readonly result: number; readonly flags: number }
  /** Whether a packet has an IPv6 extension header. */
  | { readonly kind: "extension header"; readonly isPresence: boolean }
  /** Any other value that an expression of this name loads. */
  | { readonly kind: "other"; readonly name: string };

/** The ends of a rule: the verdicts of nftables and others. */
export type ForeignEnd =
  | Verdict
  | { readonly kind: "reject" }
  /** The packet's address is translated, which ends the chain. */
  | { readonly kind: "translate" }
  /** Another program, or a part of the kernel that is not evaluated here, decides. */
  | { readonly kind: "hand over"; readonly to: string };

/** One step of a rule, in the kernel's order. Positions are bytes of the sixteen registers. */
export type Step =
  | { readonly kind: "load"; readonly target: number; readonly field: ForeignField }
  | { readonly kind: "value"; readonly target: number; readonly value: Uint8Array }
  | {
      readonly kind: "bitwise";
      readonly source: number;
      readonly target: number;
      readonly length: number;
      readonly mask: Uint8Array;
      readonly xor: Uint8Array;
    }
  | {
      readonly kind: "swap";
      readonly source: number;
      readonly target: number;
      readonly length: number;
      readonly size: number;
    }
  /** A number that cannot be computed, such as the result of a shift. */
  | { readonly kind: "unknown value"; readonly target: number; readonly length: number; readonly name: string }
  | { readonly kind: "compare"; readonly source: number; readonly operator: number; readonly value: Uint8Array }
  | {
      readonly kind: "range";
      readonly source: number;
      readonly isNegated: boolean;
      readonly first: Uint8Array;
      readonly last: Uint8Array;
    }
  | {
      readonly kind: "lookup";
      readonly set: string;
      readonly source: number;
      /** The position for a map's data; "verdict" for a verdict map. */
      readonly target: number | "verdict" | undefined;
      readonly isNegated: boolean;
    }
  | { readonly kind: "test"; readonly test: ExtensionTest }
  /** An unknown condition, such as a rate or a quota, that may end the rule here. */
  | { readonly kind: "doubt"; readonly name: string }
  | { readonly kind: "write"; readonly what: "mark" | "connection mark"; readonly source: number }
  | { readonly kind: "change mark"; readonly mask: number; readonly xor: number }
  | { readonly kind: "untrack" }
  /** A mark is set to an unknown value. */
  | { readonly kind: "blur"; readonly what: "mark" | "connection mark" }
  | { readonly kind: "end"; readonly end: ForeignEnd };
