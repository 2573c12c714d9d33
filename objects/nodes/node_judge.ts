import { type Address, familyOf, formatAddress } from "../../kernel/ip/address.ts";
import { type Cidr, cidrContains, doOverlap, formatCidr, hostCidr, isSameCidr } from "../../kernel/ip/cidr.ts";
import type { Node, ObjectChange, ServiceCidr } from "../model.ts";
import { type KeptNode, keptNode } from "./kept_node.ts";
import { NodeClaimIndex } from "./overlap_index.ts";
import { judgeNodes, usableRanges } from "./judged_nodes.ts";
import { usableOf } from "./node_addresses.ts";
import { isReserved, unfitForPods } from "./reserved_addresses.ts";
import {
  isLost,
  type JudgedNode,
  type JudgedNodes,
  type JudgeOptions,
  MOST_NOT_READY,
  usedNode,
} from "./node_verdict.ts";

/** Returns the names of the nodes whose verdict has changed since the last call; the first call returns all names. */
export type VerdictReader = () => ReadonlySet<string>;

export interface NodeJudgeOptions extends Omit<JudgeOptions, "earlier" | "now"> {
  /** Whether addresses that a Node does not name for a while stay in use; needs `clock`. */
  readonly keeps?: boolean;
  /** Monotonic milliseconds, and those since 1970. */
  readonly clock?: { readonly now: () => number; readonly time: () => number };
}

/** If more nodes than this depend on each other, all nodes are judged: finding out which ones costs as much. */
const MOST_TOGETHER = 256;

/**
 * Keeps the verdict on all Nodes. It is computed when it is read and something relevant has changed since.
 *
 * Only changed nodes, and those whose claims overlap or overlapped theirs, are judged again. The result is the same as
 * that of judgeNodes for all nodes. One judge serves the whole daemon, before its components.
 */
export class NodeJudge {
  readonly #options: NodeJudgeOptions;
  readonly #objects = new Map<string, Node>();
  readonly #serviceCidrObjects = new Map<string, ServiceCidr>();
  #serviceCidrs: readonly Cidr[];
  readonly #claims = new NodeClaimIndex();
  readonly #nodes = new Map<string, JudgedNode>();
  readonly #problemsOf = new Map<string, readonly string[]>();
  /** The nodes whose verdict may change, because their objects or the last verdict on them changed. */
  #concerned: ReadonlySet<string> = new Set();
  readonly #kept = new Map<string, KeptNode>();
  /** Since when Nodes are not Ready, as they say, and by the monotonic clock: the other one may be set at any moment. */
  readonly #notReadySince = new Map<string, { readonly said: number; readonly seen: number }>();
  /** Nodes that are not Ready, but not yet for so long that they lose claims. */
  readonly #notReady = new Set<string>();
  readonly #unread: Set<string>[] = [];
  readonly #readChanged: VerdictReader = this.reader();
  /** The Nodes that the other parts of the daemon get without some addresses, with these as text. */
  readonly #shortened = new Map<string, string>();
  /** The text of the Services' ranges at the last verdict. */
  #ranges = "";
  #isWhole = true;
  #isCurrent = false;
  #isSettled = false;

  /** @param options has the ranges of Services that do not come from ServiceCIDR objects */
  constructor(options: NodeJudgeOptions) {
    this.#options = options;
    this.#serviceCidrs = this.#allServiceCidrs();
    this.#setClaims(options.nodeName);
  }

  /** Whether the verdict may change without a change of objects, since a Node has not been Ready for long enough. */
  get isWaiting(): boolean {
    return this.#notReady.size > 0;
  }

  /**
   * Applies changes; none when only time has passed.
   *
   * @returns the changes for all other parts of the daemon, in which Nodes have the addresses that stay in use (D14),
   *   and no addresses of other nodes' pods
   */
  apply(changes: readonly ObjectChange[]): readonly ObjectChange[] {
    const names: string[] = [];
    for (const change of changes) {
      const { kind, key } = change;
      const object = change.type === "set" ? change.object : undefined;
      if (kind === "ServiceCIDR") this.#setRanges(key, object?.kind === "ServiceCIDR" ? object : undefined);
      if (kind === "Node" && this.#setNode(key, object?.kind === "Node" ? object : undefined)) names.push(key);
    }
    const ended = this.#ended(names);
    names.push(...ended, ...this.#newlyLost());
    if (names.length > 0) this.#changed(names);
    const further = new Set([...ended, ...this.#shorten()]);
    if (this.#kept.size + this.#shortened.size + further.size === 0) return changes;
    const used = changes.flatMap((change) => {
      const { kind, type, key } = change;
      const isOther = kind === "Node" && type === "set" && (this.#kept.has(key) || this.#shortened.has(key));
      return isOther ? this.#used(key) : [change];
    });
    return [...used, ...[...further].flatMap((key) => this.#used(key))];
  }

  /** Returns a Node as the other parts of the daemon get it; nothing for one that is gone. */
  #used(key: string): readonly ObjectChange[] {
    const node = this.#objects.get(key);
    if (node === undefined) return [];
    return [{ type: "set", kind: "Node", key, object: usedNode(node, this.#nodes.get(key)) }];
  }

  /** Returns the Nodes that have lost addresses to another node's pod CIDR since the last call, or got some back. */
  #shorten(): readonly string[] {
    return [...this.#readChanged()].filter((key) => {
      const before = this.#shortened.get(key) ?? "";
      const now = this.#nodes.get(key)?.ofOthersPods.map(formatAddress).join() ?? "";
      if (now === "") this.#shortened.delete(key);
      else this.#shortened.set(key, now);
      return now !== before;
    });
  }

  #changed(names: readonly string[]): void {
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

  /** This node's believed pod CIDRs: the configured ones while its Node has none. */
  get ownCidrs(): readonly Cidr[] {
    const { nodeName, ownCidrs = [] } = this.#options;
    return this.judged.nodes.get(nodeName)?.podCidrs ?? ownCidrs;
  }

  /**
   * Returns what speaks against giving addresses of a pod CIDR of this node to pods: it is unfit, it has the node's only
   * address of the family, or another node may have pods there. Claims of lost Nodes and unfit ones do not count.
   */
  rivalOf(cidr: Cidr): string | undefined {
    const { nodeName, clock } = this.#options;
    const unfit = unfitForPods(cidr);
    // The verdict does not cover the configured pod CIDRs of a node without a Node object.
    if (unfit !== undefined) return `${formatCidr(cidr)} ${unfit}`;
    const believed = this.judged.nodes.get(nodeName)?.addresses ?? [];
    const inside = usableOf(this.#objects.get(nodeName)).find((address) => cidrContains(cidr, address));
    if (inside !== undefined && !believed.some((address) => familyOf(address) === familyOf(inside))) {
      return `${formatCidr(cidr)} contains ${formatAddress(inside)}, the only address of this Node in its family`;
    }
    for (const node of this.#objects.values()) {
      if (node.name === nodeName || isLost(node, clock?.now())) continue;
      const taken = node.podCidrs.find((other) => doOverlap(cidr, other) && unfitForPods(other) === undefined);
      if (taken !== undefined) return `${formatCidr(cidr)} overlaps with ${formatCidr(taken)} of Node ${node.name}`;
    }
    return undefined;
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
  #setNode(name: string, named: Node | undefined): boolean {
    const before = this.#objects.get(name);
    const problem = this.#kept.get(name)?.problem;
    const node = named && this.#keep(name, this.#withOwnTime(named));
    if (node === undefined) {
      this.#notReadySince.delete(name);
      this.#objects.delete(name);
      this.#kept.delete(name);
    } else this.#objects.set(name, node);
    if (node?.notReadySince === undefined) this.#notReady.delete(name);
    else this.#notReady.add(name);
    return problem !== this.#kept.get(name)?.problem || (before !== node && textOf(before) !== textOf(node));
  }

  /** Returns a Node that is not Ready with the time since then by the monotonic clock. */
  #withOwnTime(node: Node): Node {
    const { name, notReadySince: said } = node;
    const { clock } = this.#options;
    if (said === undefined || clock === undefined) {
      this.#notReadySince.delete(name);
      return node;
    }
    const known = this.#notReadySince.get(name);
    // Only the first look compares with the wall clock: a daemon may start long after the node has failed.
    const passed = Math.min(Math.max(clock.time() - said, 0), MOST_NOT_READY);
    // A Node that no longer keeps anything comes a second time, with the time by the monotonic clock.
    const since =
      known !== undefined && [known.said, known.seen].includes(said) ? known : { said, seen: clock.now() - passed };
    this.#notReadySince.set(name, since);
    return { ...node, notReadySince: since.seen };
  }

  /** Returns a Node with what stays in use although it does not name it. */
  #keep(name: string, named: Node): Node {
    const earlier = this.#nodes.get(name)?.addresses ?? [];
    const mayKeep = this.#options.keeps === true && this.#isSettled;
    const before = this.#objects.get(name);
    const kept = mayKeep ? keptNode(named, earlier, before, (address) => this.#isNamed(address, name)) : undefined;
    if (kept === undefined) this.#kept.delete(name);
    else this.#kept.set(name, kept);
    return kept?.node ?? named;
  }

  #isNamed(address: Address, except: string): boolean {
    return [...this.#objects.values()].some((node) => node.name !== except && this.#names(node, address));
  }

  /** Whether a Node names an address and has not lost its claims. */
  #names(node: Node | undefined, address: Address): boolean {
    if (node === undefined || isLost(node, this.#options.clock?.now())) return false;
    return node.addresses.some((one) => one.address === address);
  }

  /** Ends the use of kept addresses that a changed Node names. @returns the Nodes that had kept them */
  #ended(changed: readonly string[]): readonly string[] {
    const ended: string[] = [];
    for (const [name, { named, kept }] of this.#kept) {
      const isTaken = (address: Address): boolean =>
        changed.some((other) => other !== name && this.#names(this.#objects.get(other), address));
      if (kept.some(isTaken) && this.#setNode(name, named)) ended.push(name);
    }
    return ended;
  }

  /** Ends the wait for Nodes that have not been Ready for long enough. @returns these Nodes */
  #newlyLost(): readonly string[] {
    const lost: string[] = [];
    for (const name of this.#notReady) {
      const node = this.#objects.get(name);
      if (node === undefined || !isLost(node, this.#options.clock?.now())) continue;
      this.#notReady.delete(name);
      lost.push(name);
    }
    return lost;
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
    const internal = usableOf(node);
    const external = (node?.addresses ?? []).flatMap(({ address }) =>
      internal.includes(address) || isReserved(address) ? [] : [hostCidr(address)],
    );
    this.#claims.set(name, [...fit, ...internal.map((address) => hostCidr(address))], external);
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
        ...(this.#options.clock === undefined ? {} : { now: this.#options.clock.now() }),
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
      const kept = this.#kept.get(name)?.problem;
      const found = verdict.problemsOf.get(name);
      const problems = kept === undefined ? found : [...(found ?? []), kept];
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
  const addresses = node.addresses.map(({ type, address }) => `${type} ${formatAddress(address)}`);
  return [node.name, node.notReadySince, ...node.podCidrs.map(formatCidr), ...addresses].join();
}

function isSame(a: JudgedNode | undefined, b: JudgedNode | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return (
    a.addresses.length === b.addresses.length &&
    a.podCidrs.length === b.podCidrs.length &&
    a.ofOthersPods.join() === b.ofOthersPods.join() &&
    a.addresses.every((address, index) => address === b.addresses[index]) &&
    a.podCidrs.every((cidr, index) => b.podCidrs[index] !== undefined && isSameCidr(cidr, b.podCidrs[index]))
  );
}
