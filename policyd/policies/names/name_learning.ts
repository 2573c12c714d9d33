import { type Address, familyOf, formatAddress } from "../../../kernel/ip/address.ts";
import type { ConntrackFilter } from "../../../kernel/conntrack/filter.ts";
import type { FlowTuples } from "../../../kernel/conntrack/flow_tuples.ts";
import { flowQuestions } from "../../../kernel/conntrack/flows_of_addresses.ts";
import { problemOf } from "../../../kernel/error.ts";
import type { Element } from "../../../kernel/nftables/model/object.ts";
import type { Nftables } from "../../../kernel/nftables/socket.ts";
import type { KernelNotifications } from "../../../kernel/notifications/notifications.ts";
import { parseIpHeader } from "../../../kernel/packets/ip_header.ts";
import { isInDomain } from "../../../objects/domain_name.ts";
import { namespaceOf } from "../../../objects/namespace_of.ts";
import { ControlLoop, type NextPass } from "../../lib/control_loop.ts";
import { RateLimiter } from "../../lib/rate_limiter.ts";
import type { Fields } from "../../log/logger.ts";
import type { Ruleset } from "../../ruleset/ruleset.ts";
import { elementOwner, isContainer, knownElement, MOST_KNOWN, nameSetNamed, nameSets } from "../compile/name_rules.ts";
import { POLICY_TABLE } from "../compile/policy_table.ts";
import type { NamedPod } from "../live/policy_view.ts";
import type { ChangedVerdicts, PolicyFollower } from "../live/policy_follower.ts";
import { AnswerPackets } from "./answer_packets.ts";
import { AnswerReader, type AnswerReaderParts } from "./answer_reader.ts";
import { type DnsAnswer, parseDnsAnswer } from "./dns_answer.ts";
import { type ElementPlace, groupsWith, type KnownAddress, KnownAddresses } from "./known_addresses.ts";
import { learn, type LearnedAddress } from "./addresses_in_answer.ts";
import { knownByPolicy, type KnownName } from "./known_by_policy.ts";
import type { Change } from "../../../kernel/nftables/encode/change.ts";

export interface NameLearningParts extends AnswerReaderParts {
  /** The pods of this node whose policies in force have domain names. */
  readonly namedPods: () => readonly NamedPod[];
  /** Whether an address is a pod's or a node's. */
  readonly isOfCluster: (address: Address) => boolean;
  /** Its names never count, whatever patterns of policies stand for. */
  readonly clusterDomain: string;
  readonly kernel: Pick<Nftables, "sets" | "elements">;
  readonly ruleset: Pick<Ruleset, "commitBeside">;
  /** Shows all flows that match the filters, and perhaps others. @throws DrawbridgeError (by the promise) */
  readonly eachFlow: (asked: readonly ConntrackFilter[], see: (flow: FlowTuples) => void) => Promise<void>;
}

/** The numbers of everything learned and refused so far. */
export interface NameCounts {
  /** Addresses that pods know now or did. */
  readonly known: number;
  /** Answers that gave addresses to pods. */
  readonly answers: number;
  /** Addresses that names outside of the cluster must not have. */
  readonly refused: number;
  /** Addresses that had to go for others, or were too many at once. */
  readonly dropped: number;
  /** How often the kernel had no room for further answers. */
  readonly overruns: number;
}

const MOST_OF_POD = 4096;
/** The least by which an address counts longer to be written again: a pod may ask for it all the time. */
const RENEWAL_MILLISECONDS = 1000;
/** The milliseconds between two looks for connections. */
const LOOK_PERIOD = 20_000;
/** A look is about the addresses that end within these milliseconds: connections outlive as much without a daemon. */
const LOOK_AHEAD = 600_000;
/** The milliseconds for which a connection that is found keeps an address, so that not every look writes it again. */
const KEPT_BY_CONNECTION = 1.5 * LOOK_AHEAD;
/** The milliseconds from a refused write to the next attempt. */
const RETRY_PERIOD = 1000;
/** Each new address costs a change of the kernel's sets, and a name can have any number of them. */
const LEARNING_RATE = { burst: MOST_OF_POD, period: 10 } as const;

/**
 * Learns from DNS answers which addresses stand for the domain names of policies, for each pod that asked, and writes
 * them into the sets of the rules. The kernel removes them when their time is over. They stay when the daemon ends, and
 * the next one reads them: an element's comment has its container and its name.
 */
export class NameLearning implements PolicyFollower {
  readonly #parts: NameLearningParts;
  readonly #known = new KnownAddresses({ perPod: MOST_OF_POD, perNode: MOST_KNOWN });
  readonly #packets = new AnswerPackets();
  readonly #reader: AnswerReader;
  readonly #keeping: ControlLoop;
  readonly #writing: ControlLoop;
  #events: KernelNotifications | undefined;
  /** By each of its addresses. */
  #pods: ReadonlyMap<Address, NamedPod> = new Map();
  /** The container of each pod that knows addresses, and what bounds how many it learns, by the pod's address. */
  readonly #learners = new Map<Address, { readonly container: string; readonly rate: RateLimiter }>();
  /** The keys of all groups of these pods. */
  #groups: ReadonlySet<string> = new Set();
  /** Whether the kernel refused what was written last. */
  #isRefused = false;
  #counts = { answers: 0, refused: 0, dropped: 0 };
  #lastError: string | undefined;

  constructor(parts: NameLearningParts) {
    this.#parts = parts;
    this.#reader = new AnswerReader(parts, (packets) => this.#take(packets));
    this.#keeping = new ControlLoop({
      clock: parts.clock,
      pass: () => this.#keepConnected(),
      pause: () => LOOK_PERIOD,
    });
    this.#writing = new ControlLoop({ clock: parts.clock, pass: () => this.#write() });
  }

  /** Allows to read answers; they are read while a pod's policies have names. */
  start(events: KernelNotifications): void {
    this.#events = events;
    this.#read();
  }

  /** Returns the names for which a pod has got an address, however long ago. */
  knownNames(pod: Address, remote: Address): readonly string[] {
    return [...this.#known.namesOf(pod, remote).keys()];
  }

  /** Returns the name by which a pod knows an address now, the last for which it got an answer; undefined without one. */
  nameOf(pod: Address, remote: Address): string | undefined {
    const now = this.#parts.clock.now();
    return [...this.#known.namesOf(pod, remote)].findLast(([name, until]) => name !== "" && until > now)?.[0];
  }

  /** Returns what pods know now by the names of policies. @param most the number of addresses for each policy */
  knownByPolicy(most: number): ReadonlyMap<string, readonly KnownName[]> {
    return knownByPolicy(this.#pods, this.#known, this.#parts.clock.now(), most);
  }

  /** Reads what an earlier daemon left. */
  async prepare(): Promise<void> {
    const { kernel, clock, clusterDomain } = this.#parts;
    const now = clock.now();
    this.#orReport("the addresses that pods know by names cannot be read: pods have to ask again", () => {
      for (const { name } of kernel.sets(POLICY_TABLE)) {
        const named = nameSetNamed(name ?? "");
        if (named === undefined) continue;
        for (const element of kernel.elements(POLICY_TABLE, named.set)) {
          const [found, [pod, remote]] = [elementOwner(element), element.key];
          if (found === undefined || !isAddress(pod) || !isAddress(remote)) continue;
          // It may have counted under another setting. The kernel ends it.
          if (isInDomain(clusterDomain, found.name)) continue;
          this.#known.learn(pod, remote, found.name, now + (element.expiration ?? 0), [named.key]);
          this.#learner(pod, found.container);
        }
      }
    });
  }

  /** Fills the sets of pods with what they know already, and empties them of what former pods knew. */
  rulesInForce(): void {
    const before = this.#pods;
    this.#pods = new Map(this.#parts.namedPods().flatMap((pod) => pod.addresses.map((address) => [address, pod])));
    this.#groups = new Set([...this.#pods.values()].flatMap(({ groups }) => groups.map(({ key }) => key)));
    for (const [address, { container }] of this.#learners) {
      const pod = this.#pods.get(address);
      if (pod !== undefined && isContainer(pod.container, container)) continue;
      this.#learners.delete(address);
      this.#known.forget(address);
    }
    for (const [address, pod] of this.#pods) {
      if (before.get(address)?.groups !== pod.groups) this.#drop(this.#known.regroup(address, pod.groups));
    }
    this.#writeDirty();
    this.#read();
  }

  /** "all" also means that the sets may be empty now. */
  verdictsChanged({ addresses }: ChangedVerdicts): void {
    if (addresses !== "all") return;
    for (const address of this.#pods.keys()) this.#known.markAll(address);
    this.#writeDirty();
  }

  counts(): NameCounts {
    return { known: this.#known.size, ...this.#counts, overruns: this.#reader.overruns };
  }

  problems(): readonly string[] {
    const lastError = this.#lastError === undefined ? [] : [`domain names: ${this.#lastError}`];
    return [...this.#reader.problems(), ...lastError];
  }

  stop(): void {
    this.#reader.stop();
    void this.#keeping.stop();
    void this.#writing.stop();
  }

  #read(): void {
    if (this.#pods.size === 0) return this.#reader.stop();
    if (this.#events !== undefined) this.#reader.start(this.#events);
    this.#keeping.within(LOOK_PERIOD);
  }

  /** Keeps the addresses whose time ends soon while the pod has a connection to them. */
  async #keepConnected(): Promise<NextPass> {
    if (this.#pods.size === 0) return undefined;
    const now = this.#parts.clock.now();
    const end = now + LOOK_AHEAD;
    const ending = this.#known.endingBetween(now, end).filter(({ pod }) => this.#pods.has(pod));
    if (ending.length === 0) return LOOK_PERIOD;
    const byPod = Map.groupBy(ending, ({ pod }) => pod);
    const remotes = new Map([...byPod].map(([own, all]) => [own, new Map(all.map((one) => [one.remote, one]))]));
    const connected = new Set<KnownAddress>();
    const see = ({ original, reply }: FlowTuples): void => {
      const found = remotes.get(original.source)?.get(reply.source);
      if (found !== undefined) connected.add(found);
    };
    await this.#parts.eachFlow(flowQuestions(new Set(byPod.keys())), see).catch((error: unknown) =>
      this.#orReport("the connections of pods that know addresses by names cannot be read", () => {
        throw error;
      }),
    );
    const later = this.#parts.clock.now();
    for (const entry of connected) this.#known.prolong(entry, later, later + KEPT_BY_CONNECTION);
    this.#writeDirty();
    return LOOK_PERIOD;
  }

  #take(packets: readonly Uint8Array[]): void {
    // After failures the elements that wait have a bound, too.
    if (this.#known.dirty.size > MOST_KNOWN) return;
    for (const packet of packets) {
      const ip = parseIpHeader(packet);
      const pod = ip && this.#pods.get(ip.destination);
      if (ip === undefined || pod === undefined) continue;
      for (const message of this.#packets.messagesIn(ip, packet)) {
        const answer = parseDnsAnswer(message);
        if (answer !== undefined) this.#learn(pod, answer);
      }
    }
    this.#writeDirty();
  }

  #learn(pod: NamedPod, answer: DnsAnswer): void {
    const { name } = answer;
    const keys = groupsWith(pod.groups, name);
    if (keys.size === 0) return;
    const { clusterDomain, isOfCluster } = this.#parts;
    const isInside = isInDomain(clusterDomain, name);
    const { addresses, refused } = learn(answer, (address) => isInside || isOfCluster(address));
    this.#refuse(pod, name, refused);
    if (addresses.length > 0) this.#counts.answers++;
    const dropped: Pick<KnownAddress, "pod">[] = [];
    for (const learned of addresses) {
      const ofFamily = pod.addresses.filter((own) => familyOf(own) === familyOf(learned.address));
      for (const own of ofFamily) dropped.push(...this.#learnAddress(pod, own, learned, name, keys));
    }
    this.#drop(dropped);
  }

  /** @param groups those of the pod that have the name @returns the addresses that do not count, by the pods' own */
  #learnAddress(
    { container }: NamedPod,
    own: Address,
    { address: remote, milliseconds }: LearnedAddress,
    name: string,
    groups: ReadonlySet<string>,
  ): readonly Pick<KnownAddress, "pod">[] {
    const now = this.#parts.clock.now();
    const known = this.#known.namesOf(own, remote).get(name) ?? now;
    if (now + milliseconds - known < RENEWAL_MILLISECONDS) {
      // A pod that still asks for an address does not lose it as the oldest one.
      this.#known.learn(own, remote, name, known, []);
      return [];
    }
    if (!this.#learner(own, container).rate.take(now, groups.size)) return [{ pod: own }];
    return this.#known.learn(own, remote, name, now + milliseconds, groups);
  }

  #learner(own: Address, container: string): { readonly rate: RateLimiter } {
    const learner = this.#learners.get(own) ?? { container, rate: new RateLimiter(LEARNING_RATE) };
    this.#learners.set(own, learner);
    return learner;
  }

  #refuse(pod: NamedPod, name: string, [address, ...others]: readonly Address[]): void {
    if (address === undefined) return;
    this.#counts.refused += 1 + others.length;
    this.#warn("a DNS answer gives an outside name an address of the inside, which does not count for policies", pod, {
      name,
      address: formatAddress(address),
    });
  }

  #drop(dropped: readonly Pick<KnownAddress, "pod">[]): void {
    this.#counts.dropped += dropped.length;
    for (const pod of new Set(dropped.flatMap((one) => this.#pods.get(one.pod) ?? [])))
      this.#warn("a pod learns too many addresses by names: the oldest or the newest do not count", pod);
  }

  #warn(message: string, { podKey: pod }: NamedPod, fields: Fields = {}): void {
    this.#parts.logger.warn(message, { pod, ...fields }, pod && namespaceOf(pod));
  }

  /** Writes the elements that have changed; after a failure the next attempt does it. */
  #writeDirty(): void {
    if (!this.#isRefused) this.#writing.run();
  }

  #write(): NextPass {
    const { dirty } = this.#known;
    const now = this.#parts.clock.now();
    // The sets of all other groups are gone, and the kernel ends what has had its time.
    const places = [...dirty.values()].filter(
      (place) => this.#groups.has(place.group) && (this.#known.longest(place)?.until ?? Infinity) > now,
    );
    const sets = bySet(places);
    // After a refusal each set by itself: one that is full does not hold up the others.
    const batches = this.#isRefused ? sets.map((set) => [set]) : [sets];
    dirty.clear();
    this.#isRefused = false;
    if (places.length === 0) return undefined;
    this.#lastError = undefined;
    for (const batch of batches) {
      const isWritten = this.#orReport("addresses that pods know by names cannot be written", () =>
        this.#parts.ruleset.commitBeside(
          batch.flatMap((set) => replacing(set, (place) => this.#elementAt(place, now))),
        ),
      );
      if (isWritten) continue;
      this.#isRefused = true;
      for (const place of batch.flat()) this.#known.mark(place, [place.group]);
    }
    return this.#isRefused ? RETRY_PERIOD : undefined;
  }

  #elementAt(place: ElementPlace, now: number): Element | undefined {
    const { pod, remote } = place;
    const [longest, owner] = [this.#known.longest(place), this.#pods.get(pod)];
    if (longest === undefined || owner === undefined) return undefined;
    const { name, until } = longest;
    // Times to live are whole seconds, and some milliseconds have passed since the answer.
    const left = Math.ceil((until - now) / 1000) * 1000;
    return knownElement(pod, remote, { container: owner.container, name }, left);
  }

  /** @returns whether the action was done */
  #orReport(message: string, action: () => void): boolean {
    const error = problemOf(action);
    if (error === undefined) return true;
    this.#lastError = error;
    this.#parts.logger.error(message, { error });
    return false;
  }
}

function isAddress(value: Element["key"][number] | undefined): value is Address {
  return typeof value === "number" || typeof value === "bigint";
}

/** Returns places by the sets of their elements. */
function bySet(places: Iterable<ElementPlace>): readonly (readonly ElementPlace[])[] {
  return [...Map.groupBy(places, ({ group, pod }) => `${group} ${familyOf(pod)}`).values()];
}

/**
 * Returns the changes that give places in one set their elements, or leave them without one, whatever the set has there.
 * Those without one go first, which makes room in a full set. Kernels before 6.12 cannot change the time of an element,
 * and refuse to delete one that is not there.
 *
 * @param elementAt undefined where there is to be none
 */
function replacing(
  places: readonly ElementPlace[],
  elementAt: (place: ElementPlace) => Element | undefined,
): readonly Change[] {
  const [first] = places;
  if (first === undefined) return [];
  const change = { table: POLICY_TABLE, set: nameSets({ key: first.group })[familyOf(first.pod)] };
  const adding = (elements: readonly Element[]): Change => ({ kind: "add elements", ...change, elements });
  const clearing = (elements: readonly Element[]): readonly Change[] => [
    adding(elements),
    { kind: "delete elements", ...change, elements: elements.map(({ key }) => ({ key })) },
  ];
  const all = places.map((place) => ({ key: [place.pod, place.remote], element: elementAt(place) }));
  const gone = all.flatMap(({ key, element }) => (element === undefined ? { key, timeout: 1 } : []));
  const present = all.flatMap(({ element = [] }) => element);
  return [
    ...(gone.length === 0 ? [] : clearing(gone)),
    ...(present.length === 0 ? [] : [...clearing(present), adding(present)]),
  ];
}
