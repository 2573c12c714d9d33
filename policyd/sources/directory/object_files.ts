import { isDeepStrictEqual } from "node:util";
import { nameOf, type ObjectId, type Verdict } from "../../../objects/gate/gate.ts";
import type { ClusterObject, Kind, ObjectChange } from "../../../objects/model.ts";

/** A problem, and the kind of its object; undefined for a whole file, or for an object without a known kind. */
export interface ObjectProblem {
  readonly text: string;
  readonly kind: Kind | undefined;
}

/** The content of one file. */
interface FileContent {
  /** The file's objects by kind and key; an entry without an object was never valid. */
  readonly entries: ReadonlyMap<string, Entry>;
  readonly problems: readonly ObjectProblem[];
}

interface Entry {
  readonly id: ObjectId;
  readonly object: ClusterObject | undefined;
}

/**
 * Holds the objects of a set of files, and the changes when some files are read again.
 *
 * If two files have the same object, the first file by name counts; the other is reported as a problem and takes over
 * when the first no longer has the object. A change costs only the changed files.
 */
export class ObjectFiles {
  readonly #files = new Map<string, FileContent>();
  /** The files that cannot be read, with the reason. */
  readonly #unreadable = new Map<string, string>();
  /** The names of the files that hold an object, in order. */
  readonly #holders = new Map<string, readonly string[]>();
  /** The objects that more than one file holds. */
  readonly #contested = new Map<string, ObjectId>();
  readonly #touched = new Map<string, ObjectId>();
  readonly #current = new Map<string, ClusterObject>();

  /** Sets the objects of a file that was read. A refused object stays in its last good version from this file. */
  put(fileName: string, verdicts: readonly Verdict[]): void {
    this.#unreadable.delete(fileName);
    this.#exchange(fileName, contentOf(verdicts, this.#files.get(fileName)));
  }

  /** Removes a file, and its objects unless another file holds them. */
  remove(fileName: string): void {
    this.#unreadable.delete(fileName);
    this.#exchange(fileName, undefined);
  }

  /** Notes that a file cannot be read; the objects it held before stay. */
  keep(fileName: string, reason: string): void {
    this.#unreadable.set(fileName, reason);
  }

  /** Returns the names of all files, readable or not. */
  names(): readonly string[] {
    return [...new Set([...this.#files.keys(), ...this.#unreadable.keys()])];
  }

  isUnreadable(fileName: string): boolean {
    return this.#unreadable.has(fileName);
  }

  /** Returns the changes since the last call, over all files: an object that moved to another file is not a change. */
  takeChanges(): readonly ObjectChange[] {
    const changes: ObjectChange[] = [];
    for (const [token, id] of this.#touched) {
      const change = this.#settle(token, id);
      if (change !== undefined) changes.push(change);
    }
    this.#touched.clear();
    return changes;
  }

  /** Returns the version of an object last reported. */
  find(kind: Kind, key: string): ClusterObject | undefined {
    return this.#current.get(`${kind} ${key}`);
  }

  /** Returns the number of objects of a kind. */
  count(kind: Kind): number {
    let count = 0;
    for (const object of this.#current.values()) if (object.kind === kind) count++;
    return count;
  }

  /** Returns all current problems; each text begins with its file. */
  problems(): readonly string[] {
    return this.problemsByKind().map(({ text }) => text);
  }

  /** Returns the same as {@link problems}, with the kind of each. */
  problemsByKind(): readonly ObjectProblem[] {
    const unreadable = [...this.#unreadable].map(([file, reason]): ObjectProblem => {
      const consequence = this.#files.has(file) ? "its last good version stays" : "not used";
      return { text: `${file}: ${reason} (${consequence})`, kind: undefined };
    });
    const inFiles = [...this.#files].flatMap(([file, { problems }]) =>
      problems.map(({ text, kind }): ObjectProblem => ({ text: `${file}: ${text}`, kind })),
    );
    const contested = [...this.#contested].map(([token, id]): ObjectProblem => {
      const [first = "", ...others] = this.#holders.get(token) ?? [];
      const text = `${others.join(", ")}: ${nameOf(id)}: also in ${first}, which counts; expected in one file only`;
      return { text, kind: id.kind };
    });
    return [...unreadable, ...inFiles, ...contested];
  }

  #exchange(fileName: string, next: FileContent | undefined): void {
    const before = this.#files.get(fileName);
    if (next === undefined) this.#files.delete(fileName);
    else this.#files.set(fileName, next);
    for (const [token, { id }] of [...(before?.entries ?? []), ...(next?.entries ?? [])]) {
      this.#touched.set(token, id);
      this.#hold(token, id, fileName, next?.entries.has(token) ?? false);
    }
  }

  #hold(token: string, id: ObjectId, fileName: string, holds: boolean): void {
    const others = (this.#holders.get(token) ?? []).filter((file) => file !== fileName);
    const holders = holds ? [...others, fileName].sort() : others;
    if (holders.length === 0) this.#holders.delete(token);
    else this.#holders.set(token, holders);
    if (holders.length > 1) this.#contested.set(token, id);
    else this.#contested.delete(token);
  }

  #settle(token: string, { kind, key }: ObjectId): ObjectChange | undefined {
    const objects = (this.#holders.get(token) ?? []).map((file) => this.#files.get(file)?.entries.get(token)?.object);
    const object = objects.find((candidate) => candidate !== undefined);
    const before = this.#current.get(token);
    if (object === undefined) return this.#current.delete(token) ? { type: "delete", kind, key } : undefined;
    if (before !== undefined && isDeepStrictEqual(before, object)) return undefined;
    this.#current.set(token, object);
    return { type: "set", kind, key, object };
  }
}

function contentOf(verdicts: readonly Verdict[], before: FileContent | undefined): FileContent {
  const entries = new Map<string, Entry>();
  const problems: ObjectProblem[] = [];
  for (const verdict of verdicts) {
    if (verdict.type === "ignored") continue;
    const kind = verdict.type === "accepted" ? verdict.object.kind : verdict.kind;
    const id = verdict.type === "accepted" ? verdict.object : verdict.id;
    const token = id === undefined ? "" : `${id.kind} ${id.key}`;
    if (id !== undefined && entries.has(token)) {
      problems.push({ text: `${nameOf(id)}: twice in this file; the first counts`, kind });
      continue;
    }
    const last = before?.entries.get(token)?.object;
    const consequence = last === undefined ? "not used" : "its last good version stays";
    const texts = verdict.type === "accepted" ? verdict.problems : [`${verdict.problem} (${consequence})`];
    problems.push(...texts.map((text): ObjectProblem => ({ text, kind })));
    if (id !== undefined) entries.set(token, { id, object: verdict.type === "accepted" ? verdict.object : last });
  }
  return { entries, problems };
}
