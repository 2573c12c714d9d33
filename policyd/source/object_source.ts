import type { ClusterObject, Kind } from "../cluster/model.ts";

/** One object appeared or changed, or is gone. */
export type ObjectChange =
  | { readonly type: "set"; readonly kind: Kind; readonly key: string; readonly object: ClusterObject }
  | { readonly type: "delete"; readonly kind: Kind; readonly key: string };

/** Who is told what a source finds. */
export interface ObjectSink {
  /** What changed at once, in order; each object at most once. A "set" always differs from the one before. */
  changed(changes: readonly ObjectChange[]): void;
  /** Once, after the changes that make up everything there is: nothing is programmed before (SVC-26). */
  synced(): void;
  /**
   * A problem that was not there before: an object or a file that is not used, wholly or in part.
   *
   * @param kind of the object; undefined for a file, and for an object that does not say it
   * @param key of an object of the API server; undefined where it does not say it
   */
  problem(message: string, kind?: Kind, key?: string): void;
  /**
   * A problem of the source itself that was not there before: an API server that cannot be reached or refuses a request,
   * whatever its status (API-24), or a directory that cannot be read. No object is to blame.
   */
  sourceProblem(message: string): void;
  /** Something for the log that is not a problem: a kind that a server begins or ceases to serve. */
  noticed(message: string): void;
}

/**
 * Where objects come from: a directory, or the API server.
 *
 * An object that turned invalid stays in force in its last good version until it is valid again or deleted: what is
 * enforced is not undone by a mistake.
 */
export interface ObjectSource {
  /** Begins to tell the sink; returns at once, and never fails later: what goes wrong is a problem. */
  start(sink: ObjectSink): void;
  /** An object as it was told last; undefined where there is none. Nobody else keeps all of them. */
  find(kind: Kind, key: string): ClusterObject | undefined;
  /** How many objects there are of a kind. */
  count(kind: Kind): number;
  /** All problems there are now, for the status. */
  problems(): readonly string[];
  /** For how many seconds what is known of each resource may have been old, where the source can tell. */
  staleness?(): ReadonlyMap<string, number>;
  /** After this nothing is told any more. */
  stop(): void;
}
