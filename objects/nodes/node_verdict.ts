import type { Address } from "../../kernel/ip/address.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import type { Node } from "../model.ts";

/** The part of a Node object that is believed. */
export interface JudgedNode {
  readonly name: string;
  /** The believed InternalIPs, in the Node's order; no two nodes share one. */
  readonly addresses: readonly Address[];
  /** The believed pod CIDRs; those of two nodes do not overlap. */
  readonly podCidrs: readonly Cidr[];
  /** The addresses of any type that it names and that belong to pods of another node, whose pod CIDR they are in. */
  readonly ofOthersPods: readonly Address[];
}

/** Returns a Node as all parts use it: without the addresses of other nodes' pods. */
export function usedNode(node: Node, judged: JudgedNode | undefined): Node {
  const others = judged?.ofOthersPods ?? [];
  if (others.length === 0) return node;
  return { ...node, addresses: node.addresses.filter(({ address }) => !others.includes(address)) };
}

export interface JudgedNodes {
  /** The nodes by name; this node is missing if it has no Node object. */
  readonly nodes: ReadonlyMap<string, JudgedNode>;
  /** The unused parts of Node objects, in words, by their names; for this node also those of its configuration. */
  readonly problemsOf: ReadonlyMap<string, readonly string[]>;
}

export interface JudgeOptions {
  /** This node, whose own addresses and ranges no other node can take. */
  readonly nodeName: string;
  /** This node's pod CIDRs where its Node has none. */
  readonly ownCidrs?: readonly Cidr[];
  /** The ranges of Services; no node and no pod can have an address in them. */
  readonly serviceCidrs?: readonly Cidr[];
  /** Milliseconds by the clock of `notReadySince`; absent where it does not matter for how long a Node has not been Ready. */
  readonly now?: number;
  /** The earlier verdict: what a node had in it stays its own, whichever node claims it since. */
  readonly earlier?: Pick<JudgedNodes, "nodes"> | undefined;
}

/** Returns the problems of all Node objects, ordered by name. */
export function problemsIn({ problemsOf }: Pick<JudgedNodes, "problemsOf">): readonly string[] {
  return [...problemsOf].sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([, problems]) => problems);
}

/** Believed values of each node, by its name. */
export type ByNode<T> = ReadonlyMap<string, readonly T[]>;

/** {@link JudgedNodes.problemsOf} while it is filled. */
export type Problems = Map<string, string[]>;

export function tell(problems: Problems, node: string, problem: string): void {
  const reported = problems.get(node);
  if (reported === undefined) problems.set(node, [problem]);
  else reported.push(problem);
}

/** Milliseconds after which a Node that is not Ready loses its claims to a Ready one. */
export const MOST_NOT_READY = 300_000;

/** Whether a Node has not been Ready for so long that it may have been renamed or installed again. */
export function isLost({ notReadySince }: Pick<Node, "notReadySince">, now = 0): boolean {
  return notReadySince !== undefined && now - notReadySince >= MOST_NOT_READY;
}
