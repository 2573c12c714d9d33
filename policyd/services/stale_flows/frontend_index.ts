import type { FrontendId } from "../compile/arbitration.ts";
import type { ServedFrontend } from "./served_frontends.ts";
import type { OneOrMore } from "../../one_or_more.ts";
import { listOf, putList } from "../../one_or_more.ts";

/** What flows of a frontend are judged by. */
export interface Suspicion {
  /** The frontend as it was, where it is gone now. */
  readonly frontend: ServedFrontend;
  /** As of when the round began; undefined where the frontend was no Service's any more. */
  readonly targets: ReadonlySet<string> | undefined;
  /** Where its clients may have been sent before, and are not any more. */
  readonly former: ReadonlySet<string>;
}

type Suspects = Map<FrontendId, { readonly frontend: ServedFrontend; readonly former: Set<string> }>;

/** A frontend of a Service. There are tens of thousands: its targets are one text, as none has a comma. */
interface Held extends Omit<ServedFrontend, "targets"> {
  readonly service: string;
  readonly targets: string;
}

/**
 * The UDP frontends of all Services, and of which of them flows may be stale: those that lost an endpoint, got their first
 * one or are gone. A change costs the Service's own frontends.
 */
export class FrontendIndex {
  /** By itself where it is the only one, as of nearly all Services. */
  readonly #ofService = new Map<string, OneOrMore<FrontendId>>();
  readonly #held = new Map<FrontendId, Held>();
  /** What rules that are in force are about; and what those are about that are not yet. */
  #ripe: Suspects = new Map();
  #unripe: Suspects = new Map();

  /** Takes over a Service's frontends as they are now; none for one that is gone or has no UDP. */
  replace(service: string, frontends: ReadonlyMap<FrontendId, ServedFrontend>): void {
    for (const id of listOf(this.#ofService.get(service))) {
      const held = this.#held.get(id);
      // Another Service may have taken it over already.
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

  /** Has the flows of a frontend judged, though none of its Services may have changed. */
  suspect(id: FrontendId, frontend: ServedFrontend, former: Iterable<string> = []): void {
    add(this.#unripe, id, frontend, former);
  }

  /** Has all flows of all frontends judged. */
  suspectAll(): void {
    for (const [id, held] of this.#held) this.suspect(id, frontendOf(held));
  }

  /** The rules that decide the next packets are in force. */
  ripen(): void {
    for (const [id, { frontend, former }] of this.#unripe) add(this.#ripe, id, frontend, former);
    this.#unripe = new Map();
  }

  /** Whether there is anything to {@link take}. */
  get isRipe(): boolean {
    return this.#ripe.size > 0;
  }

  /** Whether a Service has the frontend. */
  has(id: FrontendId): boolean {
    return this.#held.has(id);
  }

  /** Whether flows of a frontend may go to a target as its Service is now. */
  hasTarget(id: FrontendId, target: string): boolean {
    const held = this.#held.get(id);
    return held !== undefined && `,${held.targets},`.includes(`,${target},`);
  }

  /** Of which frontends flows are to be judged now, and by what. They are under suspicion no more. */
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

  /** What was taken has not been judged. */
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

/** None for a frontend that nobody has. */
function targetsOf(held: Held | undefined): readonly string[] {
  return held === undefined || held.targets === "" ? [] : held.targets.split(",");
}

function add(suspects: Suspects, id: FrontendId, frontend: ServedFrontend, former: Iterable<string>): void {
  const entry = suspects.get(id) ?? { frontend, former: new Set<string>() };
  for (const target of former) entry.former.add(target);
  suspects.set(id, entry);
}
