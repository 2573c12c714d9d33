import type { AttachmentName } from "../../../attachment/policyd_messages.ts";
import { attachmentKey, isPodOf } from "../../attachments/registry.ts";
import { namespaceOf } from "../../../objects/namespace_of.ts";
import type { Clock } from "../../lib/clock.ts";
import type { ClusterNetworkPolicy, NetworkPolicy, ObjectChange, Pod } from "../../../objects/model.ts";
import { subjectSelects } from "../compile/peer_groups.ts";
import type { PolicyOptions } from "../compile/options.ts";
import type { Slices } from "../../lib/sliced_work.ts";
import { ActiveProfiles } from "./sets/active_profiles.ts";
import { type Arrival, ChangeQueue, podGroup, objectOf } from "./change_queue.ts";
import { type ExpectedPod, ExpectedPods } from "./pods/expected_pods.ts";
import { type LocalPod, LocalPods, type PolicedAttachment, reasonToWait } from "./pods/local_pods.ts";
import { LocalVerdicts } from "./pods/local_verdicts.ts";
import { MemberIndex } from "./index/member_index.ts";
import { MemberSets } from "./sets/member_sets.ts";
import { PolicyLists, type Selection } from "./index/policy_lists.ts";
import { PodPolicies } from "./pods/pod_policies.ts";
import type { PolicyRules } from "./policy_rules.ts";
import type { RoomBounds } from "./sets/set_room.ts";
import { plainLife, RetainedPolicies } from "./index/retained_policies.ts";
import { type Priority, WorkQueue } from "./work_queue.ts";

/** The longest time in milliseconds for which pods are decided while others wait for what is decided already. */
const LONGEST_DECIDING = 200;

/** The dependencies of live policies. */
export interface LiveParts {
  readonly nodeName: string;
  readonly rules: PolicyRules;
  readonly options: PolicyOptions;
  readonly clock: Pick<Clock, "now" | "after">;
  /**
   * Whether an attachment was there before this daemon. Given where each pod's Namespace is reported sooner or later, as
   * by an API server; files may omit Namespaces (POL-24).
   */
  readonly isEarlier: ((key: string) => boolean) | undefined;
  /** The bounds of the sets of NetworkPolicies; absent for the usual ones. */
  readonly roomBounds?: RoomBounds;
}

/** A pod of this node, attached or expected. */
type OwnPod = LocalPod | ExpectedPod;

/**
 * The policies of this node's pods, by the current objects and attachments.
 *
 * Changes are queued. {@link step} does one small piece of work at a time, after which the rules may be committed:
 * whatever a chain uses exists before the chain, and the chain before anything that jumps to it. A pod that waits for
 * its rules comes before all others, together with what its policies need.
 */
export class LivePolicies {
  readonly members = new MemberIndex();
  readonly locals = new LocalPods();
  readonly profiles: ActiveProfiles;
  readonly #expected: ExpectedPods;
  readonly #sets: MemberSets;
  readonly #verdicts: LocalVerdicts;
  readonly #lists = new PolicyLists();
  readonly #policies: PodPolicies;
  readonly #retained: RetainedPolicies;
  readonly #changes = new ChangeQueue();
  /** Local pods whose arrival is still queued. */
  readonly #arriving = new Set<LocalPod>();
  /** Pods and nodes whose elements may have changed. */
  readonly #toSettle = new WorkQueue<string>(namespaceOf);
  /** Pods whose policies may have changed. */
  readonly #toDecide = new WorkQueue<OwnPod>(podGroup);
  /** Pods that wait for the switch to their wanted profiles. */
  readonly #toSwitch = new WorkQueue<OwnPod>(podGroup);
  /** The pod whose policies are being computed; this work can be restarted at any time. */
  #deciding: { readonly local: OwnPod; readonly priority: Priority; readonly work: Slices<void> } | undefined;
  #isStarted = false;
  /** Whether all changes before the start are applied. */
  #hasBegun = false;
  /** Whether the next step is a change's, though a pod waits for its rules. */
  #isChangeNext = false;
  readonly #clock: Pick<Clock, "now">;
  /** The last time at which nothing was left to settle or to switch, as far as this was asked. */
  #finished = Number.NEGATIVE_INFINITY;

  constructor({ nodeName, rules, options, clock, isEarlier, roomBounds }: LiveParts) {
    this.#clock = clock;
    this.#expected = new ExpectedPods(nodeName);
    this.#sets = new MemberSets(rules, this.members.groups, (members) => this.#settleAll(members), roomBounds);
    this.profiles = new ActiveProfiles({ rules, memberSets: this.#sets, options });
    this.#verdicts = new LocalVerdicts(rules, this.profiles, (members) => this.#settleAll(members));
    const { members, profiles } = this;
    const areNamespacesReported = isEarlier !== undefined;
    this.#policies = new PodPolicies({ lists: this.#lists, members, profiles, areNamespacesReported });
    const policiesIn = (namespace: string): Iterable<NetworkPolicy> => this.#lists.in(namespace);
    this.#retained = new RetainedPolicies({ clock, isEarlier, policiesIn });
  }

  /** Queues changes of objects. */
  change(changes: readonly ObjectChange[]): void {
    for (const change of changes) this.#changes.add(change);
  }

  /** Notes that all objects have arrived once: policies are computed from now on. */
  start(): void {
    this.#isStarted = true;
  }

  /** Adds a pod that is attached now or was before; it replaces one with the same name. */
  attach(attachment: PolicedAttachment): void {
    const { pod } = attachment;
    const key = attachmentKey(attachment);
    const before = this.locals.get(key);
    if (pod !== undefined) this.members.groups.hold(pod.namespace, key);
    if (before !== undefined) this.#forget(before);
    if (before?.life?.namespace !== pod?.namespace) this.members.groups.release(before?.life?.namespace, key);
    const life = pod && this.#retained.enter(pod.namespace, key, before?.life);
    if (life === undefined) this.#retained.leave(before?.life, key);
    const local = this.locals.add(attachment, life);
    this.#arriving.add(local);
    this.#changes.add({ type: "arrival", local });
    this.#decideLater(local);
  }

  /** Removes a pod; does nothing for an unknown one. */
  detach(name: AttachmentName): void {
    const local = this.locals.get(attachmentKey(name));
    if (local === undefined) return;
    this.#forget(local);
    this.members.groups.release(local.life?.namespace, local.key);
    this.#retained.leave(local.life, local.key);
  }

  /**
   * Does one piece of the outstanding work, the most urgent first. Urgent work and changes take turns; other work waits
   * for all changes, and so does all work at the start.
   *
   * @returns whether there was any work
   */
  step(): boolean {
    this.#hasBegun ||= this.#isStarted && this.#changes.size === 0;
    if (!this.#hasBegun) return this.#applyNext();
    this.#retained.begin();
    this.#isChangeNext = !this.#isChangeNext;
    if (this.#isChangeNext && this.#applyNext()) return true;
    if (this.#work("urgent") || this.#applyNext()) return true;
    return this.#work("usual") || this.#sets.room.retry() || this.#openClosed();
  }

  /** @returns whether there was a change */
  #applyNext(): boolean {
    const change = this.#changes.take();
    if (change !== undefined) this.#apply(change);
    return change !== undefined;
  }

  /** Queues the pods with closed policies for whose sets there is room by now. @returns whether there are any */
  #openClosed(): boolean {
    const openable = this.profiles.takeOpenable([...this.locals.values(), ...this.#expected.values()]);
    for (const local of openable) this.#decideLater(local);
    return openable.length > 0;
  }

  /**
   * Does one piece of work of a priority: decide comes before settle, and settle before switch. The last two wait for
   * {@link LONGEST_DECIDING} at most, since a tenant can keep its pods to be decided all the time.
   */
  #work(priority: Priority): boolean {
    if (priority === "usual" && this.#clock.now() - this.#finished > LONGEST_DECIDING) {
      if (this.#finish(priority)) return true;
      this.#finished = this.#clock.now();
    }
    return (
      this.#goOnDeciding(priority) ||
      this.#toDecide.takeAnd(priority, (local) => this.#beginDeciding(local, priority), this.#changes.isReady) ||
      this.#finish(priority)
    );
  }

  #finish(priority: Priority): boolean {
    if (this.#toSettle.takeAnd(priority, (key) => this.#sets.settle(key, this.members.member(key)))) return true;
    return this.#toSwitch.takeAnd(priority, (local) => this.#switch(local), this.#changes.isReady);
  }

  /** Whether the rules of an attachment are claimed. @param key the attachment's */
  isClaimed(key: string): boolean {
    return this.locals.get(key)?.claimed !== undefined;
  }

  /** Returns why an attachment may send and receive nothing; undefined if it may. @param key the attachment's */
  awaits(key: string): string | undefined {
    const local = this.locals.get(key);
    if (local === undefined || local.claimed !== undefined) return undefined;
    if (!this.#isStarted) return "policyd has not read all objects yet";
    const isWorkedOn =
      local.wanted !== undefined || this.#changes.size + this.#toDecide.size > 0 || this.#deciding?.local === local;
    return reasonToWait(local, isWorkedOn);
  }

  /** The numbers of the sets of groups, for the metrics; a profile without room for its sets counts as one of them. */
  setTotals(): ReturnType<MemberSets["totals"]> {
    return { ...this.#sets.totals(), closed: this.#sets.room.lacking.size + this.profiles.closed };
  }

  /** The policies that select a pod. */
  policiesOf(pod: Pod): Selection {
    const [local] = this.locals.ofPod(pod.key);
    const life = local?.life ?? plainLife(pod.namespace);
    return this.#policies.selectionOf(pod, life);
  }

  /** The present problems, for the status. */
  problems(): readonly string[] {
    const problems = [...this.profiles.problems()];
    for (const { key, podKey, attachment } of this.locals.values()) {
      const reason = this.awaits(key);
      if (reason !== undefined) {
        problems.push(`pod ${podKey ?? attachment.containerId} sends and receives nothing: ${reason}`);
      }
    }
    return problems;
  }

  #apply(change: ObjectChange | Arrival): void {
    if (change.type === "arrival") {
      if (this.#arriving.delete(change.local)) this.#takePod(change.local);
      return;
    }
    const { key } = change;
    switch (change.kind) {
      case "Pod": {
        const members = this.members.setPod(key, objectOf(change, "Pod"));
        for (const local of this.locals.ofPod(key)) {
          if (this.#arriving.has(local)) continue;
          this.#takePod(local);
          this.#decideLater(local);
        }
        this.#expect(key);
        // After the members that have the addresses now: a set that denies these addresses is never without them.
        this.#settleChanged(members);
        break;
      }
      case "Node":
        this.#settleChanged(this.members.setNode(key, objectOf(change, "Node")));
        break;
      case "Namespace":
        this.#setNamespace(change);
        break;
      case "NetworkPolicy":
        this.#setNetworkPolicy(change);
        break;
      case "ClusterNetworkPolicy": {
        const policy = objectOf(change, "ClusterNetworkPolicy");
        const before = this.#lists.setClusterPolicy(key, policy);
        this.#decideSelected([...this.locals.values(), ...this.#expected.values()], before, policy);
        break;
      }
      case "Service":
      case "EndpointSlice":
      case "ServiceCIDR":
        break;
    }
  }

  #setNamespace(change: ObjectChange): void {
    const { key } = change;
    const namespace = objectOf(change, "Namespace");
    const { identities, members } = this.members.setNamespace(key, namespace);
    for (const identity of identities) this.#sets.groupsChanged(identity);
    this.#settleAll(members);
    const isChanged = this.#retained.namespaceChanged(key, namespace);
    if (!isChanged && !this.#lists.hasClusterPolicies) return;
    for (const local of this.#ofNamespace(key)) this.#decideLater(local);
  }

  #setNetworkPolicy(change: ObjectChange): void {
    const policy = objectOf(change, "NetworkPolicy");
    const before = this.#lists.setNetworkPolicy(change.key, policy);
    if (policy !== undefined) this.#retained.policySet(policy);
    else if (before !== undefined) this.#retained.policyDeleted(before);
    const namespace = (policy ?? before)?.namespace;
    if (namespace !== undefined) this.#decideSelected(this.#ofNamespace(namespace), before, policy);
  }

  #ofNamespace(namespace: string): readonly OwnPod[] {
    return [...this.locals.ofNamespace(namespace), ...this.#expected.ofNamespace(namespace)];
  }

  /** Queues the pods that one of the versions of a policy selects, and those whose labels are not known. */
  #decideSelected(
    locals: Iterable<OwnPod>,
    ...versions: readonly (NetworkPolicy | ClusterNetworkPolicy | undefined)[]
  ): void {
    for (const local of locals) {
      const subject = this.#policies.subjectOf(local);
      const isSelected = versions.some(
        (policy) => policy && (subject === undefined || subjectSelects(policy, subject)),
      );
      if (isSelected) this.#decideLater(local);
    }
  }

  /** Queues a pod, urgently if it has nothing in force yet: somebody waits for it. */
  #decideLater(local: OwnPod): void {
    this.#toDecide.add(local, local.type === "attached" && local.claimed === undefined ? "urgent" : "usual");
  }

  #forget(local: LocalPod): void {
    this.locals.remove(local);
    this.#arriving.delete(local);
    this.#forgetWork(local);
    this.#settleChanged(this.members.setAttachment(local.key, undefined, undefined));
    this.#verdicts.close(local);
    if (local.podKey !== undefined) this.#expect(local.podKey);
  }

  #forgetWork(local: OwnPod): void {
    this.#toDecide.delete(local);
    if (this.#deciding?.local === local) this.#deciding = undefined;
    this.#toSwitch.delete(local);
  }

  /** Keeps what a Pod's policies need in force while its ADD is expected and until its attachment has rules. */
  #expect(podKey: string): void {
    const { changed, gone } = this.#expected.take(podKey, this.members.pod(podKey), this.locals.ofPod(podKey));
    if (changed !== undefined) this.#decideLater(changed);
    if (gone === undefined) return;
    this.#forgetWork(gone);
    this.#verdicts.close(gone);
  }

  /** After the switch, an attached pod holds what was prepared for it. */
  #switch(local: OwnPod): void {
    this.#verdicts.switch(local);
    this.#expectAgain(local);
  }

  /** Updates whether the Pod of an attached pod is expected: it may be again, or no longer. */
  #expectAgain(local: OwnPod): void {
    if (local.type === "attached" && local.podKey !== undefined) this.#expect(local.podKey);
  }

  #settleAll(keys: Iterable<string>, priority: Priority = "usual"): void {
    for (const key of keys) this.#toSettle.add(key, priority);
  }

  /**
   * Queues members whose addresses have changed. An address that moves is first added to its new member, so that a set
   * that denies both is never without it. It is removed from the old member before any pod gets rules with it. Both go
   * before the members that are queued already.
   */
  #settleChanged(keys: ReadonlySet<string>): void {
    const isMove = keys.size > 1;
    for (const key of keys) {
      if (isMove) this.#toSettle.delete(key);
      this.#toSettle.add(key, isMove ? "urgent" : "usual");
    }
  }

  /** Records the Pod of an attachment, if it exists. */
  #takePod(local: LocalPod): void {
    const pod = local.podKey === undefined ? undefined : this.members.pod(local.podKey);
    const own = pod !== undefined && isPodOf(local.attachment, pod) ? pod : undefined;
    local.pod = own ?? local.pod;
    this.#settleChanged(this.members.setAttachment(local.key, local.addresses, local.pod));
  }

  #beginDeciding(local: OwnPod, priority: Priority): void {
    // An urgent pod interrupts the work on another, which is restarted later: its compiled policies are retained.
    if (this.#deciding !== undefined) this.#decideLater(this.#deciding.local);
    this.#deciding = { local, priority, work: this.#policies.ahead(local) };
    this.#goOnDeciding(priority);
  }

  /** @returns whether anything was done */
  #goOnDeciding(priority: Priority): boolean {
    const deciding = this.#deciding;
    if (deciding === undefined || deciding.priority !== priority || !this.#changes.isReady(podGroup(deciding.local)))
      return false;
    if (deciding.work.next().done !== true) return true;
    this.#deciding = undefined;
    this.#decide(deciding.local, priority);
    this.profiles.forgetPrepared();
    return true;
  }

  #decide(local: OwnPod, priority: Priority): void {
    const profiles = this.#policies.profilesOf(local);
    if (profiles === undefined) {
      this.#verdicts.close(local);
      return this.#expectAgain(local);
    }
    this.#verdicts.want(local, profiles, (members) => this.#settleAll(members, priority));
    this.#toSwitch.add(local, priority);
  }
}
