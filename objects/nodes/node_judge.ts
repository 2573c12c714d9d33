import { formatAddress } from "../../kernel/ip/address.ts";
import { type Cidr, formatCidr, hostCidr } from "../../kernel/ip/cidr.ts";
import type { Node, ObjectChange, ServiceCidr } from "../model.ts";
import { NodeClaimIndex } from "./claim_index.ts";
import { judgeNodes, usableRanges } from "./judged_nodes.ts";
import { internalAddresses, isSameCidr, unfitForPods, usableOf } from "./node_claims.ts";
import type { JudgedNode, JudgedNodes, JudgeOptions } from "./node_verdict.ts";

/** Returns the names of the nodes whose verdict has changed since the last call; the first call returns all names. */
export type VerdictReader = () => ReadonlySet<string>;

/** If more nodes than this depend on each other, all nodes are judged: finding out which ones costs as much. */
const MOST_TOGETHER = 256;

/**
 * Keeps the verdict on all Nodes. It is computed when it is read and something relevant has changed since.
 *
 * Only changed nodes, and those whose claims overlap or overlapped theirs, are judged again. The result is the same as
 * that of judgeNodes for all nodes. One judge serves the whole daemon: each part passes its object changes on to it.
 */
export class NodeJudge {
  readonly #options: Omit<JudgeOptions, "earlier">;
  readonly #objects = new Map<string, Node>();
  readonly #serviceCidrObjects = new Map<string, ServiceCidr>();
  #serviceCidrs: readonly Cidr[];
  readonly #claims = new NodeClaimIndex();
  readonly #nodes = new Map<string, JudgedNode>();
  readonly #problemsOf = new Map<string, readonly string[]>();
  /** The nodes whose verdict may change, because their objects or the last verdict on them changed. */
  #concerned: ReadonlySet<string> = new Set();
  readonly #unread: Set<string>[] = [];
  /** The text of the Services' ranges at the last verdict. */
  #ranges = "";
  #isWhole = true;
  #isCurrent = false;
  #isSettled = false;

  /** @param options has the ranges of Services that do not come from ServiceCIDR objects */
  constructor(options: Omit<JudgeOptions, "earlier">) {
    this.#options = options;
    this.#serviceCidrs = this.#allServiceCidrs();
    this.#setClaims(options.nodeName);
  }

  /** Applies changes. Several parts of the daemon pass on the same change, and a repeated one has no effect. */
  apply(changes: readonly ObjectChange[]): void {
    const names: string[] = [];
    for (const change of changes) {
      const { kind, key } = change;
      const object = change.type === "set" ? change.object : undefined;
      if (kind === "ServiceCIDR") this.#setRanges(key, object?.kind === "ServiceCIDR" ? object : undefined);
      if (kind === "Node" && this.#setNode(key, object?.kind === "Node" ? object : undefined)) names.push(key);
    }
    if (names.length === 0) return;
    this.#isCurrent = false;
    const concerned = new Set([...this.#concerned, ...names]);
    if (concerned.size > MOST_TOGETHER) this.#isWhole = true;
    // These nodes overlap the earlier claims; those that overlap the new ones are found when the verdict is computed.
    const touching = this.#isWhole ? [] : names.flatMap((name) => [...this.#claims.touching(name)]);
    this.#concerned = new Set([...concerned, ...touching]);
    for (const name of names) this.#setClaims(name);
  }

  /**
   * Notes that all objects have been read. From now on earlier claims win against new ones; before, the order of
   * reading would decide.
   */
  synced(): void {
    if (this.#isSettled) return;
    this.#judge();
    this.#isSettled = true;
    this.#isWhole = true;
    this.#isCurrent = false;
  }

  /** The ranges of Services, each once. The list is the same object until a change of a ServiceCIDR. */
  get serviceCidrs(): readonly Cidr[] {
    return this.#serviceCidrs;
  }

  /** The current verdict. Its maps are the judge's own and change with later verdicts. */
  get judged(): JudgedNodes {
    this.#judge();
    return { nodes: this.#nodes, problemsOf: this.#problemsOf };
  }

  /** Returns a reader of changes, for a part that keeps state derived from the verdict. */
  reader(): VerdictReader {
    const unread = new Set(this.#nodes.keys());
    this.#unread.push(unread);
    return () => {
      this.#judge();
      const names = new Set(unread);
      unread.clear();
      return names;
    };
  }

  /** @returns whether something relevant has changed */
  #setNode(name: string, node: Node | undefined): boolean {
    const before = this.#objects.get(name);
    if (node === undefined) this.#objects.delete(name);
    else this.#objects.set(name, node);
    return before !== node && textOf(before) !== textOf(node);
  }

  #setRanges(key: string, object: ServiceCidr | undefined): void {
    if (this.#serviceCidrObjects.get(key) === object) return;
    if (object === undefined) this.#serviceCidrObjects.delete(key);
    else this.#serviceCidrObjects.set(key, object);
    this.#serviceCidrs = this.#allServiceCidrs();
    this.#isCurrent = false;
  }

  #allServiceCidrs(): readonly Cidr[] {
    const ranges = [
      ...(this.#options.serviceCidrs ?? []),
      ...[...this.#serviceCidrObjects.values()].flatMap(({ cidrs }) => cidrs),
    ];
    return [...new Map(ranges.map((cidr) => [formatCidr(cidr), cidr])).values()];
  }

  /** Sets a node's claims, without those that no node can have: they affect no other node. */
  #setClaims(name: string): void {
    const node = this.#objects.get(name);
    const { nodeName, ownCidrs = [] } = this.#options;
    const podCidrs = name === nodeName && !node?.podCidrs.length ? ownCidrs : (node?.podCidrs ?? []);
    const fit = podCidrs.filter((cidr) => unfitForPods(cidr) === undefined);
    this.#claims.set(name, [...fit, ...usableOf(node).map((address) => hostCidr(address))]);
  }

  #judge(): void {
    if (this.#isCurrent) return;
    this.#isCurrent = true;
    const { nodeName, ownCidrs = [] } = this.#options;
    const serviceCidrs = usableRanges(this.serviceCidrs, this.#objects.get(nodeName));
    const ranges = serviceCidrs.map(formatCidr).join();
    if (ranges !== this.#ranges) this.#isWhole = true;
    this.#ranges = ranges;
    const together = this.#isWhole ? undefined : this.#claims.together(this.#concerned, MOST_TOGETHER);
    const names = together ?? new Set([...this.#nodes.keys(), ...this.#objects.keys(), nodeName]);
    const verdict = judgeNodes(
      [...names].flatMap((name) => this.#objects.get(name) ?? []),
      {
        nodeName,
        ownCidrs: names.has(nodeName) ? ownCidrs : [],
        serviceCidrs,
        earlier: this.#isSettled ? { nodes: this.#nodes } : undefined,
      },
    );
    this.#isWhole = false;
    this.#take(names, verdict);
  }

  #take(names: ReadonlySet<string>, verdict: JudgedNodes): void {
    const changed = new Set<string>();
    for (const name of names) {
      const judged = verdict.nodes.get(name);
      if (!isSame(this.#nodes.get(name), judged)) {
        if (judged === undefined) this.#nodes.delete(name);
        else this.#nodes.set(name, judged);
        changed.add(name);
      }
      const problems = verdict.problemsOf.get(name);
      if (problems?.join() !== this.#problemsOf.get(name)?.join()) changed.add(name);
      if (problems === undefined) this.#problemsOf.delete(name);
      else this.#problemsOf.set(name, problems);
    }
    for (const unread of this.#unread) for (const name of changed) unread.add(name);
    // Before all objects have been read, a verdict does not depend on the one before.
    this.#concerned = this.#isSettled ? changed : new Set();
  }
}

/** Returns the relevant part of a Node as a text, to compare: other fields change every few seconds. */
function textOf(node: Node | undefined): string {
  if (node === undefined) return "";
  const addresses = internalAddresses(node).map(formatAddress);
  return [node.name, ...node.podCidrs.map(formatCidr), ...addresses].join();
}

function isSame(a: JudgedNode | undefined, b: JudgedNode | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return (
    a.addresses.length === b.addresses.length &&
    a.podCidrs.length === b.podCidrs.length &&
    a.addresses.every((address, index) => address === b.addresses[index]) &&
    a.podCidrs.every((cidr, index) => b.podCidrs[index] !== undefined && isSameCidr(cidr, b.podCidrs[index]))
  );
}
