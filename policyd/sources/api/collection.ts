import { isDeepStrictEqual } from "node:util";
import { judge, type ObjectId, type Verdict } from "../../../objects/gate/gate.ts";
import type { ClusterObject, ObjectChange } from "../../../objects/model.ts";
import type { Interner } from "./interner.ts";
import type { Resource } from "./resources.ts";

/** The gate's result for an object of a list or a watch. */
interface Judged {
  /** Undefined for a refused object, whose last good version stays. */
  readonly object: ClusterObject | undefined;
  readonly problems: readonly string[];
}

/** A problem of one object, in words. */
export interface ObjectProblem {
  readonly text: string;
  /** Undefined where the object has no usable name. */
  readonly key: string | undefined;
}

/** The key of problems of nameless objects. No object has it, since no name is empty. */
const NAMELESS = "";

/**
 * Holds the objects of one kind that are in force, and their changes. It stores only what the gate leaves of an object.
 *
 * A list takes effect as a whole: until it is complete the objects known before stay.
 */
export class Collection {
  readonly #resource: Pick<Resource, "kind" | "apiVersion">;
  readonly #interner: Interner;
  readonly #objects = new Map<string, ClusterObject>();
  readonly #problems = new Map<string, readonly string[]>();
  /** The objects of the list in progress; undefined when no list is being read. */
  #list: Map<string, Judged> | undefined;
  #newProblems: ObjectProblem[] = [];
  /** The version last reported of each object that was touched since. */
  readonly #touched = new Map<string, ClusterObject | undefined>();

  constructor(resource: Pick<Resource, "kind" | "apiVersion">, interner: Interner) {
    this.#resource = resource;
    this.#interner = interner;
  }

  /** Begins a list. */
  begin(): void {
    this.#list = new Map();
  }

  /** Ends a list: removes the objects that were not in it. */
  complete(): void {
    const list = this.#list ?? new Map<string, Judged>();
    this.#list = undefined;
    for (const key of [...this.#objects.keys(), ...this.#problems.keys()]) if (!list.has(key)) this.#remove(key);
    for (const [key, judged] of list) this.#settle(key, judged);
  }

  /** Removes all objects: the server has no such list, or does not show it. */
  without(): void {
    this.begin();
    this.complete();
  }

  /** Adds or replaces an object, from a list or a watch. */
  put(value: unknown): void {
    const { key, object, problems } = this.#judge(value);
    // Compare now, so that the end of a long list does not block the thread.
    const known = this.#objects.get(key);
    const judged = { object: isDeepStrictEqual(object, known) ? known : object, problems };
    if (this.#list === undefined) this.#settle(key, judged);
    else this.#list.set(key, judged);
  }

  /** Removes an object, which is given in its last version. */
  remove(value: unknown): void {
    const { key } = this.#judge(value);
    if (this.#list === undefined) this.#remove(key);
    else this.#list.delete(key);
  }

  /** Returns the changes since the last call: each object once, and only if it differs from what was last reported. */
  takeChanges(): readonly ObjectChange[] {
    const { kind } = this.#resource;
    const changes: ObjectChange[] = [];
    for (const [key, before] of this.#touched) {
      const object = this.#objects.get(key);
      if (object === undefined) {
        if (before !== undefined) changes.push({ type: "delete", kind, key });
      } else if (before === undefined || !isDeepStrictEqual(before, object)) {
        changes.push({ type: "set", kind, key, object });
      }
    }
    this.#touched.clear();
    return changes;
  }

  /** Returns the version of an object that is in force. */
  find(key: string): ClusterObject | undefined {
    return this.#objects.get(key);
  }

  get size(): number {
    return this.#objects.size;
  }

  /** Returns the problems that are new since the last call. */
  takeNewProblems(): readonly ObjectProblem[] {
    const problems = this.#newProblems;
    this.#newProblems = [];
    return problems;
  }

  /** Returns all current problems. */
  problems(): readonly string[] {
    return [...this.#problems.values()].flat();
  }

  #judge(value: unknown): Judged & { readonly key: string } {
    const { kind, apiVersion } = this.#resource;
    const verdict = judge(value);
    const id = idOf(verdict);
    if (verdict.type === "accepted" && id?.kind === kind) {
      const object = this.#interner.intern(verdict.object);
      return { key: object.key, object, problems: verdict.problems };
    }
    const problem =
      verdict.type === "refused" ? verdict.problem : `an object that is not of kind ${kind} of ${apiVersion}`;
    return { key: id?.kind === kind ? id.key : NAMELESS, object: undefined, problems: [problem] };
  }

  #settle(key: string, { object, problems }: Judged): void {
    const before = this.#objects.get(key);
    const isKept = object === undefined && before !== undefined;
    const reported = object === undefined ? problems.map((text) => withConsequence(text, isKept)) : problems;
    const known = new Set(this.#problems.get(key));
    for (const text of reported) {
      if (!known.has(text)) this.#newProblems.push({ text, key: key === NAMELESS ? undefined : key });
    }
    if (reported.length > 0) this.#problems.set(key, reported);
    else this.#problems.delete(key);
    if (object === undefined || object === before) return;
    this.#touch(key);
    this.#objects.set(key, object);
  }

  #remove(key: string): void {
    this.#problems.delete(key);
    this.#touch(key);
    this.#objects.delete(key);
  }

  #touch(key: string): void {
    if (!this.#touched.has(key)) this.#touched.set(key, this.#objects.get(key));
  }
}

function idOf(verdict: Verdict): ObjectId | undefined {
  if (verdict.type === "accepted") return verdict.object;
  return verdict.type === "refused" ? verdict.id : undefined;
}

function withConsequence(problem: string, isKept: boolean): string {
  return `${problem} (${isKept ? "its last good version stays" : "not used"})`;
}
