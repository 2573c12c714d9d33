import type { DesiredBridge } from "../../cni/node_state/desired.ts";
import { desiredBridges } from "../../cni/node_state/desired.ts";
import type { NodeStateKernel, ObservedBridge, Scope, Step } from "../../cni/node_state/observed.ts";
import { EVERYTHING } from "../../cni/node_state/observed.ts";
import { problemsOf } from "../../cni/node_state/problems.ts";
import type { Problem } from "../../cni/node_state/problems.ts";
import { settle } from "../../cni/node_state/settle.ts";
import type { AttachmentRecord } from "../../ipam/attachment.ts";
import type { AttachmentName } from "../../ipam/policyd_messages.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { KernelEvents } from "../../kernel/events/events.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import { Notification } from "../../kernel/route/notification.ts";
import type { Sysctl } from "../../kernel/sysctl.ts";
import type { EndedSandboxes } from "../attachments/ended_sandboxes.ts";
import type { AttachmentRegistry } from "../attachments/registry.ts";
import { attachmentKey } from "../attachments/registry.ts";
import type { Cancel, Clock } from "../clock.ts";
import type { Dataplane } from "../dataplane.ts";
import type { Condition } from "../health/answers.ts";
import { KeptSubscription } from "../kept_subscription.ts";
import { BRIDGE, Doubts } from "./doubts.ts";
import type { Doubt, KnownBridge } from "./relevance.ts";
import { doubtOf, isNotified } from "./relevance.ts";
import type { NodeStateReport } from "./report.ts";
import { NODE_STATE } from "./report.ts";
import { surroundingKeys, surroundingProblems } from "./surroundings.ts";

/** Milliseconds between two readings of the bridges' settings of which the kernel sends no notification: some ten microseconds each. */
const SETTINGS_PERIOD = 500;
/** Readings of those after which the administrator's settings are read without a notification, too: they are only reported. */
const READINGS_BETWEEN = 10;
/**
 * Sync periods after which all ports are looked at though the kernel has notified of nothing: with 250 pods a look takes some 20 ms. The
 * bridge itself is looked at after each period, and so are the ports where something is left to repair.
 */
const QUIET_PERIODS = 10;
/** Milliseconds after which a subscription that was refused is tried again. */
const SUBSCRIPTION_RETRY = 5000;

/** Filters are asked for port by port, and the kernel notifies of every change of theirs. */
const BY_LISTS: Scope = { ...EVERYTHING, hasFilters: false };
const ONLY_BRIDGE: Scope = { ports: new Set(), ways: new Set(), hasFilters: false };

const GROUPS = [
  "link",
  "neighbour",
  "traffic-control",
  "ipv4-address",
  "ipv4-route",
  "ipv4-rule",
  "ipv4-settings",
  "ipv6-address",
  "ipv6-route",
  "ipv6-rule",
  "ipv6-settings",
] as const;

export interface NodeStateParts {
  readonly kernel: NodeStateKernel;
  readonly sysctl: Pick<Sysctl, "read">;
  readonly clock: Clock;
  readonly report: NodeStateReport;
  readonly attachments: Pick<AttachmentRegistry, "values">;
  /** The links of the node's default routes, as last read. */
  readonly uplinks: () => readonly string[];
  /** Whether nothing of a bridge may be changed, since pods of another plugin are on it (FOREIGN-02). */
  readonly isForbidden?: (bridge: string) => boolean;
  /** Milliseconds between two looks at everything. */
  readonly syncPeriod: number;
  /** Hears of links, too, and that notifications were lost. */
  readonly links?: Pick<EndedSandboxes, "take" | "lookAgain">;
}

/** One bridge with pods on it, as last looked at. */
interface Watched {
  readonly doubts: Doubts;
  known: KnownBridge;
  /** Whether nothing is left to repair or to report. */
  isRight: boolean;
  /** Whether it was left as it is at the last look. */
  isSpared: boolean;
}

/**
 * The node's side of its pods: bridges, their addresses, routes and settings, and pods' ports (../../cni/node_state/).
 *
 * It needs no objects, so it begins before the API server has answered. All is looked at then and after every sync period; in
 * between what the kernel's notifications put in doubt, so that a repair costs what it changes.
 */
export class NodeStateDataplane implements Dataplane {
  readonly #parts: NodeStateParts;
  readonly #subscription: KeptSubscription;
  readonly #watched = new Map<string, Watched>();
  /** Those whose DEL is under way: their links go, and nothing of theirs is wanted any more. */
  readonly #leaving = new Set<string>();
  #isChanged = true;
  #isLookedAt = false;
  #timer: Cancel = () => {};
  #periodic: Cancel = () => {};
  #settings: Cancel = () => {};
  #isStopped = false;
  /** Looks at only the bridges since the last one at everything. */
  #quietLooks = 0;
  #isDeaf = true;
  /** Readings of settings since the administrator's were read. */
  #readings = 0;

  constructor(parts: NodeStateParts) {
    this.#parts = parts;
    this.#subscription = new KeptSubscription({
      clock: parts.clock,
      source: { kind: "route", groups: GROUPS },
      listener: { onMessages: (messages) => this.#take(messages), onOverrun: () => this.#afterLoss() },
      retryMilliseconds: SUBSCRIPTION_RETRY,
      onRefused: (reason) => {
        const text = `changes of links and addresses are not told (${reason}), and are found after syncPeriod: it is tried again`;
        parts.report.tell("notifications", [{ text, isCut: false }]);
        this.#isDeaf = true;
        if (!this.#isLookedAt) this.#lookAtAll(EVERYTHING);
      },
      onOpen: () => {
        parts.report.tell("notifications", []);
        this.#isDeaf = false;
        this.#afterLoss();
      },
    });
  }

  /** Looks at everything, and has changes by other programs told from now on. */
  async start(events: KernelEvents): Promise<void> {
    await this.#subscription.start(events);
    this.#watchSettings();
  }

  apply(): void {}

  synced(): void {}

  async register(attachment: AttachmentRecord): Promise<void> {
    this.#leaving.delete(attachmentKey(attachment));
    this.#isChanged = true;
  }

  async unregister(attachment: AttachmentName): Promise<void> {
    this.#leaving.add(attachmentKey(attachment));
    this.#isChanged = true;
  }

  problems(): readonly string[] {
    return this.#parts.report.problems.map(({ text }) => `${NODE_STATE}: ${text}`);
  }

  /** Whether the node's pods have their network. */
  get condition(): Condition {
    return {
      name: "pods",
      missing: () => {
        if (!this.#isLookedAt) return this.#records().length === 0 ? undefined : "not looked at yet";
        return this.#parts.report.problems.find(({ isCut }) => isCut)?.text;
      },
    };
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer();
    this.#periodic();
    this.#settings();
    this.#subscription.stop();
  }

  /** Says which subjects another program keeps changing, for as long as it does. */
  #tellContests(bridge: string, doubts: Doubts): void {
    const problems = [...doubts.contested()].map((subject): Problem => {
      const what = subject === BRIDGE ? `bridge ${bridge}` : `port ${subject} of bridge ${bridge}`;
      const text = `another program keeps changing ${what}, which is repaired at most twice a second: find it (ip monitor) and have it ignore ${bridge} and dbv*`;
      return { text, isCut: false };
    });
    this.#parts.report.tell(`contests of ${bridge}`, problems);
  }

  #records(): readonly AttachmentRecord[] {
    return [...this.#parts.attachments.values()].filter((record) => !this.#leaving.has(attachmentKey(record)));
  }

  /** Has what is wanted follow the attachments. */
  #follow(): void {
    if (!this.#isChanged) return;
    this.#isChanged = false;
    const names = new Set([...this.#parts.attachments.values()].map(attachmentKey));
    for (const key of this.#leaving) if (!names.has(key)) this.#leaving.delete(key);
    const bridges = new Map(desiredBridges(this.#records()).map((desired) => [desired.name, desired]));
    for (const name of this.#watched.keys()) {
      if (bridges.has(name)) continue;
      this.#watched.delete(name);
      this.#parts.report.tell(name, []);
      this.#parts.report.tell(`contests of ${name}`, []);
    }
    for (const [name, desired] of bridges) {
      const watched = this.#watched.get(name);
      if (watched === undefined) {
        const known = { desired, index: undefined, ports: new Map() };
        this.#watched.set(name, { doubts: new Doubts(this.#parts.clock), known, isRight: false, isSpared: false });
      } else watched.known = { ...watched.known, desired };
    }
  }

  /** Notifications may be missing up to here. */
  #afterLoss(): void {
    this.#parts.links?.lookAgain();
    this.#lookAtAll(EVERYTHING);
  }

  #take(messages: readonly ReceivedMessage[]): void {
    this.#passOn(messages);
    // With the next reading: each new link is notified of, too.
    if (messages.some(({ type }) => type === Notification.NEWNETCONF)) this.#readings = READINGS_BETWEEN;
    this.#follow();
    for (const { doubts, known } of this.#watched.values()) {
      for (const message of messages) {
        const doubt = this.#doubt(message, known);
        if (doubt !== undefined) doubts.add(doubt);
      }
    }
    this.#schedule();
  }

  #passOn(messages: readonly ReceivedMessage[]): void {
    const { links } = this.#parts;
    try {
      for (const message of messages) links?.take(message);
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      links?.lookAgain();
    }
  }

  #doubt(message: ReceivedMessage, known: KnownBridge): ReturnType<typeof doubtOf> {
    try {
      return doubtOf(message, known);
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      return { kind: "everything" };
    }
  }

  #schedule(): void {
    this.#timer();
    const waits = [...this.#watched.values()].flatMap(({ doubts }) => doubts.wait ?? []);
    if (waits.length === 0 || this.#isStopped) return;
    this.#timer = this.#parts.clock.after(Math.min(...waits), () => this.#lookAtDoubts());
  }

  #lookAtDoubts(): void {
    this.#isChanged = true;
    this.#follow();
    for (const watched of this.#watched.values()) {
      const scope = watched.doubts.take();
      if (scope !== undefined) this.#look(watched, scope);
    }
    this.#schedule();
  }

  #lookAtAll(scope: Scope): void {
    this.#periodic();
    if (this.#isStopped) return;
    this.#isChanged = true;
    this.#follow();
    for (const watched of this.#watched.values()) this.#look(watched, scope);
    this.#isLookedAt = true;
    this.#quietLooks = 0;
    this.#lookAround();
    this.#lookLater();
    this.#schedule();
  }

  #lookLater(): void {
    this.#periodic = this.#parts.clock.after(this.#parts.syncPeriod, () => {
      if (this.#isDeaf || ++this.#quietLooks >= QUIET_PERIODS) return this.#lookAtAll(BY_LISTS);
      this.#isChanged = true;
      this.#follow();
      for (const watched of this.#watched.values()) this.#look(watched, watched.isRight ? ONLY_BRIDGE : BY_LISTS);
      this.#lookAround();
      this.#lookLater();
      this.#schedule();
    });
  }

  #look(watched: Watched, scope: Scope): void {
    const { kernel, report } = this.#parts;
    const { desired } = watched.known;
    watched.isSpared = this.#parts.isForbidden?.(desired.name) === true;
    if (watched.isSpared) return report.tell(desired.name, []);
    try {
      const { doubts } = watched;
      const isHeld = (step: Step): boolean => doubts.isHeld(subjectOf(step));
      const settled = settle(kernel, desired, scope, (step) => !isHeld(step));
      watched.known = knownOf(desired, settled.observed, watched.known);
      // A step that waits for its turn is not a fault of the kernel.
      const isWaiting = settled.refused.length === 0;
      const waiting = settled.remaining.filter((step) => isWaiting || isHeld(step));
      const tried = new Map(settled.tried.map((step) => [`${subjectOf(step)} ${step.part}`, step]));
      for (const step of tried.values()) doubts.repaired(subjectOf(step), step.part);
      for (const step of waiting) doubts.add(doubtAbout(step));
      report.repaired(desired.name, settled.repaired, doubts.contested().size > 0);
      const remaining = settled.remaining.filter((step) => !waiting.includes(step));
      const ways = waiting.some(({ part }) => part === "route") ? new Map() : settled.observed.ways;
      const observed = { ...settled.observed, ways };
      const problems = problemsOf(desired, { remaining, refused: settled.refused, observed });
      report.tell(desired.name, problems);
      // A part that was not looked at has not become right by that.
      const isRight = settled.remaining.length === 0 && problems.length === 0;
      watched.isRight = isRight && (watched.isRight || scope.ports === "all");
      this.#tellContests(desired.name, watched.doubts);
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      watched.isRight = false;
      report.tell(desired.name, [{ text: `bridge ${desired.name}: ${error.message}`, isCut: true }]);
    }
  }

  /** Reads what the kernel tells nobody of. */
  #watchSettings(): void {
    if (this.#isStopped) return;
    this.#settings = this.#parts.clock.after(SETTINGS_PERIOD, () => {
      for (const { doubts, known, isSpared } of this.#watched.values()) {
        // It may be ours by now.
        if (isSpared) doubts.add({ kind: "everything" });
        const isChanged = [...known.desired.settings].some(([key, value]) => {
          if (!this.#isDeaf && isNotified(key)) return false;
          const present = this.#parts.sysctl.read(key);
          return present !== undefined && present !== value;
        });
        if (isChanged) doubts.add({ kind: "bridge" });
        this.#tellContests(known.desired.name, doubts);
      }
      if (this.#isDeaf || ++this.#readings >= READINGS_BETWEEN) this.#lookAround();
      this.#schedule();
      this.#watchSettings();
    });
  }

  /** Looks at what belongs to the administrator. */
  #lookAround(): void {
    const { sysctl, report, uplinks } = this.#parts;
    this.#readings = 0;
    const families = [...new Set([...this.#watched.values()].flatMap(({ known }) => known.desired.families))];
    if (families.length === 0) return report.tell("surroundings", []);
    const links = uplinks();
    const settings = new Map(
      surroundingKeys(links).flatMap((key) => {
        const value = sysctl.read(key);
        return value === undefined ? [] : [[key, value] as const];
      }),
    );
    report.tell("surroundings", surroundingProblems({ settings, uplinks: links, families }));
  }
}

/** By what notifications are read: a look at a few ports tells only their indexes. */
function knownOf(desired: DesiredBridge, observed: ObservedBridge, before: KnownBridge): KnownBridge {
  const ports = new Map([...before.ports].filter(([, name]) => desired.ports.has(name) && !observed.ports.has(name)));
  for (const [name, { link }] of observed.ports) if (link !== undefined) ports.set(link.index, name);
  return { desired, index: observed.link?.index, ports };
}

function subjectOf(step: Step): string {
  return "port" in step ? step.port.name : BRIDGE;
}

function doubtAbout(step: Step): Doubt {
  return "port" in step ? { kind: "port", name: step.port.name, hasFilters: true } : { kind: "everything" };
}
