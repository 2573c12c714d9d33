import type { ClusterObject, Kind, ObjectChange } from "../../objects/model.ts";

/** Receives the changes and problems that a source finds. */
export interface ObjectSink {
  /** Takes simultaneous changes, in order; each object at most once. A "set" always differs from the version before. */
  changed(changes: readonly ObjectChange[]): void;
  /** Called once, after the changes that contain all objects: nothing is programmed before (SVC-26). */
  synced(): void;
  /**
   * Takes a new problem: an object or a file that is not used, wholly or in part.
   *
   * @param kind the object's kind; undefined for a file, and for an object without a known kind
   * @param key the key of an object of the API server; undefined for an object without a usable name
   */
  problem(message: string, kind?: Kind, key?: string): void;
  /**
   * Takes a new problem of the source itself, not of an object: an API server that cannot be reached or refuses a
   * request with any status (API-24), or a directory that cannot be read.
   */
  sourceProblem(message: string): void;
  /** Takes a message for the log that is not a problem, such as a kind that a server begins or ceases to serve. */
  noticed(message: string): void;
}

/**
 * A source of objects: a directory, or the API server.
 *
 * An object that becomes invalid stays in force in its last good version until it is valid again or deleted, so that a
 * mistake does not undo what is enforced.
 */
export interface ObjectSource {
  /** Begins to call the sink; returns at once, and never throws later: failures become problems. */
  start(sink: ObjectSink): void;
  /** Returns an object as last reported; undefined if it does not exist. Only the source holds all objects. */
  find(kind: Kind, key: string): ClusterObject | undefined;
  /** Returns the number of objects of a kind. */
  count(kind: Kind): number;
  /** Returns all current problems, for the status. */
  problems(): readonly string[];
  /** Returns for how many seconds each resource may have been out of date, if the source knows that. */
  staleness?(): ReadonlyMap<string, number>;
  /** Returns how often each resource was replaced by an older state, if the source knows that. */
  restored?(): ReadonlyMap<string, number>;
  /** Ends all calls of the sink. */
  stop(): void;
}
