import { isDeepStrictEqual } from "node:util";
import type { ObjectId, Verdict } from "../cluster/gate.ts";
import { nameOf } from "../cluster/gate.ts";
import type { ClusterObject, Kind } from "../cluster/model.ts";
import type { ObjectChange } from "./object_source.ts";

/** A problem, and the kind of the object it is about; undefined for a whole file, or where the object does not say it. */
export interface ObjectProblem {
  readonly text: string;
  readonly kind: Kind | undefined;
}

/** One file's part. */
interface FileContent {
  /** What it holds, by kind and key; without an object where it is there but was never valid. */
  readonly entries: ReadonlyMap<string, Entry>;
  readonly problems: readonly ObjectProblem[];
}

interface Entry {
  readonly id: ObjectId;
  readonly object: ClusterObject | undefined;
}

/**
 * Which objects a set of files holds, and what changes when some of them are read anew.
 *
 * The same object in two files is that of the first file by name; the other is told as a problem and takes over when the
 * first lets go. The cost of a change is that of the changed files.
 */
export class ObjectFiles {
  readonly #files = new Map<string, FileContent>();
  /** Files that cannot be read, and why. */
  readonly #unreadable = new Map<string, string>();
  /** The names of the files that hold an object, in order. */
  readonly #holders = new Map<string, readonly string[]>();
  /** The objects that more than one file holds. */
  readonly #contested = new Map<string, ObjectId>();
  readonly #touched = new Map<string, ObjectId>();
  readonly #current = new Map<string, ClusterObject>();

  /** A file was read whole: these are its objects. A refused one keeps its last good version of this file. */
  put(fileName: string, verdicts: readonly Verdict[]): void {
    this.#unreadable.delete(fileName);
    this.#exchange(fileName, contentOf(verdicts, this.#files.get(fileName)));
  }

  /** A file is gone, and its objects with it unless another file holds them. */
  remove(fileName: string): void {
    this.#unreadable.delete(fileName);
    this.#exchange(fileName, undefined);
  }

  /** A file is there but cannot be read: what it held before stays. */
  keep(fileName: string, reason: string): void {
    this.#unreadable.set(fileName, reason);
  }

  /** The files there are, readable or not. */
  names(): readonly string[] {
    return [...new Set([...this.#files.keys(), ...this.#unreadable.keys()])];
  }

  isUnreadable(fileName: string): boolean {
    return this.#unreadable.has(fileName);
  }

  /** What changed since the last call, over all files together: an object that moved to another file did not. */
  takeChanges(): readonly ObjectChange[] {
    const changes: ObjectChange[] = [];
    for (const [token, id] of this.#touched) {
      const change = this.#settle(token, id);
      if (change !== undefined) changes.push(change);
    }
    this.#touched.clear();
    return changes;
  }

  /** An object as it was told last. */
  find(kind: Kind, key: string): ClusterObject | undefined {
    return this.#current.get(`${kind} ${key}`);
  }

  /** How many objects there are of a kind. */
  count(kind: Kind): number {
    let count = 0;
    for (const object of this.#current.values()) if (object.kind === kind) count++;
    return count;
  }

  /** Every problem there is now, beginning with the file it is in. */
  problems(): readonly string[] {
    return this.problemsByKind().map(({ text }) => text);
  }

  /** As {@link problems}, each with the kind it is about. */
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
