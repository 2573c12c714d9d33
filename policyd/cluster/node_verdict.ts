import type { Address } from "../../kernel/ip/address.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";

/** What of a Node object is believed. */
export interface JudgedNode {
  readonly name: string;
  /** Its InternalIPs, in its order; no two nodes have one. */
  readonly addresses: readonly Address[];
  /** No two nodes' overlap. */
  readonly podCidrs: readonly Cidr[];
}

export interface JudgedNodes {
  /** By name; where this node has no Node object, it is not among them. */
  readonly nodes: ReadonlyMap<string, JudgedNode>;
  /** What of the Node objects is not used, in words, by their names; of this node also what of its configuration is not. */
  readonly problemsOf: ReadonlyMap<string, readonly string[]>;
}

export interface JudgeOptions {
  /** This node: what is its own nobody takes away. */
  readonly nodeName: string;
  /** This node's pod CIDRs where its Node has none. */
  readonly ownCidrs?: readonly Cidr[];
  /** Where Services have their addresses: no node and no pod has one of these. */
  readonly serviceCidrs?: readonly Cidr[];
  /** An earlier verdict: what a node had in it stays its own, whoever claims it since. */
  readonly earlier?: Pick<JudgedNodes, "nodes"> | undefined;
}

/** What of the Node objects is not used, of one after the other. */
export function problemsIn({ problemsOf }: Pick<JudgedNodes, "problemsOf">): readonly string[] {
  return [...problemsOf].sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([, problems]) => problems);
}

/** What is believed of each node, by its name. */
export type ByNode<T> = ReadonlyMap<string, readonly T[]>;

/** {@link JudgedNodes.problemsOf} as it is written. */
export type Problems = Map<string, string[]>;

export function tell(problems: Problems, node: string, problem: string): void {
  const told = problems.get(node);
  if (told === undefined) problems.set(node, [problem]);
  else told.push(problem);
}
