import type { Cancel } from "../../policyd/lib/clock.ts";

/** An object as the API server stores it. */
export type RawObject = Readonly<Record<string, unknown>>;

/** A change of one object. */
export interface Change {
  readonly version: number;
  readonly path: string;
  readonly before: RawObject | undefined;
  readonly after: RawObject | undefined;
}

/** The contents of an API server's etcd: the objects of each list by their keys, and the recent changes. */
export class Storage {
  readonly #lists = new Map<string, Map<string, RawObject>>();
  readonly #followers = new Set<(change: Change) => void>();
  #history: Change[] = [];
  #version = 1;
  #oldest = 1;
  #uids = 0;

  get version(): number {
    return this.#version;
  }

  /** Returns the objects of a list, sorted by key. */
  list(path: string): readonly RawObject[] {
    return [...(this.#lists.get(path) ?? [])].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, object]) => object);
  }

  /** Stores an object, which gets a version and, if it is new, a uid. */
  put(path: string, object: RawObject): void {
    const objects = this.#lists.get(path) ?? new Map<string, RawObject>();
    this.#lists.set(path, objects);
    const before = objects.get(keyOf(object));
    const uid = metadataOf(before)["uid"] ?? metadataOf(object)["uid"] ?? `uid-${++this.#uids}`;
    const metadata = { ...metadataOf(object), uid, resourceVersion: `${++this.#version}` };
    const after = { ...object, metadata };
    objects.set(keyOf(object), after);
    this.#happened({ version: this.#version, path, before, after });
  }

  /** Removes an object by `namespace/name`, or only its name. */
  remove(path: string, key: string): void {
    const before = this.#lists.get(path)?.get(key);
    if (before === undefined) return;
    this.#lists.get(path)?.delete(key);
    const gone = { ...before, metadata: { ...metadataOf(before), resourceVersion: `${++this.#version}` } };
    this.#happened({ version: this.#version, path, before: gone, after: undefined });
  }

  /** Returns the changes of a list since a version; undefined when they are not known any more. */
  since(path: string, version: number): readonly Change[] | undefined {
    if (version < this.#oldest) return undefined;
    return this.#history.filter((change) => change.path === path && change.version > version);
  }

  /** Forgets the changes, as etcd does every five minutes. */
  compact(): void {
    this.#history = [];
    this.#oldest = ++this.#version;
  }

  /** Returns a function that goes back to the present state, as a restore of etcd from a backup. */
  backup(): () => void {
    const [version, lists] = [
      this.#version,
      [...this.#lists].map(([path, objects]) => [path, new Map(objects)] as const),
    ];
    return () => {
      this.#version = version;
      this.#history = this.#history.filter((change) => change.version <= version);
      this.#lists.clear();
      for (const [path, objects] of lists) this.#lists.set(path, new Map(objects));
    };
  }

  follow(listener: (change: Change) => void): Cancel {
    this.#followers.add(listener);
    return () => this.#followers.delete(listener);
  }

  #happened(change: Change): void {
    this.#history.push(change);
    for (const listener of this.#followers) listener(change);
  }
}

/** Returns `namespace/name`, or only the name. */
export function keyOf(object: RawObject): string {
  const { namespace, name } = metadataOf(object);
  return typeof namespace === "string" ? `${namespace}/${String(name)}` : String(name);
}

/** Returns the labels of an object. */
export function labelsOf(object: RawObject): Readonly<Record<string, unknown>> {
  return recordOf(metadataOf(object)["labels"]);
}

function metadataOf(object: RawObject | undefined): Readonly<Record<string, unknown>> {
  return recordOf(object?.["metadata"]);
}

/** Returns a copy of the members of a value; none for anything but an object. */
export function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}
