import { displayName } from "../../attachment/names_and_macs.ts";
import type { AttachmentRecord } from "../../attachment/attachment.ts";
import type { AttachmentName } from "../../attachment/policyd_messages.ts";
import type { AttachmentPresence } from "../attachments/attachment_exists.ts";
import type { Machine } from "../machine.ts";
import { DrawbridgeError, problemOf } from "../../kernel/error.ts";
import type { Address } from "../../kernel/ip/address.ts";
import type { EndedSandboxes } from "../attachments/ended_sandboxes.ts";
import type { AttachmentFollower, RemainingFlows } from "../attachments/follower.ts";
import type { LinkRemoval } from "../attachments/link_removal.ts";
import { attachmentKey } from "../attachments/registry.ts";
import { type Conflict, hasRules, RuleHolders, supersededAmong, supersededBy } from "../attachments/rule_holders.ts";
import type { PodGate } from "../component.ts";
import type { DesiredElement } from "../ruleset/desired/desired_element.ts";
import type { LateFlowDeletion } from "./late_flow_deletion.ts";
import type { HostPortRefusals } from "../protection/host_port_refusals.ts";
import { attachmentElements, attachmentHooks, guardElements } from "./attachment_elements.ts";
import type { FlowCleanup } from "./address_cleanup.ts";
import { INET_TABLE } from "../ruleset/table_part.ts";

export interface AttachmentRulesParts extends AttachmentPresence, Pick<Machine, "ruleset" | "logger" | "attachments"> {
  readonly links: LinkRemoval;
  readonly flows: FlowCleanup;
  /** Undefined where policies are not enforced. */
  readonly lateFlowDeletion: LateFlowDeletion | undefined;
  /** The attachments that ended without DEL; without it, those of which nothing remains. */
  readonly ended?: Pick<EndedSandboxes, "givesWay" | "gaveWay" | "hasEnded">;
  /** Makes all of a pod's packets pass the bridge again. @throws DrawbridgeError when the kernel refuses */
  readonly endBypass: (attachment: AttachmentRecord) => void;
  /** Elements of a pod in addition to those that bind it to its port. */
  readonly furtherElements: (attachment: AttachmentRecord) => readonly DesiredElement[];
  /** The host ports that pods get; without it, they get all. */
  readonly hostPorts?: Pick<HostPortRefusals, "served" | "attached" | "detached">;
  /** The bridge on which pods have policies; undefined where none are enforced. */
  readonly policedBridge?: string | undefined;
  /** Returns why no rule may be written yet, if that has a reason of its own. */
  readonly refusal?: () => string | undefined;
  /** Maintains further rules for pods; undefined where there are none. */
  readonly follower?: AttachmentFollower | undefined;
}

/**
 * Maintains the node's tables: which source belongs to which pod's port, and the other rules of each pod.
 *
 * A pod that registers before the rules are being written waits (startup.ts).
 */
export class AttachmentRules implements PodGate {
  readonly #parts: AttachmentRulesParts;
  readonly #holders = new RuleHolders();
  /** Registrations that wait for the start; calling the value resumes one, also after the attachment is removed. */
  readonly #registering = new Map<AttachmentRecord, () => void>();
  /** Removals in progress, by the keys of attachments that may already be out of the registry. */
  readonly #leaving = new Map<string, Promise<void>>();
  #isStarted = false;

  constructor(parts: AttachmentRulesParts) {
    this.#parts = parts;
  }

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
      logger.warn("host ports and masquerade are not in force", { pod: displayName(attachment), reason });
    }
  }

  /**
   * Returns the recorded attachments that still exist: a DEL that found no daemon may have completed since the records
   * were read (REG-01). Sandboxes that ended without DEL come last, since other pods may have their ports by now.
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
        logger.info("a pod that went while policyd started is forgotten", { pod: displayName(attachment) });
        this.#withdraw(attachment, "unknown");
        return false;
      });
  }

  /** Called when the rules are being written: registrations that waited go on. */
  started(): void {
    this.#isStarted = true;
    for (const goOn of this.#registering.values()) goOn();
    this.#registering.clear();
  }

  async register(attachment: AttachmentRecord): Promise<void> {
    demandPolicedBridge(attachment, this.#parts.policedBridge);
    if (!this.#isStarted) await new Promise<void>((goOn) => this.#registering.set(attachment, goOn));
    // Another attachment may have the address by now, and must not be forgotten in favour of one that is gone.
    this.#demandPresent(attachment);
    const { ruleset, attachments, flows, follower, lateFlowDeletion } = this.#parts;
    const superseded = supersededBy(attachment, attachments.values());
    for (const gone of superseded) this.#forget(gone);
    if (superseded.length > 0) {
      // Flows of the superseded pods must not pass for the pod that now has their address (POD-20).
      await ruleset.inForce();
      await Promise.all(superseded.map((gone) => this.#forgetMemory(gone)));
    }
    await lateFlowDeletion?.pauseFor(addressesOf(attachment));
    this.#demandPresent(attachment);
    this.#take(attachment);
    const remaining = lateFlowDeletion?.end(addressesOf(attachment)) ?? "unknown";
    const elements = [...attachmentElements(this.#served(attachment)), ...this.#parts.furtherElements(attachment)];
    this.#provideHooks(attachment, true);
    this.#parts.hostPorts?.attached(attachment);
    ruleset.claim(ownerOf(attachment), elements, "urgent");
    // One batch carries both where the pod's policies are known at once.
    follower?.attached(attachment, superseded.length > 0 ? "unknown" : remaining);
    const isInForce = await ruleset.inForce();
    this.#demandPresent(attachment);
    if (!isInForce) {
      throw new DrawbridgeError(
        "ERR_UNAVAILABLE",
        `the kernel does not take the pod's rules: ${ruleset.status().lastError ?? "no reason known"}; it is tried again`,
      );
    }
    await flows.forgetOf(this.#served(attachment));
    await follower?.inForce(attachment);
    this.#demandPresent(attachment);
  }

  /** @throws DrawbridgeError when the attachment was removed meanwhile */
  #demandPresent(attachment: AttachmentRecord): void {
    if (this.#parts.attachments.get(attachment) === attachment) return;
    throw new DrawbridgeError("ERR_UNAVAILABLE", "the attachment was removed before its rules were in force");
  }

  awaits(attachment: AttachmentRecord): string | undefined {
    if (!this.#registering.has(attachment)) return this.#parts.follower?.awaits?.(attachment);
    return this.#parts.refusal?.() ?? "policyd has not read all objects and tables yet";
  }

  /**
   * Removes an attachment. The link goes first: the rules that bind the port stay until nothing can be sent from it.
   * When this resolves, the host ports and policies are gone, since the next pod may have the address as soon as DEL
   * returns. After that no new flow to it can start, and the kernel's memory of the address is forgotten (POD-20). A
   * repeated call waits for the same removal. A request that comes late, when an ADD has followed the DEL, takes nothing
   * from the attachment of that ADD.
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
    const { ruleset, links, follower, isReplaced } = this.#parts;
    const isLinkGone = await links.remove(attachment, () => isReplaced(attachment));
    this.#withdraw(attachment, "none");
    if (hasRules(attachment)) this.#claimFreed();
    const areRulesGone = !(hasRules(attachment) || follower !== undefined) || (await ruleset.inForce());
    const isForgotten = await this.#forgetMemory(attachment);
    if (!isLinkGone) {
      throw new DrawbridgeError("ERR_UNAVAILABLE", "the link stays: it is of an attachment that came later");
    }
    if (areRulesGone && isForgotten) return;
    // The caller then does it (cni/node_rules/without_policyd.ts), also for rules that an earlier daemon has left in force.
    const reason = ruleset.status().lastError ?? "nothing is written before all objects are read";
    const what = areRulesGone ? "its flows stay" : `its rules stay: ${reason}`;
    throw new DrawbridgeError("ERR_UNAVAILABLE", `not all of the pod is forgotten: ${what}`);
  }

  /** Claims the elements of an attachment, without host ports and masquerade where another one holds one of them. */
  #claim(attachment: AttachmentRecord): Conflict | undefined {
    const conflict = hasRules(attachment) ? this.#holders.take(attachment) : undefined;
    const served = this.#served(attachment);
    const elements = conflict === undefined ? attachmentElements(served) : guardElements(attachment);
    this.#provideHooks(attachment, conflict === undefined);
    this.#parts.hostPorts?.attached(attachment);
    this.#parts.ruleset.claim(ownerOf(attachment), [...elements, ...this.#parts.furtherElements(attachment)]);
    return conflict;
  }

  /** Provides the hooks of an attachment's host ports and masquerade; without these, packets pass no such hook. */
  #provideHooks(attachment: AttachmentRecord, isInForce: boolean): void {
    const chains = attachmentHooks(this.#served(attachment));
    if (chains.length === 0) return;
    const provided = { table: INET_TABLE, sets: [], chains: isInForce ? chains : [] };
    this.#parts.ruleset.provide(ownerOf(attachment), provided, "urgent");
  }

  /** Returns the attachment with only the host ports that it gets. */
  #served(attachment: AttachmentRecord): AttachmentRecord {
    return this.#parts.hostPorts?.served(attachment) ?? attachment;
  }

  /** @throws DrawbridgeError when a pod that still exists holds one of the ports or addresses */
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

  /** Claims the host ports and masquerade of attachments that had to do without them, after a holder has gone. */
  #claimFreed(): void {
    for (const attachment of this.#parts.attachments.values()) {
      const isWaiting = hasRules(attachment) && !this.#holders.has(attachment) && !this.#registering.has(attachment);
      if (isWaiting) this.#claim(attachment);
    }
  }

  /** Forgets an attachment at the start, where no caller waits that could get the error. */
  #forgetEarlier(gone: AttachmentRecord): void {
    const error = problemOf(() => this.#forget(gone));
    if (error === undefined) return;
    const pod = displayName(gone);
    this.#parts.logger.error("packets of a forgotten pod may be taken for another pod's", { pod, error });
    this.#withdraw(gone, "unknown");
  }

  /**
   * Forgets an attachment whose DEL never reached us and whose address or port now belongs to another pod.
   *
   * @throws DrawbridgeError where it could still send as that pod
   */
  #forget(gone: AttachmentRecord): void {
    const { logger, endBypass } = this.#parts;
    endBypass(gone);
    logger.warn("a pod that is gone is forgotten: its address or host port belongs to another pod now", {
      pod: displayName(gone),
    });
    this.#withdraw(gone, "unknown");
  }

  /** Withdraws an attachment in one turn, so a registration that resumes later finds it gone and claims nothing. */
  #withdraw(gone: AttachmentRecord, flows: RemainingFlows): void {
    const { ruleset, attachments, follower, lateFlowDeletion } = this.#parts;
    // All this goes by names, with which another attachment may have registered meanwhile: it keeps its rules, if it has any.
    const isReplaced = (attachments.get(gone) ?? gone) !== gone;
    if (!isReplaced || this.#holders.has(gone)) {
      this.#holders.release(gone);
      this.#provideHooks(gone, false);
      this.#parts.hostPorts?.detached(gone);
      ruleset.claim(ownerOf(gone), []);
      follower?.detached(gone, flows);
    }
    if (!isReplaced) attachments.remove(gone);
    this.#registering.get(gone)?.();
    this.#registering.delete(gone);
    const held = new Set([...attachments.values()].flatMap(addressesOf));
    // Two networks may assign the same address: a pod that still has it keeps its flows.
    lateFlowDeletion?.add(addressesOf(gone).filter((address) => !held.has(address)));
  }

  /** Forgets the kernel's memory of a pod that is gone; a failure is only logged. @returns whether it succeeded */
  async #forgetMemory(attachment: AttachmentRecord): Promise<boolean> {
    try {
      await this.#parts.flows.forgetPod(attachment);
      return true;
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      this.#parts.logger.error("flows of a pod that has gone are not forgotten", {
        pod: displayName(attachment),
        error: error.message,
      });
      return false;
    }
  }

  problems(): readonly string[] {
    const { attachments, policedBridge } = this.#parts;
    return bridgeProblems(attachments.values(), policedBridge);
  }

  async stop(): Promise<void> {
    this.#parts.lateFlowDeletion?.stop();
  }
}

function addressesOf({ addresses }: AttachmentRecord): readonly Address[] {
  return addresses.map(({ address }) => address);
}

function ownerOf(name: AttachmentName): string {
  return `attachment ${attachmentKey(name)}`;
}

/**
 * Refuses a pod on another bridge than the daemon's (POD-08): the rules of policies see only that bridge's packets.
 *
 * @param bridge the daemon's; undefined where no policies are enforced
 * @throws DrawbridgeError ERR_CONFIGURATION for a pod on another bridge
 */
function demandPolicedBridge(attachment: Pick<AttachmentRecord, "bridge">, bridge: string | undefined): void {
  if (isPoliced(attachment, bridge)) return;
  throw new DrawbridgeError(
    "ERR_CONFIGURATION",
    `bridge: ${JSON.stringify(attachment.bridge)}; expected ${JSON.stringify(bridge)}, policyd's bridge, the only one on which it enforces policies: give the plugin and policyd the same bridge`,
  );
}

/** Returns one problem for all existing pods that are on another bridge, or none. */
function bridgeProblems(attachments: Iterable<AttachmentRecord>, bridge: string | undefined): readonly string[] {
  const others = [...attachments].filter((attachment) => !isPoliced(attachment, bridge));
  const [first] = others;
  if (first === undefined) return [];
  const who = displayName(first);
  return [
    `bridge: ${others.length} pods, such as ${who} on ${JSON.stringify(first.bridge)}, are not on ${JSON.stringify(bridge)}, ` +
      "so that no policy holds for them: give policyd the bridge they are on, or recreate them",
  ];
}

function isPoliced(attachment: Pick<AttachmentRecord, "bridge">, bridge: string | undefined): boolean {
  return bridge === undefined || attachment.bridge === bridge;
}
