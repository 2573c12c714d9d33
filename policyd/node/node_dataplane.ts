import type { AttachmentRecord } from "../../ipam/attachment.ts";
import type { AttachmentName } from "../../ipam/policyd_messages.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { KernelEvents } from "../../kernel/events/events.ts";
import type { Address } from "../../kernel/ip/address.ts";
import type { EndedSandboxes } from "../attachments/ended_sandboxes.ts";
import type { AttachmentFollower, RemainingFlows } from "../attachments/follower.ts";
import type { LinkRemoval } from "../attachments/link_removal.ts";
import { bridgeProblems, demandPolicedBridge } from "../attachments/policed_bridge.ts";
import type { AttachmentRegistry } from "../attachments/registry.ts";
import { attachmentKey } from "../attachments/registry.ts";
import type { Conflict } from "../attachments/rule_holders.ts";
import { hasRules, RuleHolders, supersededAmong, supersededBy } from "../attachments/rule_holders.ts";
import type { Cancel } from "../clock.ts";
import type { TakeOver } from "../coexistence/take_over.ts";
import type { Dataplane } from "../dataplane.ts";
import type { Claim } from "../dataplane/claim.ts";
import type { Ruleset } from "../dataplane/ruleset.ts";
import type { RulesetWatch } from "../dataplane/ruleset_watch.ts";
import type { Logger } from "../log/logger.ts";
import type { Aftermath } from "./aftermath.ts";
import type { HostPortRefusals } from "../protection/host_port_refusals.ts";
import { attachmentElements, attachmentHooks, guardElements, nameOf } from "./attachment_elements.ts";
import type { FlowMemory } from "./flow_memory.ts";
import { INET_TABLE } from "./table_part.ts";

export interface NodeDataplaneParts {
  readonly ruleset: Ruleset;
  readonly watch: RulesetWatch;
  /** Starts the thread that waits for the kernel's notifications. */
  readonly startEvents: () => KernelEvents;
  /** Begins to prepare what the first batch will have whatever the objects are; what it returns ends it. */
  readonly prepare?: () => Cancel;
  /** All objects have been read. */
  readonly onObjects?: (events: KernelEvents) => void;
  readonly links: LinkRemoval;
  readonly flows: FlowMemory;
  /** Undefined where nothing judges flows. */
  readonly aftermath: Aftermath | undefined;
  /** Whether anything is left of an attachment, which may have gone without our knowing. */
  readonly isPresent: (attachment: AttachmentRecord) => boolean;
  /** Whether an attachment's link is there: it alone tells which of two records of one address is a pod's. */
  readonly hasLink: (attachment: AttachmentRecord) => boolean;
  /** Which attachments have ended without DEL; without it, those of which nothing is left. */
  readonly ended?: Pick<EndedSandboxes, "givesWay" | "gaveWay" | "hasEnded">;
  /** Has the bridge look at all that a pod sends. @throws DrawbridgeError when the kernel refuses */
  readonly endBypass: (attachment: AttachmentRecord) => void;
  readonly logger: Logger;
  /** The pods of this node: those that were attached before this daemon started, and those that register. */
  readonly attachments: AttachmentRegistry;
  /** Elements of a pod beside those that bind it to its port. */
  readonly furtherElements: (attachment: AttachmentRecord) => readonly Claim[];
  /** Which host ports pods get; without it they get all. */
  readonly hostPorts?: Pick<HostPortRefusals, "served" | "attached" | "detached">;
  /** On which pods have policies; undefined where none are enforced. */
  readonly policedBridge?: string | undefined;
  /** Says when the first rules may be written; undefined for at once. */
  readonly takeOver?: Pick<TakeOver, "granted" | "refusal" | "problems" | "stop"> | undefined;
  /** What has rules of its own for pods; undefined for nothing. */
  readonly follower?: AttachmentFollower | undefined;
}

/**
 * The node's tables: which source belongs to which pod's port, and what goes with a pod.
 *
 * Nothing is written before everything has been read once, so that what an earlier daemon put in force stays until this
 * one knows what is still wanted. A pod that registers meanwhile waits.
 */
export class NodeDataplane implements Dataplane {
  readonly #parts: NodeDataplaneParts;
  readonly #holders = new RuleHolders();
  /** What waits for the start, and gets or is refused its ports then; each goes on by this, also when it is removed before. */
  readonly #registering = new Map<AttachmentRecord, () => void>();
  /** What is not yet forgotten of those that are no longer among the attachments, by their keys. */
  readonly #leaving = new Map<string, Promise<void>>();
  #isStarted = false;
  #events: KernelEvents | undefined;
  /** Settles when changes of others are told. */
  #watching: Promise<void> | undefined;
  #endPreparation: Cancel | undefined;
  #isStopped = false;

  constructor(parts: NodeDataplaneParts) {
    this.#parts = parts;
  }

  /** What takes its time and needs no objects: a pod that waits for those does not wait for it, too. */
  begin(): void {
    void this.#watch();
    this.#endPreparation = this.#parts.prepare?.();
  }

  apply(): void {}

  synced(): void {
    const { logger, hasLink, follower, policedBridge } = this.#parts;
    const earlier = this.#recorded();
    const superseded = new Set(supersededAmong(earlier, hasLink));
    for (const reason of bridgeProblems(earlier, policedBridge)) logger.error("pods without policies", { reason });
    for (const gone of superseded) this.#forgetEarlier(gone);
    for (const attachment of earlier) {
      if (superseded.has(attachment)) continue;
      follower?.attached(attachment, "unknown");
      const conflict = this.#claim(attachment);
      if (conflict === undefined) continue;
      const reason = conflict.error.message;
      logger.warn("host ports and masquerade are not in force", { pod: nameOf(attachment), reason });
    }
    void this.#startRules();
    if (this.#events !== undefined) this.#parts.onObjects?.(this.#events);
  }

  /**
   * Those of the records that are there still: a DEL that found no daemon may have ended since they were read (REG-01). Sandboxes that
   * ended without DEL come last, since others may have their ports by now.
   */
  #recorded(): readonly AttachmentRecord[] {
    const { attachments, logger, isPresent, ended } = this.#parts;
    const known = [...attachments.values()].filter((attachment) => !this.#registering.has(attachment));
    const rank = (attachment: AttachmentRecord): number =>
      Number(hasRules(attachment) && ended?.hasEnded(attachment) === true);
    return known
      .toSorted((a, b) => rank(a) - rank(b))
      .filter((attachment) => {
        if (isPresent(attachment)) return true;
        logger.info("a pod that went while policyd started is forgotten", { pod: nameOf(attachment) });
        this.#withdraw(attachment, "unknown");
        return false;
      });
  }

  /** Changes of others are told before the first batch, so that none falls in between. */
  async #startRules(): Promise<void> {
    const { ruleset, follower, takeOver } = this.#parts;
    await this.#watch();
    await takeOver?.granted();
    await follower?.prepared();
    this.#endPreparation?.();
    if (this.#isStopped) return;
    ruleset.start();
    this.#isStarted = true;
    for (const goOn of this.#registering.values()) goOn();
    this.#registering.clear();
  }

  #watch(): Promise<void> {
    const { startEvents, watch } = this.#parts;
    this.#events ??= startEvents();
    return (this.#watching ??= watch.start(this.#events));
  }

  async register(attachment: AttachmentRecord): Promise<void> {
    demandPolicedBridge(attachment, this.#parts.policedBridge);
    if (!this.#isStarted) await new Promise<void>((goOn) => this.#registering.set(attachment, goOn));
    // Its address may be another's by now, who must not be forgotten for one that is gone.
    this.#demandPresent(attachment);
    const { ruleset, attachments, flows, follower, aftermath } = this.#parts;
    const superseded = supersededBy(attachment, attachments.values());
    for (const gone of superseded) this.#forget(gone);
    if (superseded.length > 0) {
      // Their flows must not be let through for the pod that has their address now (POD-20).
      await ruleset.inForce();
      await Promise.all(superseded.map((gone) => this.#forgetMemory(gone)));
    }
    await aftermath?.pauseFor(addressesOf(attachment));
    this.#demandPresent(attachment);
    this.#take(attachment);
    const remaining = aftermath?.end(addressesOf(attachment)) ?? "unknown";
    const elements = [...attachmentElements(this.#served(attachment)), ...this.#parts.furtherElements(attachment)];
    this.#provideHooks(attachment, true);
    this.#parts.hostPorts?.attached(attachment);
    ruleset.claim(ownerOf(attachment), elements, "urgent");
    // One batch for both, where its policies can be told at once.
    follower?.attached(attachment, superseded.length > 0 ? "unknown" : remaining);
    const isInForce = await ruleset.inForce();
    this.#demandPresent(attachment);
    if (!isInForce) {
      throw new DrawbridgeError(
        "ERR_UNAVAILABLE",
        `the kernel does not take the pod's rules: ${ruleset.status().lastError ?? "no reason known"}; it is tried again`,
      );
    }
    flows.forgetOf(this.#served(attachment));
    await follower?.inForce(attachment);
    this.#demandPresent(attachment);
  }

  /** @throws DrawbridgeError when it was removed meanwhile */
  #demandPresent(attachment: AttachmentRecord): void {
    if (this.#parts.attachments.get(attachment) === attachment) return;
    throw new DrawbridgeError("ERR_UNAVAILABLE", "the attachment was removed before its rules were in force");
  }

  awaits(attachment: AttachmentRecord): string | undefined {
    if (!this.#registering.has(attachment)) return undefined;
    return this.#parts.takeOver?.refusal ?? "policyd has not read all objects and tables yet";
  }

  /**
   * The link goes first: until nothing can be sent from the port, the rules that bind it stay. Its host ports and its
   * policies are gone when this settles, since the next pod may have its address as soon as DEL returns; then nothing
   * makes a flow to it any more, and what the kernel remembers of the address is forgotten (POD-20). Who asks again over
   * it waits as long.
   */
  async unregister(name: AttachmentName): Promise<void> {
    const key = attachmentKey(name);
    const attachment = this.#parts.attachments.get(name);
    const leaving = attachment === undefined ? this.#leaving.get(key) : this.#leave(attachment);
    if (leaving === undefined) return;
    this.#leaving.set(key, leaving);
    try {
      await leaving;
    } finally {
      if (this.#leaving.get(key) === leaving) this.#leaving.delete(key);
    }
  }

  async #leave(attachment: AttachmentRecord): Promise<void> {
    const { ruleset, links, follower } = this.#parts;
    await links.remove(attachment);
    this.#withdraw(attachment, "none");
    if (hasRules(attachment)) this.#claimFreed();
    const areRulesGone = !(hasRules(attachment) || follower !== undefined) || (await ruleset.inForce());
    const isForgotten = await this.#forgetMemory(attachment);
    if (areRulesGone && isForgotten) return;
    // Who asked does it then (cni/without_policyd.ts), also for what an earlier daemon has left in force.
    const reason = ruleset.status().lastError ?? "nothing is written before all objects are read";
    const what = areRulesGone ? "its flows stay" : `its rules stay: ${reason}`;
    throw new DrawbridgeError("ERR_UNAVAILABLE", `not all of the pod is forgotten: ${what}`);
  }

  /** Claims what an attachment contributes; without its ports and masquerade where another has one of them. */
  #claim(attachment: AttachmentRecord): Conflict | undefined {
    const conflict = hasRules(attachment) ? this.#holders.take(attachment) : undefined;
    const served = this.#served(attachment);
    const elements = conflict === undefined ? attachmentElements(served) : guardElements(attachment);
    this.#provideHooks(attachment, conflict === undefined);
    this.#parts.hostPorts?.attached(attachment);
    this.#parts.ruleset.claim(ownerOf(attachment), [...elements, ...this.#parts.furtherElements(attachment)]);
    return conflict;
  }

  /** Of an attachment with host ports or masquerade, all other packets pass no hook for these. */
  #provideHooks(attachment: AttachmentRecord, isInForce: boolean): void {
    const chains = attachmentHooks(this.#served(attachment));
    if (chains.length === 0) return;
    const provided = { table: INET_TABLE, sets: [], chains: isInForce ? chains : [] };
    this.#parts.ruleset.provide(ownerOf(attachment), provided, "urgent");
  }

  /** The attachment with the host ports that it gets. */
  #served(attachment: AttachmentRecord): AttachmentRecord {
    return this.#parts.hostPorts?.served(attachment) ?? attachment;
  }

  /** @throws DrawbridgeError when somebody who is still there has one of the ports or addresses */
  #take(attachment: AttachmentRecord): void {
    if (!hasRules(attachment)) return this.#holders.release(attachment);
    for (;;) {
      const conflict = this.#holders.take(attachment);
      if (conflict === undefined) return;
      const { holder } = conflict;
      const { ended, isPresent } = this.#parts;
      const isOver = ended?.givesWay(holder, attachment) === true;
      if (!isOver && isPresent(holder)) throw conflict.error;
      this.#forget(holder);
      if (isOver) ended?.gaveWay(holder);
    }
  }

  /** Gives those that had to go without their ports what one that goes has had. */
  #claimFreed(): void {
    for (const attachment of this.#parts.attachments.values()) {
      const isWaiting = hasRules(attachment) && !this.#holders.has(attachment) && !this.#registering.has(attachment);
      if (isWaiting) this.#claim(attachment);
    }
  }

  /** The same where nobody waits who could be refused. */
  #forgetEarlier(gone: AttachmentRecord): void {
    try {
      this.#forget(gone);
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      this.#parts.logger.error("what a forgotten pod sends is taken for another's", {
        pod: nameOf(gone),
        error: error.message,
      });
      this.#withdraw(gone, "unknown");
    }
  }

  /**
   * Forgets an attachment whose DEL never reached us: what it had is another's now.
   *
   * @throws DrawbridgeError where it could still send as that one
   */
  #forget(gone: AttachmentRecord): void {
    const { logger, endBypass } = this.#parts;
    endBypass(gone);
    logger.warn("a pod that is gone is forgotten: its address or its port is another's now", { pod: nameOf(gone) });
    this.#withdraw(gone, "unknown");
  }

  /** All in one turn: a registration of it that goes on later finds it gone, and claims nothing more. */
  #withdraw(gone: AttachmentRecord, flows: RemainingFlows): void {
    const { ruleset, attachments, follower, aftermath } = this.#parts;
    this.#holders.release(gone);
    this.#provideHooks(gone, false);
    this.#parts.hostPorts?.detached(gone);
    ruleset.claim(ownerOf(gone), []);
    follower?.detached(gone, flows);
    attachments.remove(gone);
    this.#registering.get(gone)?.();
    this.#registering.delete(gone);
    const held = new Set([...attachments.values()].flatMap(addressesOf));
    // Two networks may give one address: who is there keeps his flows.
    aftermath?.add(addressesOf(gone).filter((address) => !held.has(address)));
  }

  /** The pod is gone already: that the kernel does not answer keeps nobody from forgetting it. @returns whether it did */
  async #forgetMemory(attachment: AttachmentRecord): Promise<boolean> {
    try {
      await this.#parts.flows.forgetPod(attachment);
      return true;
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      this.#parts.logger.error("flows of a pod that has gone are not forgotten", {
        pod: nameOf(attachment),
        error: error.message,
      });
      return false;
    }
  }

  problems(): readonly string[] {
    const { ruleset, attachments, policedBridge, takeOver } = this.#parts;
    const { lastError } = ruleset.status();
    const refusal = lastError === undefined ? [] : [`ruleset: ${lastError}`];
    const ports = takeOver?.problems() ?? [];
    return [...refusal, ...ports, ...bridgeProblems(attachments.values(), policedBridge)];
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#parts.takeOver?.stop();
    this.#endPreparation?.();
    this.#parts.aftermath?.stop();
    this.#parts.watch.stop();
    this.#parts.ruleset.stop();
    await this.#events?.stop();
  }
}

function addressesOf({ addresses }: AttachmentRecord): readonly Address[] {
  return addresses.map(({ address }) => address);
}

function ownerOf(name: AttachmentName): string {
  return `attachment ${attachmentKey(name)}`;
}
