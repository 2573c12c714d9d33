import type { ForwardDrop } from "../../kernel/nftables/decode/forward_drops.ts";
import type { Trial } from "../../kernel/nftables/table_check.ts";
import type { Link } from "../../kernel/route/link.ts";
import type { LinkKind } from "../../kernel/route/link_kind.ts";
import type { VxlanParameters } from "../../kernel/route/vxlan.ts";
import type { ProblemCode } from "./problem.ts";

/** A fact, or why it could not be read. */
export type Seen<T> =
  | { readonly value: T }
  /** `needsRoot` where root could have read it. */
  | { readonly unseen: string; readonly needsRoot?: boolean };

/** A link with the parameters that checks need. */
export interface CheckedLink extends Link {
  readonly vxlan: VxlanParameters | undefined;
}

/** The facts of a node that the daemon examines by itself, as data; `node doctor` knows more. */
export interface MachineFacts {
  /** Milliseconds since 1970. */
  readonly now: number;
  readonly bootId: Seen<string>;
  readonly release: Seen<string>;
  readonly trials: Seen<readonly Trial[]>;
  readonly linkKinds: Seen<readonly { readonly kind: LinkKind; readonly isKnown: boolean }[]>;
  readonly hasPacketLog: boolean;
  /** Settings by key; those that the kernel does not have are absent. */
  readonly settings: ReadonlyMap<string, string>;
  readonly links: Seen<readonly CheckedLink[]>;
  /** Ports that UDP sockets of the namespace listen on, including those of kernel tunnels. */
  readonly udpPorts: ReadonlySet<number>;
  readonly bridge: string;
  /** Chains that drop all that pods send through the node. */
  readonly forwardDrops: Seen<readonly ForwardDrop[]>;
  /** The places of kube-proxy's rules and links; none where it serves the Services. */
  readonly kubeProxy: Seen<readonly string[]>;
}

/** The most severe first: something does not work, something will stop working, something to know. */
export const SEVERITIES = ["error", "warning", "info"] as const;

export type Severity = (typeof SEVERITIES)[number];

/** The most things that a remark names. */
const NAMED = 3;

/** A result of a check. */
export interface Remark<S extends Severity = Severity> {
  readonly severity: S;
  /** The problem, with names and values. */
  readonly what: string;
  /** The consequence. */
  readonly why: string;
  /** The way out, with the command. */
  readonly way: string;
}

/** A result that is not an error. */
export type Hint = Remark<"warning" | "info">;

/** One check of a node. Only those with a code of a problem can find errors, which the daemon tells as well. */
export type Check<Facts = MachineFacts> = {
  /** The expected state, in one sentence. */
  readonly summary: string;
  /** The facts without which it cannot run. */
  readonly needs: readonly (keyof Facts)[];
} & (
  | {
      /** Stable, since people name it in `--only`. */
      readonly id: ProblemCode;
      readonly examine: (facts: Facts) => readonly Remark[];
    }
  | { readonly id: HarmlessCheck; readonly examine: (facts: Facts) => readonly Hint[] }
);

/** The checks that find no errors. */
export type HarmlessCheck =
  | "bridge-netfilter"
  | "checksum-filter"
  | "direct-routes"
  | "fragments"
  | "localhost"
  | "marks"
  | "mtu"
  | "priorities";

/** Returns the value of a fact; undefined only for one that the check does not name in `needs`. */
export function seen<T>(fact: Seen<T>): T | undefined {
  return "value" in fact ? fact.value : undefined;
}

/** Returns the first texts, joined by semicolons, and the number of the others. */
export function listed(texts: readonly string[]): string {
  const rest = texts.length - NAMED;
  return [...texts.slice(0, NAMED), ...(rest > 0 ? [`and ${rest} more`] : [])].join("; ");
}
