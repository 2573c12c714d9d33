import type { Failure } from "./failure.ts";
import type { Serving } from "./serving.ts";
import { newestOf } from "./serving.ts";

/** Where following one kind of objects stands. */
export interface ReflectorState {
  /**
   * "waiting" for the next attempt; "listing" page by page; "streaming" a list as the beginning of a watch; "watching".
   */
  readonly phase: "waiting" | "listing" | "streaming" | "watching";
  /** What the next attempt does. */
  readonly next: "list" | "watch";
  /** Whether the server may have watch-list: until it has shown that it has not. */
  readonly hasWatchList: boolean;
  /** From where a watch goes on; empty before there is a whole list. */
  readonly resourceVersion: string;
  /** Of the list that is being read; empty at its beginning. */
  readonly continueToken: string;
  /** Attempts in a row that did not come to anything. */
  readonly failures: number;
  /** How often in a row the server had no such list; at ABSENCES_THAT_COUNT it is known to have none. */
  readonly absences: number;
  /** How often in a row the server had no such list although it says that it serves it, or has not said yet whether it does. */
  readonly lags: number;
  /** The version that is asked for, by its index. */
  readonly version: number;
  /** The version that the objects in force were last read in; undefined while the server has none of the kind. */
  readonly servedVersion: number | undefined;
  /** Whether there was a whole list. */
  readonly isListed: boolean;
}

export type ReflectorEvent =
  /** The wait is over. */
  | { readonly type: "due" }
  /** The server has taken the request. */
  | { readonly type: "answered" }
  /** A page of a list is whole. */
  | { readonly type: "page"; readonly next: string; readonly resourceVersion: string }
  /** The bookmark behind the list that begins a watch. */
  | { readonly type: "initialEnd"; readonly resourceVersion: string }
  /** The server is well again: the next failure is taken for the first. */
  | { readonly type: "recovered" }
  /** {@link Serving} has changed. */
  | { readonly type: "redefined" }
  /** A watch has told of everything up to here. */
  | { readonly type: "progress"; readonly resourceVersion: string }
  /** The attempt is over. `lasted` is how long the server was listened to, in milliseconds. */
  | { readonly type: "failed"; readonly failure: Failure; readonly lasted: number };

export type ReflectorAction =
  /** Asks below the path of the list. `quiet` is for how many milliseconds a watch may say nothing. */
  | { readonly type: "request"; readonly query: string; readonly quiet: number }
  /** `earliest` is after how many of them it may end because the server is well again; undefined if never. */
  | { readonly type: "wait"; readonly milliseconds: number; readonly earliest: number | undefined }
  /** A list begins: what was taken for an earlier one is forgotten. */
  | { readonly type: "begin" }
  /** The list is whole: what was not in it is gone. */
  | { readonly type: "complete" }
  /** The server has no such list, or does not show it: there are no objects. */
  | { readonly type: "without"; readonly failure: Failure }
  /** What goes wrong, and that nothing does any more. */
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
  continueToken: "",
  failures: 0,
  absences: 0,
  lags: 0,
  version: 0,
  servedVersion: undefined,
  isListed: false,
});

/** As client-go pages. */
const PAGE_SIZE = 500;
/** client-go's back-off: doubled from there, with jitter, so that not all nodes come at the same moment. */
const SHORTEST_WAIT = 800;
const LONGEST_WAIT = 30_000;
/** Over how many milliseconds the lists of all nodes spread. */
export const LIST_SPREAD = 500;
/** A kind that a server does not have is asked for seldom: 5,000 nodes do it 100 times a second. */
const ABSENT_WAIT = 60_000;
/** An API server that is starting may not know a kind yet: what is known of it goes when it says so again and again. */
const ABSENCES_THAT_COUNT = 3;
const ABSENCE_WAIT = 10_000;
/** A server that says that it serves a kind may serve it only moments later; one of several servers may take longer. */
const LAG_WAIT = 500;
const SHORT_LAGS = 20;
const LONG_LAG_WAIT = 10_000;
const TOLD_LAGS = 6;
/** Another version that is served is tried after this number of them. */
const LAGS_OF_A_VERSION = 4;
/** How long what defines a kind is waited for where the kind itself is not there. */
const PENDING_WAIT = 200;
const MOST_PENDING = 25;
/** How long a watch is asked for, in seconds, as client-go asks: longer ones are closed by proxies. */
const SHORTEST_WATCH = 300;
const WATCH_SPREAD = 300;
/** What a server that ends its watches may come too late. */
const WATCH_MARGIN = 30_000;
/** A watch that held so long was a good one; another that ends is not opened anew without a wait. */
const HEALTHY = 5000;
/** What says that the parameters of watch-list are unknown: API servers before 1.32 answer 422 (KEP-3157). */
const NOT_UNDERSTOOD = new Set([400, 405, 406, 415, 422]);
/** Who asks, or how often, is refused: not from where. */
const KEEPS_PLACE = new Set([401, 403, 429]);
/** What "too large resource version" is told by. */
const TIMED_OUT = 504;
const FAILURES_OF_A_PLACE = 4;
const TOLD_FAILURES = 3;

/**
 * What follows from an event: the whole of how a kind of objects is followed, without doing any of it.
 *
 * It never gives up. A watch goes on where it was; what it cannot go on from (410, or any refusal that is not about the
 * server's state of health) leads to a new list. Lists are asked for without a resource version: a daemon must not go back
 * in time to what a server behind the others knows.
 *
 * Of several versions of a kind the newest one that is served is followed. The known objects stay in force until
 * the list in another version is whole, as for every list.
 *
 * @param random from 0 up to 1, the same distribution each time
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
            actions: [{ type: "complete" }, { type: "well" }],
          }
        : progressed(state, event.resourceVersion);
    case "progress":
      return progressed(state, event.resourceVersion);
    case "recovered":
      return { state: { ...state, failures: 0 }, actions: [] };
    case "failed":
      return failed(state, event.failure, event.lasted, serving, random);
  }
}

/** With the newest version where the server serves one that is newer than that of the state, or not that one. */
function chosen(state: ReflectorState, serving: Serving): ReflectorState {
  const isRight =
    serving.type !== "served" ||
    (state.next === "watch" ? state.version === newestOf(serving) : serving.versions.includes(state.version));
  return isRight ? state : { ...state, ...LOST, version: newestOf(serving), lags: 0 };
}

/** Asks at once where what was found out before does not hold any more. */
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
    return { type: "request", query: queryOf(query), quiet: 0 };
  }
  const seconds = SHORTEST_WATCH + Math.floor(random() * WATCH_SPREAD);
  const quiet = seconds * 1000 + WATCH_MARGIN;
  const common = { watch: "1", allowWatchBookmarks: "true", timeoutSeconds: `${seconds}` };
  if (state.phase === "streaming") {
    const query = { ...common, sendInitialEvents: "true", resourceVersionMatch: "NotOlderThan" };
    return { type: "request", query: queryOf(query), quiet };
  }
  return { type: "request", query: queryOf({ ...common, resourceVersion: state.resourceVersion }), quiet };
}

function queryOf(parameters: Readonly<Record<string, string>>): string {
  return new URLSearchParams(parameters).toString();
}

/** The last page is read: the watch begins where the list was made. */
function completed(state: ReflectorState, random: () => number): Step {
  const { state: after, actions } = request({ ...listed(state), phase: "watching" }, random);
  return { state: after, actions: [{ type: "complete" }, { type: "well" }, ...actions] };
}

function listed(state: ReflectorState): ReflectorState {
  const found = { absences: 0, lags: 0, servedVersion: state.version };
  return { ...state, ...found, next: "watch", continueToken: "", isListed: true };
}

/** During the list that begins a watch nothing may be gone on from: it would leave out the rest of the list. */
function progressed(state: ReflectorState, resourceVersion: string): Step {
  return { state: state.phase === "watching" ? { ...state, resourceVersion } : state, actions: [] };
}

function failed(state: ReflectorState, failure: Failure, lasted: number, serving: Serving, random: () => number): Step {
  const waiting: ReflectorState = { ...state, phase: "waiting" };
  if (state.phase === "streaming" && hasNoWatchList(failure)) {
    return attempt({ ...waiting, next: "list", hasWatchList: false }, random);
  }
  if (isMissing(failure, serving)) return missing(waiting, failure, serving, random);
  const wasHealthy = state.phase === "watching" && lasted >= HEALTHY;
  // What a server does to all watches, every some minutes.
  if (wasHealthy && failure.type === "closed") return attempt(chosen({ ...waiting, failures: 0 }, serving), random);
  const failures = (wasHealthy ? 0 : state.failures) + 1;
  const place = needsList(failure, failures) ? { ...LOST, version: newestOf(serving) } : placeAfter(state);
  const wait = waitOf(state.phase, failure, failures, random);
  // That a watch ends is nothing to tell of; that no new one can be had, or none that lasts, is.
  const isTold = state.phase !== "watching" || lasted === 0 || failures >= TOLD_FAILURES;
  const absences = state.absences === ABSENCES_THAT_COUNT ? state.absences : 0;
  return {
    state: { ...waiting, ...place, failures, absences },
    actions: isTold ? [{ type: "trouble", failure }, wait] : [wait],
  };
}

type Place = Pick<ReflectorState, "next" | "resourceVersion" | "continueToken">;

const LOST: Place = { next: "list", resourceVersion: "", continueToken: "" };

/** Where the next attempt goes on: a watch at its last event, a list at its next page, a list that begins a watch nowhere. */
function placeAfter({ phase, resourceVersion, continueToken }: ReflectorState): Place {
  if (phase === "watching") return { next: "watch", resourceVersion, continueToken: "" };
  return phase === "listing" ? { ...LOST, continueToken } : LOST;
}

/** Whether a failure says that the server has no such list, or has none for us of what we can do without. */
function isMissing(failure: Failure, serving: Serving): boolean {
  if (failure.type !== "refused" || serving.type === "required") return false;
  return failure.status === 404 || (failure.status === 403 && serving.type === "dispensable");
}

/** The step after a version was not there: the next one is asked for; after the last it depends on what is known. */
function missing(state: ReflectorState, failure: Failure, serving: Serving, random: () => number): Step {
  if (serving.type === "served") return lagging(state, failure, serving, random);
  const next = serving.versions[serving.versions.indexOf(state.version) + 1];
  if (next !== undefined) return attempt({ ...state, ...LOST, version: next }, random);
  const after = { ...state, ...LOST, version: newestOf(serving) };
  if (serving.type === "pending" && state.lags < MOST_PENDING) {
    return { state: { ...after, lags: state.lags + 1 }, actions: [wholeWait(jittered(PENDING_WAIT, random))] };
  }
  // The objects are there and cannot be read: what is known of them stays.
  if (serving.type === "withheld" && state.isListed) {
    return { state: { ...after, failures: 0, lags: 1 }, actions: [wholeWait(jittered(ABSENT_WAIT, random))] };
  }
  const isCertain = serving.type === "gone" || serving.type === "dispensable";
  return absent(after, failure, isCertain, random);
}

/** The server says that it serves the list, and does not: it is asked again soon, and nothing follows from it. */
function lagging(state: ReflectorState, failure: Failure, serving: Serving, random: () => number): Step {
  const lags = state.lags + 1;
  const next = serving.versions[serving.versions.indexOf(state.version) + 1] ?? newestOf(serving);
  const version = lags % LAGS_OF_A_VERSION === 0 ? next : state.version;
  const wait = wholeWait(jittered(lags <= SHORT_LAGS ? LAG_WAIT : LONG_LAG_WAIT, random));
  return {
    state: { ...state, ...LOST, version, lags },
    actions: lags >= TOLD_LAGS ? [{ type: "trouble", failure }, wait] : [wait],
  };
}

/** A server that has none of an optional kind: there are no objects, unless some are known and it may be a slip. */
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

/** Whether it shows that the server does not send lists as the beginning of a watch. */
function hasNoWatchList(failure: Failure): boolean {
  // Found with etcd before 3.4.31: "the required storage feature RequestWatchProgress is disabled", by an event with 500.
  if (failure.type === "refused")
    return NOT_UNDERSTOOD.has(failure.status) || (failure.isEvent && failure.status >= 500);
  // It takes the request for a plain watch: then the end of the list is never told.
  return failure.type === "silent" || failure.type === "closed";
}

/**
 * Whether going on from where we were is of no use. A server that is only ill, or does not know us now, may still have it;
 * one that goes on refusing in a watch, or by 504, may have lost what we have seen: an etcd that was restored.
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
  // A server that was restarted has forgotten all places: then all nodes list, not late, and not at the same moment.
  if (phase === "watching" && failures === 1 && needsList(failure, failures)) return wholeWait(LIST_SPREAD * random());
  const backOff = jittered(Math.min(LONGEST_WAIT, SHORTEST_WAIT * 2 ** Math.min(failures - 1, 10)), random);
  const wanted = failure.type === "refused" ? failure.retryAfter : undefined;
  if (wanted === undefined) return { type: "wait", milliseconds: backOff, earliest: 0 };
  const earliest = retryAfterMilliseconds(wanted);
  return { type: "wait", milliseconds: Math.max(backOff, earliest + random() * SHORTEST_WAIT), earliest };
}

/** For how long a server is left alone that asks for so many seconds. */
export function retryAfterMilliseconds(seconds: number): number {
  return Math.min(seconds * 1000, LONGEST_WAIT);
}

/** One that does not end earlier because the server is well. */
function wholeWait(milliseconds: number): ReflectorAction {
  return { type: "wait", milliseconds, earliest: undefined };
}

/** From half of it to the whole. */
function jittered(milliseconds: number, random: () => number): number {
  return milliseconds * (0.5 + random() / 2);
}
