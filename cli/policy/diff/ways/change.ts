import { type Grouping, groupName } from "../../../cluster/group.ts";
import {
  type ConnectionSet,
  connectionText,
  difference,
  intersection,
  isEmpty,
  union,
} from "../../connections/connection_set.ts";
import type { Connections } from "../../connections/pod_connections.ts";
import type { Cause, ChangeType } from "../pair_change.ts";
import type { Locations, Witness } from "../witness.ts";
import {
  type EvaluatedRequests,
  otherOf,
  podsOf,
  type UnevaluatedRequests,
  type WayRequests,
  type WaySides,
} from "./side.ts";
import { wayWitness } from "./witness.ts";

/** A way in that opens, closes, appears or goes. */
export interface WayChange {
  readonly type: ChangeType;
  /** `appeared` and `gone` where the requests have the way on one side only; otherwise policies or pods differ. */
  readonly cause: Cause;
  /** `Ingress shop/web`, with its place on the side that has it, preferably the new one. */
  readonly name: string;
  readonly file: string;
  readonly line: number;
  /** Texts such as `shop.example/cart`. */
  readonly requests: readonly string[];
  /** `IngressClass nginx`; undefined where it is not known. */
  readonly through: string | undefined;
  /** The controller's pods by their groups; empty where they are not known. */
  readonly controllers: readonly string[];
  /** `shop/web`. */
  readonly service: string;
  readonly port: number | string | undefined;
  /** The pods that requests reach, by their groups; empty where they are not known. */
  readonly to: readonly string[];
  /** Such as `8080/TCP`; empty where the way lets nothing in, or is not judged. */
  readonly connections: string;
  /** Whether it is open in some cases and not in others, on the side on which it is more open. */
  readonly isPartly: boolean;
  /** Why one side is not judged. */
  readonly why: string | undefined;
  /** A connection that decides, with the reasons on both sides; undefined where neither side is judged. */
  readonly witness: Witness | undefined;
}

/** Returns the ways in that differ between two sides, by their names, in the order of the objects. */
export function wayChanges(sides: WaySides, locations: Locations, by: Grouping): readonly WayChange[] {
  const keys = new Map<string, { before?: EvaluatedRequests; after?: EvaluatedRequests }>();
  for (const side of ["before", "after"] as const) {
    for (const way of sides[side].evaluated) keys.set(keyOf(way), { ...keys.get(keyOf(way)), [side]: way });
  }
  const comparison = new Comparison(sides, locations, by);
  const changes = [
    ...[...keys.values()].flatMap(({ before, after }) => comparison.evaluated(before, after)),
    ...comparison.unevaluated("before"),
    ...comparison.unevaluated("after"),
  ];
  return changes.sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1));
}

function keyOf({ name, through, service, port }: WayRequests): string {
  return [name, through, service, port].join("\n");
}

function orderOf({ name, requests, through, service, port, type }: WayChange): string {
  return [name, requests.join(" "), through ?? "", service, port ?? "", type].join("\n");
}

class Comparison {
  readonly #sides: WaySides;
  readonly #locations: Locations;
  readonly #by: Grouping;

  constructor(sides: WaySides, locations: Locations, by: Grouping) {
    this.#sides = sides;
    this.#locations = locations;
    this.#by = by;
  }

  /** Returns the changes of the requests that a way has on both sides, and of those that it has on one. */
  evaluated(before: EvaluatedRequests | undefined, after: EvaluatedRequests | undefined): readonly WayChange[] {
    const both = new Set([...(before?.requests ?? [])].filter((one) => after?.requests.has(one)));
    return [
      ...(before !== undefined && after !== undefined && both.size > 0 ? this.#difference(before, after, both) : []),
      ...(before === undefined ? [] : this.#oneSided(before, "before", both)),
      ...(after === undefined ? [] : this.#oneSided(after, "after", both)),
    ];
  }

  /** Returns the requests without a verdict on one side that the other side does not have at all. */
  unevaluated(side: keyof WaySides): readonly WayChange[] {
    const other = this.#sides[otherOf(side)];
    return this.#sides[side].unevaluated.flatMap((way): readonly WayChange[] => {
      const known = [...other.evaluated, ...other.unevaluated].filter((one) => isSame(one, way));
      const requests = [...way.requests].filter((one) => !known.some((there) => there.requests.has(one)));
      if (requests.length === 0) return [];
      const nothing = { connections: "", isPartly: false, why: way.why, witness: undefined };
      return [{ ...this.#described(way, requests), ...oneSidedOf(side), controllers: [], ...nothing }];
    });
  }

  #difference(
    before: EvaluatedRequests,
    after: EvaluatedRequests,
    requests: ReadonlySet<string>,
  ): readonly WayChange[] {
    const [old, young] = [before.open, after.open];
    const all = [
      {
        type: "removed",
        connections: lost(old, young),
        isPartly: (set: ConnectionSet) => intersection(set, young.some),
      },
      { type: "added", connections: lost(young, old), isPartly: (set: ConnectionSet) => difference(set, young.every) },
    ] as const;
    return all.flatMap(({ type, connections, isPartly }): readonly WayChange[] => {
      if (isEmpty(connections)) return [];
      return [
        {
          ...this.#described(after, [...requests]),
          type,
          cause: "difference",
          controllers: this.#controllers(after),
          connections: connectionText(connections),
          isPartly: !isEmpty(isPartly(connections)),
          why: undefined,
          witness: wayWitness(this.#sides, this.#locations, { before, after, type, connections }),
        },
      ];
    });
  }

  /** Returns the change of the requests that only one side has by this way, or judges. */
  #oneSided(way: EvaluatedRequests, side: keyof WaySides, both: ReadonlySet<string>): readonly WayChange[] {
    const { type } = oneSidedOf(side);
    const unevaluated = this.#sides[otherOf(side)].unevaluated.filter((one) => isSame(one, way));
    const { some, every } = way.open;
    const groups = Map.groupBy(
      [...way.requests].filter((one) => !both.has(one)),
      (request) => unevaluated.find(({ requests }) => requests.has(request)),
    );
    return [...groups].flatMap(([there, requests]): readonly WayChange[] => {
      // The object asks for the same on both sides, and a closed way is as good as none.
      if (there !== undefined && isEmpty(some)) return [];
      const ends = { [side]: way, type, connections: some, why: there?.why };
      return [
        {
          ...this.#described(way, requests),
          ...(there === undefined ? oneSidedOf(side) : { type, cause: "difference" }),
          controllers: this.#controllers(way),
          connections: isEmpty(some) ? "" : connectionText(some),
          isPartly: !isEmpty(difference(some, every)),
          why: there?.why,
          witness: wayWitness(this.#sides, this.#locations, ends),
        },
      ];
    });
  }

  #described(way: WayRequests, requests: readonly string[]) {
    const { name, file, line, through, service, port, endpoints } = way;
    const to = [...new Set(endpoints.map(({ pod }) => groupName(pod, this.#by)))].sort();
    return { name, file, line, requests: requests.toSorted(), through, service, port, to };
  }

  #controllers(way: EvaluatedRequests): readonly string[] {
    return [...new Set(podsOf(way).controllers.map((pod) => groupName(pod, this.#by)))].sort();
  }
}

/** Returns the connections that are less open in the second case: in fewer cases, or in none. */
function lost(one: Connections, other: Connections): ConnectionSet {
  return union(difference(one.some, other.some), difference(one.every, other.every));
}

/** Returns whether two ways lead by one object to one port, and by one class or Gateway where both are known. */
function isSame(one: UnevaluatedRequests | EvaluatedRequests, other: WayRequests): boolean {
  const isThrough = one.through === undefined || other.through === undefined || one.through === other.through;
  return isThrough && one.name === other.name && one.service === other.service && one.port === other.port;
}

function oneSidedOf(side: keyof WaySides): Pick<WayChange, "type" | "cause"> {
  return side === "before" ? { type: "removed", cause: "gone" } : { type: "added", cause: "appeared" };
}
