import { type DesiredBridge, desiredBridges } from "../../cni/node_state/desired.ts";
import {
  EVERYTHING,
  type NodeStateKernel,
  type ObservedBridge,
  type Scope,
  type Step,
} from "../../cni/node_state/observed.ts";
import { type Problem, problemsOf } from "../../cni/node_state/problems.ts";
import { settle } from "../../cni/node_state/settle.ts";
import type { AttachmentRecord } from "../../attachment/attachment.ts";
import type { AttachmentName } from "../../attachment/policyd_messages.ts";
import { attempt, DrawbridgeError } from "../../kernel/error.ts";
import type { KernelNotifications } from "../../kernel/notifications/notifications.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import { Notification } from "../../kernel/route/notification.ts";
import type { Sysctl } from "../../kernel/sysctl.ts";
import { attachmentKey, type AttachmentRegistry } from "../attachments/registry.ts";
import type { Clock } from "../lib/clock.ts";
import { ControlLoop, type NextPass } from "../lib/control_loop.ts";
import type { Condition, PodGate } from "../component.ts";
import { remarkText } from "../problems/problem.ts";
import { RenewedSubscription } from "../lib/renewed_subscription.ts";
import { BRIDGE, Doubts, ONLY_BRIDGE } from "./doubts.ts";
import { type Doubt, doubtOf, isNotified, type KnownBridge } from "./relevance.ts";
import type { NodeStateReport } from "./report.ts";
import { surroundingKeys, surroundingProblems } from "./surroundings.ts";

/** Milliseconds between reads of settings without kernel notifications; each takes some ten microseconds. */
const SETTINGS_PERIOD = 500;
/** Number of these reads after which the administrator's settings, which are only reported, are read as well. */
const READINGS_BETWEEN = 10;
/**
 * Sync periods after which all ports are checked without a notification: with 250 pods that takes some 20 ms. The
 * bridge itself is checked in each period, and the ports as well while something remains to be repaired.
 */
const QUIET_PERIODS = 10;

/** Excludes filters, which take one request for each port; the kernel notifies of all their changes. */
const BY_LISTS: Scope = { ...EVERYTHING, hasFilters: false };

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

/** Learns from the kernel's messages what has become of links. */
export interface LinkFollower {
  /** Receives RTM_NEWLINK and RTM_DELLINK messages. @throws DrawbridgeError when one cannot be parsed */
  take(messages: readonly ReceivedMessage[]): void;
  /** Reads what the links are now: messages may have been lost. */
  lookAgain(): void;
}

export interface NodeStateParts {
  readonly kernel: NodeStateKernel;
  readonly sysctl: Pick<Sysctl, "read">;
  readonly clock: Clock;
  readonly report: NodeStateReport;
  readonly attachments: Pick<AttachmentRegistry, "values">;
  /** Returns the links of the node's default routes, as last read. */
  readonly uplinks: () => readonly string[];
  /** Whether a bridge must not be changed, since pods of another plugin are on it (FOREIGN-02). */
  readonly isForbidden?: (bridge: string) => boolean;
  /** Milliseconds between two complete checks. */
  readonly syncPeriod: number;
  readonly links: readonly LinkFollower[];
  /** Called when addresses of links may have changed: in each sync period while no notifications arrive. */
  readonly onAddresses: () => void;
}

/** A bridge with pods, as of the last check. */
interface Watched {
  readonly doubts: Doubts;
  known: KnownBridge;
  /** Whether nothing remains to be repaired or reported. */
  isRight: boolean;
  /** Whether the last check left it unchanged on purpose. */
  isSpared: boolean;
}

/**
 * Reconciles the node's side of its pods: bridges with their addresses, routes and settings, and pods' ports
 * (../../cni/node_state/).
 *
 * It needs no objects, so it starts before the API server has answered. Everything is checked at the start and after
 * every sync period; in between only the parts that notifications mark as dirty, so that a repair costs only what it
 * changes.
 */
export class NodeStateReconciler implements PodGate {
  readonly #parts: NodeStateParts;
  readonly #subscription: RenewedSubscription;
  readonly #watched = new Map<string, Watched>();
  /** Attachments whose DEL is in progress: their links go, and nothing of theirs is desired. */
  readonly #leaving = new Set<string>();
  #isChanged = true;
  #isLookedAt = false;
  /** Whether changes may have been missed since the last complete check. */
  #isLost = true;
  /** Checks what is dirty. */
  readonly #dirty: ControlLoop;
  /** Checks everything. */
  readonly #complete: ControlLoop;
  /** Reads the settings for which the kernel sends no notifications. */
  readonly #settings: ControlLoop;
  /** Checks of only the bridges since the last complete one. */
  #quietLooks = 0;
  /** Reads of settings since the administrator's were last read. */
  #readings = 0;

  constructor(parts: NodeStateParts) {
    this.#parts = parts;
    const { clock } = parts;
    this.#dirty = new ControlLoop({ clock, pass: () => this.#lookAtDoubts() });
    this.#complete = new ControlLoop({ clock, pass: () => this.#lookAtAll() });
    this.#settings = new ControlLoop({ clock, pass: () => this.#readSettings() });
    this.#subscription = new RenewedSubscription({
      clock,
      source: { kind: "route", groups: GROUPS },
      listener: { onMessages: (messages) => this.#take(messages), onOverrun: () => this.#afterLoss() },
      onRefused: (reason) => {
        const text = `the kernel does not report changes of links and addresses (${reason}): they are found after syncPeriod; policyd retries`;
        parts.report.tell("notifications", [{ text, isCut: false }]);
        if (!this.#isLookedAt) this.#complete.run();
      },
      onOpen: () => {
        parts.report.tell("notifications", []);
        this.#afterLoss();
      },
    });
  }

  /** Subscribes to notifications, checks everything, and starts to read the settings. */
  async start(events: KernelNotifications): Promise<void> {
    await this.#subscription.start(events);
    this.#settings.within(SETTINGS_PERIOD);
  }

  /** Marks the pod's port as dirty: the kernel may have reported its link before the plugin's registration was read. */
  async register(attachment: AttachmentRecord): Promise<void> {
    const { bridge, hostInterface } = attachment;
    this.#leaving.delete(attachmentKey(attachment));
    this.#isChanged = true;
    if (!this.#watched.has(bridge)) this.#follow();
    this.#watched.get(bridge)?.doubts.add({ kind: "port", name: hostInterface, hasFilters: true });
    this.#schedule();
  }

  async unregister(attachment: AttachmentName): Promise<void> {
    this.#leaving.add(attachmentKey(attachment));
    this.#isChanged = true;
  }

  problems(): readonly string[] {
    return this.#parts.report.lines();
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
    this.#subscription.stop();
    for (const loop of [this.#dirty, this.#complete, this.#settings]) await loop.stop();
  }

  /** Reports the subjects that another program keeps changing, as long as it does. */
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

  /** Computes the desired bridges from the attachments again. */
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

  /** Checks everything after notifications may have been lost. */
  #afterLoss(): void {
    for (const follower of this.#parts.links) follower.lookAgain();
    this.#parts.onAddresses();
    this.#isLost = true;
    this.#complete.run();
  }

  #take(messages: readonly ReceivedMessage[]): void {
    this.#passOn(messages);
    // The next read includes these settings; it is not immediate, since each new link causes this notification too.
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
    const { NEWADDR, DELADDR } = Notification;
    if (messages.some(({ type }) => type === NEWADDR || type === DELADDR)) this.#parts.onAddresses();
    const ofLinks = messages.filter(({ type }) => type === Notification.NEWLINK || type === Notification.DELLINK);
    if (ofLinks.length === 0) return;
    for (const follower of this.#parts.links) {
      attempt(
        () => follower.take(ofLinks),
        () => follower.lookAgain(),
      );
    }
  }

  #doubt(message: ReceivedMessage, known: KnownBridge): ReturnType<typeof doubtOf> {
    return attempt(
      () => doubtOf(message, known),
      () => ({ kind: "everything" }),
    );
  }

  #schedule(): void {
    for (const { doubts } of this.#watched.values()) if (doubts.wait !== undefined) this.#dirty.within(doubts.wait);
  }

  #lookAtDoubts(): NextPass {
    this.#isChanged = true;
    this.#follow();
    for (const watched of this.#watched.values()) {
      const scope = watched.doubts.take();
      if (scope !== undefined) this.#look(watched, scope);
    }
    this.#schedule();
    return undefined;
  }

  #lookAtAll(): NextPass {
    const areAllDue = this.#isDeaf || ++this.#quietLooks >= QUIET_PERIODS;
    const scopeOf = ({ isRight }: Watched): Scope => (isRight && !areAllDue ? ONLY_BRIDGE : BY_LISTS);
    this.#isChanged = true;
    this.#follow();
    for (const watched of this.#watched.values()) this.#look(watched, this.#isLost ? EVERYTHING : scopeOf(watched));
    if (this.#isLost || areAllDue) this.#quietLooks = 0;
    this.#isLost = false;
    this.#isLookedAt = true;
    this.#lookAround();
    this.#schedule();
    if (this.#isDeaf) this.#parts.onAddresses();
    return this.#parts.syncPeriod;
  }

  get #isDeaf(): boolean {
    return this.#subscription.refusal !== undefined;
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
      // A step that waits for its turn is not the kernel's fault.
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
      // A part that was not checked cannot have become right.
      const isRight = settled.remaining.length === 0 && problems.length === 0;
      watched.isRight = isRight && (watched.isRight || scope.ports === "all");
      this.#tellContests(desired.name, watched.doubts);
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      watched.isRight = false;
      report.tell(desired.name, [{ text: `bridge ${desired.name}: ${error.message}`, isCut: true }]);
    }
  }

  #readSettings(): NextPass {
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
    return SETTINGS_PERIOD;
  }

  /** Checks the settings that belong to the administrator. */
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
    const found = surroundingProblems({ settings, uplinks: links, families });
    report.tell(
      "surroundings",
      found.map(({ code, remark }) => ({ code, text: remarkText(remark), isCut: remark.severity === "error" })),
    );
  }
}

/** Updates the link indexes that notifications are matched by; a check of a few ports reads only their indexes. */
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
