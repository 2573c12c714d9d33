import type { FrontendId } from "../elements/arbitration.ts";
import type { ServedFrontend } from "./served_frontends.ts";
import { listOf, type OneOrMore, putList } from "../../lib/one_or_more.ts";

/** The facts by which flows of a frontend are checked. */
export interface Suspicion {
  /** The frontend; its former state if it is gone. */
  readonly frontend: ServedFrontend;
  /** Its endpoints when the round began; undefined if no Service had the frontend any more. */
  readonly targets: ReadonlySet<string> | undefined;
  /** Endpoints that its clients may have been sent to before, and are not sent to any more. */
  readonly former: ReadonlySet<string>;
}

type SuspectFrontends = Map<FrontendId, { readonly frontend: ServedFrontend; readonly former: Set<string> }>;

/** A frontend of a Service. There are tens of thousands, so its targets are one string; none has a comma. */
interface Held extends Omit<ServedFrontend, "targets"> {
  readonly service: string;
  readonly targets: string;
}

/**
 * Indexes the UDP frontends of all Services, and those whose flows may be stale: they lost an endpoint, got their first
 * one or are gone. The cost of a change depends only on the Service's own frontends.
 */
export class FrontendIndex {
  /** Without a list if it is the only one, as for nearly all Services. */
  readonly #ofService = new Map<string, OneOrMore<FrontendId>>();
  readonly #held = new Map<FrontendId, Held>();
  /** Frontends whose flows are to be checked: those whose rules are in force (ripe), and the others. */
  #ripe: SuspectFrontends = new Map();
  #unripe: SuspectFrontends = new Map();

  /** Replaces a Service's frontends; none for one that is gone or has no UDP port. */
  replace(service: string, frontends: ReadonlyMap<FrontendId, ServedFrontend>): void {
    for (const id of listOf(this.#ofService.get(service))) {
      const held = this.#held.get(id);
      // Another Service may have taken over the frontend already.
      if (frontends.has(id) || held?.service !== service) continue;
      this.#held.delete(id);
      this.suspect(id, frontendOf(held), targetsOf(held));
    }
    for (const [id, frontend] of frontends) {
      const before = targetsOf(this.#held.get(id));
      this.#held.set(id, heldBy(service, frontend));
      const targets = new Set(frontend.targets);
      const lost = before.filter((target) => !targets.has(target));
      const isFirst = before.length === 0 && targets.size > 0;
      if (isFirst || lost.length > 0) this.suspect(id, frontend, lost);
    }
    putList(this.#ofService, service, [...frontends.keys()]);
  }

  /** Has the flows of a frontend checked, even if none of its Services has changed. */
  suspect(id: FrontendId, frontend: ServedFrontend, former: Iterable<string> = []): void {
    add(this.#unripe, id, frontend, former);
  }

  /** Has all flows of all frontends checked. */
  suspectAll(): void {
    for (const [id, held] of this.#held) this.suspect(id, frontendOf(held));
  }

  /** Reports that the rules which decide the next packets are in force. */
  ripen(): void {
    for (const [id, { frontend, former }] of this.#unripe) add(this.#ripe, id, frontend, former);
    this.#unripe = new Map();
  }

  /** Whether there is anything to {@link take}. */
  get isRipe(): boolean {
    return this.#ripe.size > 0;
  }

  has(id: FrontendId): boolean {
    return this.#held.has(id);
  }

  /** Returns whether flows of a frontend may go to a target in the present state of its Service. */
  hasTarget(id: FrontendId, target: string): boolean {
    const held = this.#held.get(id);
    return held !== undefined && `,${held.targets},`.includes(`,${target},`);
  }

  /** Returns the frontends whose flows are to be checked now, with the facts for it, and clears the suspicion. */
  take(): ReadonlyMap<FrontendId, Suspicion> {
    const taken = this.#ripe;
    this.#ripe = new Map();
    return new Map(
      [...taken].map(([id, { frontend, former }]) => {
        const held = this.#held.get(id);
        return [id, { frontend, targets: held && new Set(targetsOf(held)), former }];
      }),
    );
  }

  /** Puts back frontends that were taken and whose flows have not been checked: {@link take} returns them again. */
  putBack(suspicions: ReadonlyMap<FrontendId, Suspicion>): void {
    for (const [id, { frontend, former }] of suspicions) add(this.#ripe, id, frontend, former);
  }
}

function heldBy(service: string, { family, frontend, targets }: ServedFrontend): Held {
  return { service, family, frontend, targets: targets.join(",") };
}

function frontendOf(held: Held): ServedFrontend {
  return { family: held.family, frontend: held.frontend, targets: targetsOf(held) };
}

/** Returns the endpoints of a frontend; none if no Service has it. */
function targetsOf(held: Held | undefined): readonly string[] {
  return held === undefined || held.targets === "" ? [] : held.targets.split(",");
}

function add(suspects: SuspectFrontends, id: FrontendId, frontend: ServedFrontend, former: Iterable<string>): void {
  const entry = suspects.get(id) ?? { frontend, former: new Set<string>() };
  for (const target of former) entry.former.add(target);
  suspects.set(id, entry);
}
