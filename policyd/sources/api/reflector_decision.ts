import type { Failure } from "./failure.ts";
import { newestOf, type Serving } from "./serving.ts";

/** The state of following one kind of objects. */
export interface ReflectorState {
  /** "waiting" for the next attempt; "listing" page by page; "streaming" the list that begins a watch; "watching". */
  readonly phase: "waiting" | "listing" | "streaming" | "watching";
  /** The kind of the next attempt. */
  readonly next: "list" | "watch";
  /** Whether the server may support watch-list; false once it has shown that it does not. */
  readonly hasWatchList: boolean;
  /** The version from which a watch goes on; empty before a whole list has been read. */
  readonly resourceVersion: string;
  /** The version of the last whole list or of a later event, also while it is being listed again. */
  readonly newest: string;
  /** The token for the next page of the list in progress; empty at its beginning. */
  readonly continueToken: string;
  /** Failed attempts in a row. */
  readonly failures: number;
  /** Whether the last watch ended in silence, and this one has reported nothing. */
  readonly isMute: boolean;
  /** Attempts in a row that found no such list; at ABSENCES_THAT_COUNT the server is known not to have it. */
  readonly absences: number;
  /** Attempts in a row that found no such list while the definition says otherwise, or is still expected. */
  readonly lags: number;
  /** The index of the version that is requested. */
  readonly version: number;
  /** The index of the version in which the last list was read; undefined while the server does not have the kind. */
  readonly servedVersion: number | undefined;
  /** Whether a whole list has been read. */
  readonly isListed: boolean;
}

export type ReflectorEvent =
  /** The wait is over. */
  | { readonly type: "due" }
  /** The server has accepted the request. */
  | { readonly type: "answered" }
  /** A page of a list has been read. */
  | { readonly type: "page"; readonly next: string; readonly resourceVersion: string }
  /** The bookmark after the list that begins a watch has been read. */
  | { readonly type: "initialEnd"; readonly resourceVersion: string }
  /** The server is healthy again: the next failure counts as the first. */
  | { readonly type: "recovered" }
  /** {@link Serving} has changed. */
  | { readonly type: "redefined" }
  /** A watch has reported a version before the known one: the server may have lost its newest history. */
  | { readonly type: "backwards" }
  /** A watch has reported all changes up to this version. */
  | { readonly type: "progress"; readonly resourceVersion: string }
  /** The attempt is over. `lasted` is the time since the server's answer, in milliseconds. */
  | { readonly type: "failed"; readonly failure: Failure; readonly lasted: number };

export type ReflectorAction =
  /** Sends a request to the list's path. */
  | { readonly type: "request"; readonly query: string }
  /** After `earliest` milliseconds the wait may end because the server is healthy again; if undefined it may not. */
  | { readonly type: "wait"; readonly milliseconds: number; readonly earliest: number | undefined }
  /** A list begins, and an earlier one that is not complete is forgotten. */
  | { readonly type: "begin" }
  /** The list is complete: objects that were not in it are gone. */
  | { readonly type: "complete" }
  /** The server has no such list, or does not show it: there are no objects. */
  | { readonly type: "without"; readonly failure: Failure }
  /** A whole list of an older version than the known one: the server has been restored. */
  | { readonly type: "restored" }
  /** A failure to report, and its end. */
  | { readonly type: "trouble"; readonly failure: Failure }
  | { readonly type: "well" };

export interface Step {
  readonly state: ReflectorState;
  readonly actions: readonly ReflectorAction[];
}

export const INITIAL: ReflectorState = Object.freeze({
  phase: "waiting",
  next: "list",
  hasWatchList: true,
  resourceVersion: "",
  newest: "",
  continueToken: "",
  failures: 0,
  isMute: false,
  absences: 0,
  lags: 0,
  version: 0,
  servedVersion: undefined,
  isListed: false,
});

/** client-go's page size. */
const PAGE_SIZE = 500;
/** client-go's back-off: it doubles from the shortest wait, with jitter, so that nodes retry at different moments. */
const SHORTEST_WAIT = 800;
const LONGEST_WAIT = 30_000;
/** Milliseconds over which the lists of all nodes spread. */
export const LIST_SPREAD = 500;
/** Milliseconds between requests for a kind that the server does not have: 5,000 nodes make about 100 a second. */
const ABSENT_WAIT = 60_000;
/** A starting API server may not know a kind yet: known objects go only after this number of 404s in a row. */
const ABSENCES_THAT_COUNT = 3;
const ABSENCE_WAIT = 10_000;
/** A kind may be served only moments after its definition says so; one of several servers may take longer. */
const LAG_WAIT = 500;
const SHORT_LAGS = 20;
const LONG_LAG_WAIT = 10_000;
const REPORTED_LAGS = 6;
/** After this number of lags the next served version is tried. */
const LAGS_OF_A_VERSION = 4;
/** The wait, and the number of waits, for a definition when the kind itself was not found. */
const PENDING_WAIT = 200;
const MOST_PENDING = 25;
/** The requested duration of a watch in seconds, as in client-go: proxies close longer ones. */
const SHORTEST_WATCH = 300;
const WATCH_SPREAD = 300;
/** A watch that lasted this long counts as healthy and is followed by another at once; a shorter one needs a wait. */
const HEALTHY = 5000;
/** Statuses for unknown parameters of watch-list: API servers before 1.32 answer 422 (KEP-3157). */
const NOT_UNDERSTOOD = new Set([400, 405, 406, 415, 422]);
/** Statuses about the credentials or the request rate: the resource version is not refused. */
const KEEPS_PLACE = new Set([401, 403, 429]);
/** The status of the error "too large resource version". */
const TIMED_OUT = 504;
const FAILURES_OF_A_PLACE = 4;
const REPORTED_FAILURES = 3;

/**
 * Returns the state and the actions that follow from an event. It contains all decisions about following a kind, and
 * carries out none of them.
 *
 * It never gives up. A watch goes on from its last version; a refusal of that version (410, or any other that is not
 * about the server's health) leads to a new list. Lists are requested without a resource version: a daemon must not go
 * back in time to the state of a server that lags. So a version before the known one in a watch leads to a new list,
 * and only that list says whether the server has been restored from a backup (kubernetes#107457).
 *
 * The newest served version of a kind is followed. The known objects stay in force until the list in another version is
 * complete, as for every list.
 *
 * @param random returns numbers from 0 up to 1, evenly distributed
 */
export function advance(state: ReflectorState, event: ReflectorEvent, serving: Serving, random: () => number): Step {
  switch (event.type) {
    case "due":
      return attempt(chosen(state, serving), random);
    case "redefined":
      return redefined(state, serving, random);
    case "answered":
      return { state, actions: state.phase === "watching" ? [{ type: "well" }] : [] };
    case "page":
      return event.next === ""
        ? completed({ ...state, resourceVersion: event.resourceVersion }, random)
        : request({ ...state, continueToken: event.next }, random);
    case "initialEnd":
      return state.phase === "streaming"
        ? {
            state: listed({ ...state, phase: "watching", resourceVersion: event.resourceVersion }),
            actions: [...restored(state.newest, event.resourceVersion), { type: "complete" }, { type: "well" }],
          }
        : progressed(state, event.resourceVersion);
    case "progress":
      return progressed(state, event.resourceVersion);
    case "backwards":
      return attempt({ ...state, ...LOST, phase: "waiting" }, random);
    case "recovered":
      return { state: { ...state, failures: 0 }, actions: [] };
    case "failed":
      return failed(state, event.failure, event.lasted, serving, random);
  }
}

/** Switches to the newest served version if a watch would use another, or a list one that is not served. */
function chosen(state: ReflectorState, serving: Serving): ReflectorState {
  const isRight =
    serving.type !== "served" ||
    (state.next === "watch" ? state.version === newestOf(serving) : serving.versions.includes(state.version));
  return isRight ? state : { ...state, ...LOST, version: newestOf(serving), lags: 0 };
}

/** Returns a new attempt, at once, if the state no longer fits how the server serves the kind. */
function redefined(state: ReflectorState, serving: Serving, random: () => number): Step {
  const wasMissing = state.absences > 0 || state.lags > 0;
  const version = newestOf(serving);
  const isOld =
    serving.type === "served"
      ? wasMissing || state.version !== version
      : serving.type === "gone" && (state.phase === "watching" || (wasMissing && state.absences < ABSENCES_THAT_COUNT));
  if (!isOld) return { state, actions: [] };
  return attempt({ ...state, ...LOST, phase: "waiting", version, lags: 0, failures: 0 }, random);
}

function attempt(state: ReflectorState, random: () => number): Step {
  if (state.next === "watch") return request({ ...state, phase: "watching" }, random);
  const phase = state.hasWatchList ? "streaming" : "listing";
  const { actions, state: after } = request({ ...state, phase }, random);
  return { state: after, actions: state.continueToken === "" ? [{ type: "begin" }, ...actions] : actions };
}

function request(state: ReflectorState, random: () => number): Step {
  return { state, actions: [requestOf(state, random)] };
}

function requestOf(state: ReflectorState, random: () => number): ReflectorAction {
  if (state.phase === "listing") {
    const { continueToken } = state;
    const query = { limit: `${PAGE_SIZE}`, ...(continueToken === "" ? {} : { continue: continueToken }) };
    return { type: "request", query: queryOf(query) };
  }
  const seconds = SHORTEST_WATCH + Math.floor(random() * WATCH_SPREAD);
  const common = { watch: "1", allowWatchBookmarks: "true", timeoutSeconds: `${seconds}` };
  if (state.phase === "streaming") {
    const query = { ...common, sendInitialEvents: "true", resourceVersionMatch: "NotOlderThan" };
    return { type: "request", query: queryOf(query) };
  }
  return { type: "request", query: queryOf({ ...common, resourceVersion: state.resourceVersion }) };
}

function queryOf(parameters: Readonly<Record<string, string>>): string {
  return new URLSearchParams(parameters).toString();
}

/** Ends a list after its last page: the watch begins at the list's version. */
function completed(state: ReflectorState, random: () => number): Step {
  const { state: after, actions } = request({ ...listed(state), phase: "watching" }, random);
  const ended = [...restored(state.newest, state.resourceVersion), { type: "complete" }, { type: "well" }] as const;
  return { state: after, actions: [...ended, ...actions] };
}

function listed(state: ReflectorState): ReflectorState {
  const found = { absences: 0, lags: 0, servedVersion: state.version };
  return { ...state, ...found, newest: state.resourceVersion, next: "watch", continueToken: "", isListed: true };
}

function restored(newest: string, version: string): readonly ReflectorAction[] {
  return isOlder(version, newest) ? [{ type: "restored" }] : [];
}

/** Whether a version is before another one. Versions that are not decimal numbers cannot be compared (KEP-5504). */
export function isOlder(version: string, than: string): boolean {
  if (!/^[1-9]\d*$/.test(version) || !/^[1-9]\d*$/.test(than)) return false;
  return version.length === than.length ? version < than : version.length < than.length;
}

/** Notes the version of a watch. One within a streamed list does not count: it would skip the rest of the list. */
function progressed(state: ReflectorState, resourceVersion: string): Step {
  return {
    state: state.phase === "watching" ? { ...state, resourceVersion, newest: resourceVersion, isMute: false } : state,
    actions: [],
  };
}

function failed(state: ReflectorState, failure: Failure, lasted: number, serving: Serving, random: () => number): Step {
  const waiting: ReflectorState = { ...state, phase: "waiting" };
  if (state.phase === "streaming" && hasNoWatchList(failure)) {
    return attempt({ ...waiting, next: "list", hasWatchList: false }, random);
  }
  if (isMissing(failure, serving)) return missing(waiting, failure, serving, random);
  const wasHealthy = state.phase === "watching" && lasted >= HEALTHY;
  // Servers end every watch after some minutes.
  if (wasHealthy && failure.type === "closed") return attempt(chosen({ ...waiting, failures: 0 }, serving), random);
  const failures = (wasHealthy ? 0 : state.failures) + 1;
  const isMute = isSilent(state, failure, lasted);
  // A restored server is silent about a watch from a version that it has not reached again.
  const isLost = needsList(failure, failures) || (isMute && state.isMute);
  const place = isLost ? { ...LOST, version: newestOf(serving) } : placeAfter(state);
  const wait = waitOf(state.phase, failure, failures, random);
  // The end of a watch is not reported, but that no new one is possible, or none that lasts, is.
  const isReported = state.phase !== "watching" || lasted === 0 || failures >= REPORTED_FAILURES;
  const absences = state.absences === ABSENCES_THAT_COUNT ? state.absences : 0;
  return {
    state: { ...waiting, ...place, failures, absences, isMute },
    actions: isReported ? [{ type: "trouble", failure }, wait] : [wait],
  };
}

/** Whether a watch that the server had accepted reported nothing for too long. */
function isSilent({ phase }: ReflectorState, { type }: Failure, lasted: number): boolean {
  return phase === "watching" && type === "silent" && lasted > 0;
}

type Place = Pick<ReflectorState, "next" | "resourceVersion" | "continueToken">;

const LOST: Place = { next: "list", resourceVersion: "", continueToken: "" };

/** Returns where the next attempt goes on: a watch at its last event, a list at its page. Streamed lists start over. */
function placeAfter({ phase, resourceVersion, continueToken }: ReflectorState): Place {
  if (phase === "watching") return { next: "watch", resourceVersion, continueToken: "" };
  return phase === "listing" ? { ...LOST, continueToken } : LOST;
}

/** Whether a failure means that the server has no such list, or does not show us one that we can do without. */
function isMissing(failure: Failure, serving: Serving): boolean {
  if (failure.type !== "refused" || serving.type === "required") return false;
  return failure.status === 404 || (failure.status === 403 && serving.type === "dispensable");
}

/** Returns the step after a version was not found: requests the next one; after the last, the known serving decides. */
function missing(state: ReflectorState, failure: Failure, serving: Serving, random: () => number): Step {
  if (serving.type === "served") return lagging(state, failure, serving, random);
  const next = serving.versions[serving.versions.indexOf(state.version) + 1];
  if (next !== undefined) return attempt({ ...state, ...LOST, version: next }, random);
  const after = { ...state, ...LOST, version: newestOf(serving) };
  if (serving.type === "pending" && state.lags < MOST_PENDING) {
    return { state: { ...after, lags: state.lags + 1 }, actions: [wholeWait(jittered(PENDING_WAIT, random))] };
  }
  // The objects exist and cannot be read: the known ones stay.
  if (serving.type === "withheld" && state.isListed) {
    return { state: { ...after, failures: 0, lags: 1 }, actions: [wholeWait(jittered(ABSENT_WAIT, random))] };
  }
  const isCertain = serving.type === "gone" || serving.type === "dispensable";
  return absent(after, failure, isCertain, random);
}

/** Handles a 404 for a list that the definition says is served: retries soon, and keeps all objects. */
function lagging(state: ReflectorState, failure: Failure, serving: Serving, random: () => number): Step {
  const lags = state.lags + 1;
  const next = serving.versions[serving.versions.indexOf(state.version) + 1] ?? newestOf(serving);
  const version = lags % LAGS_OF_A_VERSION === 0 ? next : state.version;
  const wait = wholeWait(jittered(lags <= SHORT_LAGS ? LAG_WAIT : LONG_LAG_WAIT, random));
  return {
    state: { ...state, ...LOST, version, lags },
    actions: lags >= REPORTED_LAGS ? [{ type: "trouble", failure }, wait] : [wait],
  };
}

/** Handles an optional kind that the server lacks: known objects go only when that is certain or repeated. */
function absent(state: ReflectorState, failure: Failure, isCertain: boolean, random: () => number): Step {
  const isFinal = isCertain || !state.isListed;
  const absences = isFinal ? ABSENCES_THAT_COUNT : Math.min(state.absences + 1, ABSENCES_THAT_COUNT);
  if (absences < ABSENCES_THAT_COUNT) {
    const wait = wholeWait(jittered(ABSENCE_WAIT, random));
    return { state: { ...state, absences }, actions: [{ type: "trouble", failure }, wait] };
  }
  return {
    state: { ...state, absences, lags: 0, failures: 0, servedVersion: undefined, isListed: true },
    actions: [{ type: "without", failure }, { type: "well" }, wholeWait(jittered(ABSENT_WAIT, random))],
  };
}

/** Whether a failure shows that the server does not support watch-list. */
function hasNoWatchList(failure: Failure): boolean {
  // Found with etcd before 3.4.31: "the required storage feature RequestWatchProgress is disabled", by an event with
  // 500.
  if (failure.type === "refused")
    return NOT_UNDERSTOOD.has(failure.status) || (failure.isEvent && failure.status >= 500);
  // A server that takes the request for a plain watch never reports the end of the list.
  return failure.type === "silent" || failure.type === "closed";
}

/**
 * Whether the next attempt has to list again. A server that is only unhealthy, or does not accept our credentials now,
 * may still have our resource version. One that keeps refusing in a watch, or with 504, may have lost it: a restored
 * etcd.
 */
function needsList(failure: Failure, failures: number): boolean {
  if (failure.type !== "refused") return false;
  const { status, isEvent } = failure;
  if (status >= 500) return (isEvent || status === TIMED_OUT) && failures > FAILURES_OF_A_PLACE;
  return !KEEPS_PLACE.has(status);
}

function waitOf(
  phase: ReflectorState["phase"],
  failure: Failure,
  failures: number,
  random: () => number,
): ReflectorAction {
  // A restarted server has lost all resource versions, so all nodes list again: soon, but not at the same moment.
  if (phase === "watching" && failures === 1 && needsList(failure, failures)) return wholeWait(LIST_SPREAD * random());
  const backOff = jittered(Math.min(LONGEST_WAIT, SHORTEST_WAIT * 2 ** Math.min(failures - 1, 10)), random);
  const wanted = failure.type === "refused" ? failure.retryAfter : undefined;
  if (wanted === undefined) return { type: "wait", milliseconds: backOff, earliest: 0 };
  const earliest = retryAfterMilliseconds(wanted);
  return { type: "wait", milliseconds: Math.max(backOff, earliest + random() * SHORTEST_WAIT), earliest };
}

/** Returns the milliseconds to wait after a Retry-After of a number of seconds. */
export function retryAfterMilliseconds(seconds: number): number {
  return Math.min(seconds * 1000, LONGEST_WAIT);
}

/** Returns a wait that does not end early when the server is healthy. */
function wholeWait(milliseconds: number): ReflectorAction {
  return { type: "wait", milliseconds, earliest: undefined };
}

/** Returns a random part of a time, from half of it to the whole. */
function jittered(milliseconds: number, random: () => number): number {
  return milliseconds * (0.5 + random() / 2);
}
