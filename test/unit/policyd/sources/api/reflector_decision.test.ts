import assert from "node:assert/strict";
import { type Failure, failureText } from "../../../../../policyd/sources/api/failure.ts";
import { REQUIRED, type Serving } from "../../../../../policyd/sources/api/serving.ts";
import {
  advance,
  INITIAL,
  type ReflectorEvent,
  type ReflectorState,
  type Step,
} from "../../../../../policyd/sources/api/reflector_decision.ts";

const UNKNOWN: Serving = { type: "unknown", versions: [0] };
const half = (): number => 0.5;

/** The last step after a sequence of events. */
function run(events: readonly ReflectorEvent[], from: ReflectorState = INITIAL, serving: Serving = REQUIRED): Step {
  let step: Step = { state: from, actions: [] };
  for (const event of events) step = advance(step.state, event, serving, half);
  return step;
}

const failed = (failure: Failure, lasted = 0): ReflectorEvent => ({ type: "failed", failure, lasted });
const refused = (status: number, retryAfter?: number, isEvent = false): Failure => ({
  type: "refused",
  status,
  words: "",
  retryAfter,
  isEvent,
});
const broken: Failure = { type: "broken", reason: "read ECONNRESET" };
const due: ReflectorEvent = { type: "due" };
const answered: ReflectorEvent = { type: "answered" };

/** Watching by watch-list since a list of version 7. */
const WATCHING = run([due, answered, { type: "initialEnd", resourceVersion: "7" }]).state;

const waitOf = ({ actions }: Step): number | undefined =>
  actions.flatMap((action) => (action.type === "wait" ? [action.milliseconds] : []))[0];
const queryOf = ({ actions }: Step): URLSearchParams =>
  new URLSearchParams(actions.flatMap((action) => (action.type === "request" ? [action.query] : []))[0]);
const kinds = ({ actions }: Step): readonly string[] => actions.map(({ type }) => type);

describe("policyd/sources/api/reflector_decision", () => {
  it("API-01: the first request is a list that becomes a watch with bookmarks, and the next continues from its end", () => {
    const first = run([due]);
    assert.deepEqual(Object.fromEntries(queryOf(first)), {
      watch: "1",
      allowWatchBookmarks: "true",
      timeoutSeconds: "450",
      sendInitialEvents: "true",
      resourceVersionMatch: "NotOlderThan",
    });
    const progress = run([answered, { type: "progress", resourceVersion: "3" }], first.state);
    assert.equal(progress.state.resourceVersion, "", "a version in the middle of the list cannot be continued from");
    assert.deepEqual([WATCHING.phase, WATCHING.resourceVersion, WATCHING.isListed], ["watching", "7", true]);
    const next = run([{ type: "progress", resourceVersion: "9" }, failed({ type: "closed" }, 300_000)], WATCHING);
    assert.deepEqual(Object.fromEntries(queryOf(next)), {
      watch: "1",
      allowWatchBookmarks: "true",
      timeoutSeconds: "450",
      resourceVersion: "9",
    });
  });

  it("API-01: a server without watch-list is asked in pages of 500 from then on, and watched from the list", () => {
    const ofStorage = refused(500, undefined, true);
    for (const failure of [refused(422), refused(400), ofStorage, { type: "silent" }, { type: "closed" }] as const) {
      const page = run([due, failed(failure)]);
      assert.equal(queryOf(page).toString(), "limit=500");
      const second = run([answered, { type: "page", next: "abc", resourceVersion: "5" }], page.state);
      assert.equal(queryOf(second).toString(), "limit=500&continue=abc");
      assert.equal(second.state.isListed, false);
      const watch = run([answered, { type: "page", next: "", resourceVersion: "5" }], second.state);
      assert.deepEqual(kinds(watch), ["complete", "well", "request"]);
      assert.equal(queryOf(watch).get("resourceVersion"), "5");
      const relist = run([failed(refused(410)), due], watch.state);
      assert.equal(queryOf(relist).toString(), "limit=500");
    }
  });

  it("API-05: retries wait with growing pauses up to 30 s, always with jitter, or as long as the server asks, up to 30 s", () => {
    let step = run([due]);
    const waits: number[] = [];
    for (let i = 0; i < 50; i++) {
      step = run([failed(broken), due], step.state);
      waits.push(waitOf(run([failed(broken)], step.state)) ?? 0);
    }
    assert.deepEqual(waits.slice(0, 6), [1200, 2400, 4800, 9600, 19_200, 22_500]);
    assert.ok(waits.slice(6).every((wait) => wait === 22_500));
    assert.equal(waitOf(run([due, failed(refused(429, 10))])), 10_400);
    assert.equal(waitOf(run([due, failed(refused(503, 1e9))])), 30_400);
    for (const random of [0, 0.999]) {
      const { actions } = advance({ ...WATCHING, failures: 60 }, failed(broken), REQUIRED, () => random);
      const wait = waitOf({ state: WATCHING, actions }) ?? 0;
      assert.ok(wait >= 15_000 && wait <= 30_000, `${wait}`);
    }
  });

  it("API-02: a broken watch continues at its version, and one that cannot is followed by a new list", () => {
    const goesOn: readonly Failure[] = [
      broken,
      { type: "silent" },
      refused(429),
      refused(500),
      refused(503),
      refused(401),
    ];
    for (const failure of goesOn) {
      const next = run([failed(failure, 1000), due], WATCHING);
      assert.equal(queryOf(next).get("resourceVersion"), "7", JSON.stringify(failure));
    }
    for (const failure of [refused(410), refused(410, undefined, true), refused(400), refused(404)]) {
      const next = run([failed(failure, 1000), due], WATCHING);
      assert.equal(queryOf(next).get("sendInitialEvents"), "true", JSON.stringify(failure));
      assert.ok(kinds(next).includes("begin"));
    }
  });

  it("CNP-17: only an optional kind may be missing", () => {
    assert.deepEqual(kinds(run([due, failed(refused(404))], INITIAL, UNKNOWN)), ["without", "well", "wait"]);
    assert.deepEqual(kinds(run([due, failed(refused(404))])), ["trouble", "wait"]);
    const absent = run(
      [due, failed(refused(404)), due, failed(refused(503)), due, failed(refused(404))],
      INITIAL,
      UNKNOWN,
    );
    assert.deepEqual(kinds(absent), ["without", "well", "wait"], "nothing is known that could be removed");
  });

  it("API-04: a failure is reported with the server, what is missing and the way out, without control characters", () => {
    const server = "https://192.0.2.1:6443";
    const forbidden = { ...refused(403), words: "pods is forbidden\u001b[2J" } as Failure;
    assert.match(
      failureText(forbidden, server, "pods"),
      /^https:\/\/192\.0\.2\.1:6443: pods: 403 \(pods is forbidden\\u\{1b\}\[2J\); expected the verbs list and watch on pods/,
    );
    assert.equal(
      failureText(broken, server, "pods"),
      failureText(broken, server, "nodes"),
      "one problem for all kinds",
    );
    assert.match(failureText({ type: "silent" }, server, "pods"), /: pods: no answer in time; .* what is known stays$/);
  });
});
