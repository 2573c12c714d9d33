import assert from "node:assert/strict";
import { RESOURCES } from "../../../../../policyd/sources/api/resources.ts";
import type { Definition } from "../../../../apiserver/definitions.ts";
import { sample } from "../../../../apiserver/objects.ts";
import { Storm } from "../../../../apiserver/storm.ts";
import { randomFrom } from "../../../../support/random.ts";
import { FOLLOWED, isProbe, oneOfEach, World } from "./world.ts";
import { roundsFor } from "../../../../support/long_form.ts";

const [BOTH, NONE] = [{ versions: ["v1beta1", "v1alpha2"] }, { versions: [] }];

/** The states that a definition may have; the first three serve a version that the daemon knows. */
const DEFINITIONS: readonly Definition[] = [
  BOTH,
  { versions: ["v1alpha2"] },
  { versions: ["v1beta1"], lag: 3000 },
  { versions: ["v1beta1"], isEstablished: false },
  { versions: ["v2"], lag: 1000 },
  NONE,
];

const pick = (definitions: readonly Definition[], random: () => number): Definition =>
  definitions[Math.floor(random() * definitions.length)] ?? BOTH;

/** @param seed is named in the message of a failure. */
function runStorm(seed: number): void {
  const world = new World(seed);
  const random = randomFrom(seed);
  const storm = new Storm(random);
  Object.assign(world.api.features, {
    hasWatchList: random() < 0.5,
    largestPage: 3,
    expiredBy: random() < 0.5 ? "event" : "status",
  });
  world.start();
  for (let step = 0; step < 400; step++) {
    const { objects, plan, strike, others } = storm.next();
    world.api.apply(objects);
    if (plan !== undefined) world.api.plan(plan);
    if (strike !== undefined) world.api.strike(strike);
    if (others === "compact") world.api.compact();
    if (others === "bookmark") world.api.bookmark();
    if (others === "down") world.connection.goDown();
    if (others === "up") world.connection.isDown = false;
    if (random() < 0.05) world.api.define(pick(DEFINITIONS, random));
    world.clock.pass(random() ** 3 * 20_000);
  }
  world.api.heal();
  world.connection.isDown = false;
  world.api.define(pick(DEFINITIONS.slice(0, 3), random));
  // A half-open connection is ended when its watch should have ended, at the latest after 10 minutes.
  world.clock.pass(800_000);
  try {
    world.assertEqual();
    assert.deepEqual(world.source.problems(), []);
    assert.equal(world.sink.reported.filter((line) => line === "synced").length, 1);
  } catch (error) {
    throw new Error(`seed ${seed}`, { cause: error });
  }
}

describe("policyd/sources/api", () => {
  for (const hasWatchList of [true, false]) {
    const way = hasWatchList ? "by watch-list" : "in pages";

    it(`API-01: the source reads every kind ${way}, reports the sync once, and follows changes`, () => {
      const world = new World();
      Object.assign(world.api.features, { hasWatchList, largestPage: 2 });
      world.api.apply([...oneOfEach(), ...[2, 3, 4, 5, 6].map((index) => sample("Pod", index))]);
      world.start();
      world.clock.pass(5000);
      assert.equal(world.sink.reported.at(-1), "synced");
      world.assertEqual();
      world.api.apply([sample("Pod", 7), sample("Pod", 3, 1), { ...sample("Pod", 2), isGone: true }]);
      world.clock.pass(1000);
      assert.deepEqual(world.sink.reported.slice(-3).sort(), [
        "delete Pod default/pod-2",
        "set Pod default/pod-3",
        "set Pod default/pod-7",
      ]);
      world.assertEqual();
      const lists = world.api.asked.filter(({ verb }) => verb === "list").length;
      assert.equal(lists, hasWatchList ? 0 : FOLLOWED + 2);
      assert.deepEqual(world.source.problems(), []);
    });
  }

  it("API-01: a server whose storage is too old for watch-list refuses it by an event and is read in pages", () => {
    const world = new World();
    Object.assign(world.api.features, { hasWatchList: false, watchListRefusedBy: "event" });
    world.api.apply(oneOfEach());
    world.start();
    world.clock.pass(1000);
    assert.ok(world.sink.isSynced);
    world.assertEqual();
    assert.deepEqual(world.sink.problems, []);
  });

  it("API-04: known objects stay while the server is away, and their staleness grows", () => {
    const world = new World();
    world.api.apply(oneOfEach());
    world.start();
    world.clock.pass(10_000);
    const known = [...world.sink.objects];
    assert.deepEqual(
      [...world.source.staleness().values()],
      RESOURCES.map(() => 0),
    );
    world.connection.goDown();
    world.clock.pass(600_000);
    assert.deepEqual([...world.sink.objects], known);
    for (const seconds of world.source.staleness().values()) assert.ok(seconds >= 599 && seconds <= 600, `${seconds}`);
    world.api.apply([sample("Pod", 9)]);
    world.connection.isDown = false;
    world.clock.pass(2000);
    world.assertEqual();
    assert.deepEqual(
      [...world.source.staleness().values()],
      RESOURCES.map(() => 0),
    );
  });

  it("API-05: a server that asks for time with Retry-After is not asked earlier", () => {
    const world = new World();
    world.api.plan({ on: "any", count: FOLLOWED, fault: { type: "status", status: 429, retryAfter: "20" } });
    world.start();
    world.clock.pass(19_000);
    assert.equal(world.api.asked.length, FOLLOWED);
    world.clock.pass(3000);
    assert.equal(world.api.asked.filter((one) => !isProbe(one)).length, 2 * FOLLOWED);
    assert.ok(world.sink.isSynced);
  });

  it("DAEMON-02: an object that becomes invalid stays in its last good version and is reported once, also over a new list", () => {
    const world = new World();
    const good = sample("Service", 1);
    world.api.apply([good]);
    world.start();
    world.clock.pass(1000);
    const bad = { ...good, spec: { clusterIPs: ["10.96.0.1"], ports: [{ port: 80, protocol: "SMTP" }], type: 7 } };
    world.api.apply([bad]);
    world.clock.pass(1000);
    assert.deepEqual([...world.sink.objects.keys()], ["Service default/service-1"]);
    assert.equal(world.sink.problems.length, 1);
    assert.match(world.source.problems()[0] ?? "", /^Service default\/service-1: .*its last good version stays/);
    world.api.strike({ type: "error", status: 410 });
    world.clock.pass(60_000);
    assert.equal(world.sink.problems.length, 1);
    world.api.apply([good]);
    world.clock.pass(1000);
    assert.deepEqual(world.source.problems(), []);
    world.api.apply([bad, { ...good, isGone: true }]);
    world.clock.pass(1000);
    assert.equal(world.sink.objects.size, 0);
  });

  it("API-02: a server whose watches end at once, with an error or in the middle is not asked without pause", () => {
    for (const fault of [
      { type: "close" },
      { type: "error", status: 410 },
      { type: "error", status: 500 },
      { type: "garbage" },
      { type: "truncate", isReset: false },
      { type: "truncate", isReset: true },
    ] as const) {
      const world = new World();
      world.api.apply(oneOfEach());
      world.start();
      world.clock.pass(10_000);
      const asked = world.asked(() => {
        for (let i = 0; i < 6000; i++) {
          world.clock.pass(100);
          world.api.strike(fault, "/api/v1/pods");
        }
      });
      const ofPods = asked.filter((line) => line.endsWith("/pods"));
      assert.ok(ofPods.length > 15 && ofPods.length < 130, `${fault.type}: ${ofPods.length} in 10 minutes`);
      world.clock.pass(60_000);
      world.assertEqual();
    }
  });

  for (const hasWatchList of [true, false]) {
    const way = hasWatchList ? "with" : "without";

    it(`API-14: in a quiet hour each kind gets a new watch only every five to ten minutes, ${way} watch-list`, () => {
      const world = new World();
      world.api.features.hasWatchList = hasWatchList;
      world.start();
      world.clock.pass(10_000);
      const asked = world.asked(() => world.clock.pass(3_600_000));
      for (const { path } of RESOURCES) {
        const count = asked.filter((line) => line === `watch ${path}`).length;
        assert.ok(count >= 5 && count <= 12, `${path}: ${count}`);
      }
      assert.deepEqual(
        asked.filter((line) => line.startsWith("list ")),
        [],
      );
      assert.deepEqual(world.sink.problems, []);
      assert.deepEqual(
        [...world.source.staleness().values()].filter((seconds) => seconds > 0),
        [],
      );
    });
  }

  it("API-15: a half-open connection is ended, for a list after 30 s, for a watch without bookmarks after 120 s", () => {
    for (const hasWatchList of [true, false]) {
      const world = new World();
      world.api.features.hasWatchList = hasWatchList;
      world.api.apply(oneOfEach());
      const on = hasWatchList ? "watch" : "list";
      world.api.plan({ on, path: "/api/v1/pods", count: 1, fault: { type: "silence" } });
      world.start();
      world.clock.pass(29_000);
      assert.ok(!world.sink.isSynced);
      world.clock.pass(3000);
      assert.ok(world.sink.isSynced);
      world.api.strike({ type: "silence", hasProxy: hasWatchList });
      world.api.apply([sample("Pod", 2)]);
      world.clock.pass(110_000);
      assert.ok(!world.sink.objects.has("Pod default/pod-2"));
      world.clock.pass(20_000);
      world.assertEqual();
      assert.deepEqual(world.sink.problems, []);
    }
  });

  for (const [what, hasWatchList, fault] of [
    ["streamed list", true, undefined],
    ["page of a list", false, undefined],
    ["refusal", true, { type: "status", status: 503 }],
  ] as const) {
    it(`API-15: a ${what} of which a balancer sends a byte every ten seconds is given up after 120 s without a whole object`, () => {
      const world = new World();
      world.api.features.hasWatchList = hasWatchList;
      world.api.apply(oneOfEach());
      if (fault !== undefined) world.api.plan({ on: "any", count: FOLLOWED, fault });
      world.connection.trickle = 10_000;
      world.start();
      world.clock.pass(1);
      world.connection.trickle = 0;
      world.clock.pass(119_000);
      assert.ok(!world.sink.isSynced);
      world.clock.pass(5000);
      assert.ok(world.sink.isSynced);
      world.assertEqual();
    });
  }

  it("API-25: after hundreds of changes and random faults the model equals a direct read of the server", function () {
    this.timeout(60_000);
    const first = Math.floor(Math.random() * 2 ** 31);
    const rounds = roundsFor("rounds", 8, 100);
    for (let round = 0; round < rounds; round++) runStorm(first + round);
  });
});
