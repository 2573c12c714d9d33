import type { AttachmentRecord } from "../attachment/attachment.ts";
import type { AttachmentName, PolicydStatus } from "../attachment/policyd_messages.ts";
import type { Machine } from "./machine.ts";
import { DrawbridgeError } from "../kernel/error.ts";
import { isPodOf } from "./attachments/registry.ts";
import type { Cancel } from "./lib/clock.ts";
import type { NodeJudge } from "../objects/nodes/node_judge.ts";
import { type Kind, KINDS, type ObjectChange } from "../objects/model.ts";
import { namespaceOf } from "../objects/namespace_of.ts";
import type { Component } from "./component.ts";
import type { FlowLedger } from "./flows/flow_ledger.ts";
import { printable } from "../objects/printable.ts";
import { codeOf, severityOf } from "./problems/problem.ts";
import type { ReportPage } from "./policies/status/policy_report.ts";
import { isTemporary, type RequestHandlers } from "./socket/handlers.ts";
import type { ObjectSink, ObjectSource } from "./sources/object_source.ts";

/** A status must fit into one message of 64 KiB, in which a printable character takes at most three bytes. */
const MOST_PROBLEMS = 20;
const LONGEST_PROBLEM = 400;

/** Milliseconds, at most, that a refusal is sent before the client's deadline, since it may wait for its turn. */
const LONGEST_MARGIN = 1000;

/** The parts of a daemon. */
export interface DaemonParts extends Pick<Machine, "nodeName" | "attachments" | "logger" | "events" | "clock"> {
  readonly version: string;
  readonly source: ObjectSource;
  /** Gets objects before the components, which get Nodes from it. */
  readonly judge: Pick<NodeJudge, "apply" | "synced">;
  /** In this order they begin, apply changes and register attachments. */
  readonly components: readonly Component[];
  /** Undefined where flows are not recorded. */
  readonly flows?: Pick<FlowLedger, "write"> | undefined;
  /** Returns this node's address between nodes, and why it is that one; undefined where it is not known. */
  readonly nodeAddress?: () => string | undefined;
  /** Reports which policies are in force. */
  readonly policyReport?: ((after: string | undefined) => Promise<ReportPage>) | undefined;
}

/** The daemon: it passes objects from a source and attachments from the socket on to the components. */
export class Daemon implements ObjectSink, RequestHandlers {
  readonly #parts: DaemonParts;
  readonly #objectProblems = new Map<string, number>([...KINDS, "other"].map((kind) => [kind, 0]));
  readonly #startedAt: number;
  #isSynced = false;

  constructor(parts: DaemonParts) {
    this.#parts = parts;
    this.#startedAt = parts.clock.now();
  }

  start(): void {
    for (const component of this.#parts.components) component.begin?.(this);
    this.#parts.source.start(this);
  }

  /** Stops following objects and stops the components; the rules in force stay. */
  async stop(): Promise<void> {
    this.#parts.source.stop();
    await Promise.all(this.#parts.components.map(async (component) => component.stop?.()));
  }

  changed(changes: readonly ObjectChange[]): void {
    const used = this.#parts.judge.apply(changes);
    for (const component of this.#parts.components) component.apply?.(used);
    for (const { type, kind, key } of changes) this.#parts.logger.debug("object changed", { change: type, kind, key });
  }

  synced(): void {
    this.#isSynced = true;
    this.#parts.logger.info("all objects read", this.#counts());
    this.#parts.judge.synced();
    // Its verdict may differ from now on.
    const used = this.#parts.judge.apply([]);
    if (used.length > 0) for (const component of this.#parts.components) component.apply?.(used);
    for (const component of this.#parts.components) component.synced?.();
  }

  noticed(message: string): void {
    this.#parts.logger.info("kinds of objects", { notice: message });
  }

  sourceProblem(message: string): void {
    this.#parts.logger.warn("objects cannot be followed", { reason: message });
  }

  problem(message: string, kind?: Kind, key?: string): void {
    const label = kind ?? "other";
    this.#objectProblems.set(label, (this.#objectProblems.get(label) ?? 0) + 1);
    this.#parts.logger.warn("object not used as it is", { reason: message }, namespaceOf(key ?? ""));
    if (kind === undefined || key === undefined) return;
    const object = this.#parts.source.find(kind, key);
    const regarding = { kind, key, uid: object !== undefined && "uid" in object ? object.uid : "" };
    this.#parts.events.tell({ regarding, reason: "NotUsedAsItIs", note: message });
  }

  /** Registers an attachment. After `wait` this fails, but the attachment stays desired until it is unregistered. */
  async register(attachment: AttachmentRecord, wait?: number): Promise<void> {
    const { attachments, components } = this.#parts;
    const earlier = attachments.get(attachment);
    attachments.add(attachment);
    try {
      const registered = Promise.all(components.map(async (component) => component.register?.(attachment)));
      await (wait === undefined ? registered : this.#inTime(registered, attachment, wait));
    } catch (error) {
      // A temporary failure leaves the attachment desired until it is unregistered; a permanent one withdraws it.
      const isRefused = error instanceof DrawbridgeError && !isTemporary(error);
      if (isRefused && attachments.get(attachment) === attachment) {
        if (earlier === undefined) attachments.remove(attachment);
        else attachments.add(earlier);
      }
      throw error;
    }
    this.#parts.logger.info("attachment registered", fieldsOf(attachment));
  }

  /** @throws DrawbridgeError ERR_UNAVAILABLE or ERR_POD_UNKNOWN shortly before the caller gives up, with the reason */
  async #inTime(registered: Promise<unknown>, attachment: AttachmentRecord, wait: number): Promise<void> {
    const { clock, components } = this.#parts;
    let cancel: Cancel = () => {};
    const late = new Promise<never>((_, reject) => {
      cancel = clock.after(wait - Math.min(LONGEST_MARGIN, wait / 4), () => {
        const reasons = new Set(components.flatMap((component) => component.awaits?.(attachment) ?? []));
        const reason = reasons.size === 0 ? "the kernel has not taken its rules yet" : [...reasons].join("; ");
        // Without a reason the kernel is waited for, whatever objects are there.
        const isOfPod = reasons.size > 0 && this.#isWithoutObjects(attachment);
        const code = isOfPod ? "ERR_POD_UNKNOWN" : "ERR_UNAVAILABLE";
        reject(new DrawbridgeError(code, `the pod is not in force within ${wait} ms: ${reason}`));
      });
    });
    try {
      await Promise.race([registered, late]);
    } finally {
      cancel();
    }
  }

  /** Whether the API server, as far as it is followed, does not have a pod's Pod or Namespace, or is deleting the latter. */
  #isWithoutObjects(attachment: AttachmentRecord): boolean {
    const { source } = this.#parts;
    const { pod } = attachment;
    if (pod === undefined || !this.#isSynced || (source.staleness?.().get("pods") ?? 0) > 0) return false;
    const own = source.find("Pod", `${pod.namespace}/${pod.name}`);
    const namespace = source.find("Namespace", pod.namespace);
    const isKnown = own?.kind === "Pod" && isPodOf(attachment, own);
    return !isKnown || namespace?.kind !== "Namespace" || namespace.isTerminating;
  }

  async unregister(attachment: AttachmentName): Promise<boolean> {
    const { attachments, components, logger } = this.#parts;
    const known = attachments.get(attachment);
    await Promise.all(components.map(async (component) => component.unregister?.(attachment)));
    if (known === undefined) return false;
    // An attachment that has registered under the same names meanwhile stays.
    if (attachments.get(attachment) === known) attachments.remove(attachment);
    logger.info("attachment removed", fieldsOf(known));
    return true;
  }

  /** Number of problems that the source has reported since the start, by object kind; "other" for files. */
  objectProblems(): ReadonlyMap<string, number> {
    return this.#objectProblems;
  }

  /** Whether all objects have been read once. */
  get isSynced(): boolean {
    return this.#isSynced;
  }

  status(): PolicydStatus {
    const { version, nodeName, source, attachments, components, clock } = this.#parts;
    const nodeAddress = this.#parts.nodeAddress?.();
    const problems = [...source.problems(), ...components.flatMap((component) => component.problems?.() ?? [])];
    return {
      version,
      nodeName,
      ...(nodeAddress === undefined ? {} : { nodeAddress: printable(nodeAddress).slice(0, LONGEST_PROBLEM) }),
      uptimeSeconds: Math.floor((clock.now() - this.#startedAt) / 1000),
      isSynced: this.#isSynced,
      objects: this.#counts(),
      attachments: attachments.size,
      problemCount: problems.length,
      problems: mostSevereFirst(problems)
        .slice(0, MOST_PROBLEMS)
        .map((problem) => printable(problem).slice(0, LONGEST_PROBLEM)),
    };
  }

  async writeFlows(): Promise<void> {
    const { flows } = this.#parts;
    if (flows === undefined) {
      throw new DrawbridgeError(
        "ERR_CONFIGURATION",
        "flowLedger: it is false; expected true, for flows to be recorded",
      );
    }
    await flows.write();
  }

  async policies(after: string | undefined): Promise<ReportPage> {
    return (await this.#parts.policyReport?.(after)) ?? { lines: "", next: undefined };
  }

  /** Returns the number of objects of each kind. */
  #counts(): Readonly<Record<string, number>> {
    return Object.fromEntries(KINDS.map((kind) => [kind, this.#parts.source.count(kind)]));
  }
}

/** Returns the problems of the node, errors first, before those of objects, of which a tenant can have any number. */
function mostSevereFirst(problems: readonly string[]): readonly string[] {
  const rankOf = (line: string): number => {
    const code = codeOf(line);
    if (code === undefined) return 2;
    return severityOf(code) === "error" ? 0 : 1;
  };
  const byRank = Map.groupBy(problems, rankOf);
  return [0, 1, 2].flatMap((rank) => byRank.get(rank) ?? []);
}

function fieldsOf({
  network,
  containerId,
  ifname,
  pod,
}: AttachmentRecord): Readonly<Record<string, string | undefined>> {
  return { network, containerId, ifname, pod: pod === undefined ? undefined : `${pod.namespace}/${pod.name}` };
}
