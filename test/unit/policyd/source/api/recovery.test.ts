import assert from "node:assert/strict";
import type { PlannedFault } from "../../../../apiserver/faults.ts";
import { sample } from "../../../../apiserver/objects.ts";
import { isProbe, oneOfEach, World } from "./world.ts";

const MINUTE = 60_000;
/** Of eight kinds six attempts in the first minute and fewer later, and 80 probes; each a list and a watch at most. */
const MOST_A_MINUTE = 2 * (8 * 6 + 80);
const FOREVER = 1e9;

/** What may be wrong with a server: what it does to requests from now on, and to open watches all the time. */
interface Illness {
  readonly name: string;
  readonly fault?: PlannedFault["fault"];
  readonly on?: PlannedFault["on"];
  readonly strike?: number;
}

const ILLNESSES: readonly Illness[] = [
  { name: "is away" },
  { name: "answers 500", fault: { type: "status", status: 500 } },
  { name: "answers 503 and wants a second", fault: { type: "status", status: 503, retryAfter: "1" } },
  { name: "answers 429 and wants a second", fault: { type: "status", status: 429, retryAfter: "1" } },
  { name: "resets connections", fault: { type: "reset" } },
  { name: "takes requests and says nothing", fault: { type: "hang" } },
  { name: "ends its answers in the middle", fault: { type: "truncate", isReset: false } },
  { name: "answers watches with 410", fault: { type: "status", status: 410 }, on: "watch" },
  { name: "ends its watches with 410", strike: 410 },
];

describe("policyd/source/api: a server that is away and comes back", () => {
  for (const { name, fault, on = "any", strike } of ILLNESSES) {
    for (const hasWatchList of [true, false]) {
      it(`API-17: one that ${name} for 10 minutes, ${hasWatchList ? "with" : "without"} watch-list`, () => {
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
        world.api.heal();
        world.connection.isDown = false;
        world.clock.pass(2000);
        world.assertEqual();
        assert.deepEqual(world.source.problems(), []);
        assert.ok([...world.source.staleness().values()].every((seconds) => seconds === 0));
        world.clock.pass(10_000);
        const quiet = world.connection.attempts;
        world.clock.pass(MINUTE);
        assert.equal(world.connection.attempts, quiet, "nobody is behind any more");
      });
    }
  }

  it("API-17: what ails one kind alone is asked about by its own waits", () => {
    const world = new World();
    world.start();
    world.clock.pass(10_000);
    const path = "/api/v1/pods";
    world.api.plan({ on: "any", path, count: FOREVER, fault: { type: "status", status: 500 } });
    world.api.strike({ type: "close" }, path);
    const before = world.api.asked.length;
    world.clock.pass(10 * MINUTE);
    const asked = world.api.asked.slice(before).filter(({ url }) => url.startsWith(path));
    assert.ok(asked.length > 20 && asked.length < 50, `${asked.length}`);
  });

  it("API-17: no probe comes in the time that a server asks for", () => {
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

  it("API-17: an end is an end, also for the probes", () => {
    const world = new World();
    world.start();
    world.clock.pass(1000);
    world.connection.goDown();
    world.clock.pass(5000);
    world.source.stop();
    const { attempts } = world.connection;
    world.clock.pass(MINUTE);
    assert.equal(world.connection.attempts, attempts);
    assert.equal(world.clock.pending, 0);
  });
});
