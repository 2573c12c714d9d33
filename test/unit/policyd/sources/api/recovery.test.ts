import assert from "node:assert/strict";
import type { PlannedFault } from "../../../../apiserver/faults.ts";
import { sample } from "../../../../apiserver/objects.ts";
import { FOLLOWED, isProbe, oneOfEach, World } from "./world.ts";

const MINUTE = 60_000;
/**
 * For eight kinds there are six attempts in the first minute and fewer later, and 67 probes, each at most a list and a
 * watch.
 */
const MOST_A_MINUTE = 2 * (8 * 6 + 67);
const FOREVER = 1e9;

/** The illness of a server: a fault for all requests from now on, and a strike at open watches all the time. */
interface Illness {
  readonly name: string;
  readonly fault?: PlannedFault["fault"];
  readonly on?: PlannedFault["on"];
  readonly strike?: number;
  /** Whether it comes back without its earlier changes. */
  readonly forgets?: boolean;
}

const ILLNESSES: readonly Illness[] = [
  { name: "is away" },
  { name: "is away and forgets what happened", forgets: true },
  { name: "answers 500", fault: { type: "status", status: 500 } },
  { name: "answers 503 and wants a second", fault: { type: "status", status: 503, retryAfter: "1" } },
  { name: "answers 429 and wants a second", fault: { type: "status", status: 429, retryAfter: "1" } },
  { name: "resets connections", fault: { type: "reset" } },
  { name: "takes requests and says nothing", fault: { type: "hang" } },
  { name: "ends its answers in the middle", fault: { type: "truncate", isReset: false } },
  { name: "answers watches with 410", fault: { type: "status", status: 410 }, on: "watch" },
  { name: "ends its watches with 410", strike: 410 },
];

describe("policyd/sources/api: a server that is away and comes back", () => {
  for (const { name, fault, on = "any", strike, forgets = false } of ILLNESSES) {
    for (const hasWatchList of [true, false]) {
      it(`API-17: a server that ${name} for 10 minutes is caught up with in 2 s, ${hasWatchList ? "with" : "without"} watch-list`, () => {
        const world = new World(7);
        world.api.features.hasWatchList = hasWatchList;
        world.api.apply(oneOfEach());
        world.start();
        world.clock.pass(10_000);
        const known = [...world.sink.objects];
        if (fault !== undefined) world.api.plan({ on, count: FOREVER, fault });
        if (strike === undefined) world.connection.goDown();
        if (fault !== undefined) world.connection.isDown = false;
        for (let minute = 0; minute < 10; minute++) {
          const before = world.connection.attempts;
          for (let time = 0; time < MINUTE; time += 100) {
            world.clock.pass(100);
            if (strike !== undefined) world.api.strike({ type: "error", status: strike });
          }
          const attempts = world.connection.attempts - before;
          assert.ok(attempts > 30 && attempts <= MOST_A_MINUTE, `minute ${minute}: ${attempts}`);
        }
        assert.deepEqual([...world.sink.objects], known);
        world.api.apply([sample("Pod", 9), { ...sample("Service", 1), isGone: true }]);
        if (forgets) world.api.compact();
        world.api.heal();
        world.connection.isDown = false;
        world.clock.pass(2000);
        world.assertEqual();
        assert.deepEqual(world.source.problems(), []);
        assert.ok([...world.source.staleness().values()].every((seconds) => seconds === 0));
        world.clock.pass(10_000);
        const quiet = world.connection.attempts;
        world.clock.pass(MINUTE);
        assert.equal(world.connection.attempts, quiet, "every kind has caught up");
      });
    }
  }

  for (const hasWatchList of [true, false]) {
    it(`API-15: a slow server is waited for and gets no more requests than a fast one, ${hasWatchList ? "with" : "without"} watch-list`, () => {
      const world = new World(7);
      world.api.features.hasWatchList = hasWatchList;
      world.api.apply(oneOfEach());
      let requests = 0;
      world.connection.delayOf = (url) => {
        requests++;
        // One probe of three takes longer than a period, and one of seven so long that it is given up.
        if (isProbe({ verb: "list", url })) return requests % 7 === 0 ? 11_000 : requests % 3 === 0 ? 1500 : 300;
        if (url.includes("sendInitialEvents") && !hasWatchList) return 300;
        return 6000 + (requests % 4) * 2000;
      };
      const asked = (): readonly string[] => world.api.asked.flatMap((one) => (isProbe(one) ? [] : [one.verb]));
      world.start();
      world.clock.pass(13_000);
      assert.ok(world.sink.isSynced, "the sync comes with the slowest list");
      world.assertEqual();
      assert.equal(asked().filter((verb) => verb === "list").length, hasWatchList ? 0 : FOLLOWED);
      world.clock.pass(30_000);
      // Watch-list, or a watch without an answer, is requested once more and then waited for.
      assert.ok(asked().length <= (hasWatchList ? FOLLOWED : FOLLOWED * 4), asked().join());
      world.api.apply([sample("Pod", 9)]);
      world.clock.pass(100);
      world.assertEqual();
      assert.deepEqual(world.source.problems(), []);
      const quiet = world.connection.attempts;
      world.clock.pass(MINUTE);
      assert.equal(world.connection.attempts, quiet, "every kind has caught up");
    });
  }

  it("API-17 DAEMON-09: a clock that is set back while the server is away delays no reconnection", () => {
    const world = new World();
    world.api.apply(oneOfEach());
    world.start();
    world.clock.pass(10_000);
    world.connection.goDown();
    world.clock.pass(MINUTE);
    world.api.apply([sample("Pod", 9)]);
    world.connection.isDown = false;
    world.clock.pass(500);
    world.clock.set(-120 * MINUTE);
    world.clock.pass(1500);
    world.assertEqual();
    assert.ok([...world.source.staleness().values()].every((seconds) => seconds === 0));
  });

  it("API-17: the daemons of a cluster probe a server that comes back at different times, and spread their lists", () => {
    /** The milliseconds until a daemon probes whether the server is back, and until its last list and watch. */
    const moments = (seed: number): readonly [number, number] => {
      const world = new World(seed);
      world.start();
      world.clock.pass(10_000);
      world.connection.goDown();
      world.clock.pass(5000);
      world.api.apply(oneOfEach());
      world.api.compact();
      world.connection.isDown = false;
      let [first, last, known] = [-1, -1, world.api.asked.length];
      for (let time = 0; time < 2500; time += 10) {
        world.clock.pass(10);
        const asked = world.api.asked.slice(known);
        known += asked.length;
        if (first === -1 && asked.some(isProbe)) first = time;
        if (asked.some((one) => !isProbe(one))) last = time;
      }
      return [first, last];
    };
    const all = Array.from({ length: 40 }, (_, index) => moments(index + 1));
    for (const index of [0, 1] as const) {
      const times = all.map((one) => one[index]).sort((a, b) => a - b);
      const together = times.map((time) => times.filter((other) => Math.abs(other - time) <= 50).length);
      assert.ok((times.at(-1) ?? 0) - (times[0] ?? 0) > 700, times.join());
      assert.ok(Math.max(...together) <= 15, times.join());
    }
  });

  it("API-17: no probe is sent in the time that a server asks for", () => {
    const world = new World();
    world.start();
    world.clock.pass(10_000);
    world.api.plan({ on: "any", count: FOREVER, fault: { type: "status", status: 429, retryAfter: "20" } });
    world.api.strike({ type: "close" });
    world.clock.pass(5 * MINUTE);
    const times: number[] = [];
    for (let time = 0; time < 2 * MINUTE; time += 100) {
      const before = world.api.asked.length;
      world.clock.pass(100);
      if (world.api.asked.slice(before).some(isProbe)) times.push(time);
    }
    assert.ok(times.length > 2);
    for (const [index, time] of times.entries()) {
      const last = times[index - 1];
      assert.ok(last === undefined || time - last >= 19_900, times.join());
    }
  });
});
