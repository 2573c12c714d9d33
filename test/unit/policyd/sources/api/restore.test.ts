import assert from "node:assert/strict";
import { sample } from "../../../../apiserver/objects.ts";
import { oneOfEach, World } from "./world.ts";

describe("policyd/sources/api: a server that is restored from a backup", () => {
  for (const hasWatchList of [true, false]) {
    for (const [sign, show] of [
      ["a bookmark", (world: World) => world.api.bookmark()],
      ["an event", (world: World) => world.api.apply([sample("Pod", 9)])],
      ["a new watch", (world: World) => world.api.strike({ type: "close" })],
      ["a watch that is silent", (world: World) => world.api.strike({ type: "silence" })],
      ["a deletion", (world: World) => world.api.apply([{ ...sample("Pod", 2), isGone: true }])],
      ["a connection that breaks", (world: World) => world.api.strike({ type: "truncate", isReset: true })],
      [
        "a server that has not yet reached the version",
        (world: World) => {
          world.api.plan({ on: "watch", count: 30, fault: { type: "status", status: 504 } });
          world.api.strike({ type: "close" });
        },
      ],
    ] as const) {
      it(`API-26: after a restore of etcd ${sign} makes the objects go back, ${hasWatchList ? "with" : "without"} watch-list, and that is reported and counted`, () => {
        const world = new World();
        world.api.features.hasWatchList = hasWatchList;
        world.api.apply([...oneOfEach(), sample("Pod", 2)]);
        const restores = [world.api.storage.backup()];
        world.start();
        world.clock.pass(10_000);
        world.api.apply([sample("Pod", 4)]);
        restores.unshift(world.api.storage.backup());
        for (let change = 1; change <= 5; change++)
          world.api.apply([sample("Pod", 2, change), sample("Pod", 3, change)]);
        world.clock.pass(10_000);
        assert.equal(world.sink.objects.has("Pod default/pod-3"), true);
        for (const [turn, restore] of restores.entries()) {
          restore();
          show(world);
          // A server sends nothing about versions before the start of a watch, whose second silence tells.
          world.clock.pass(300_000);
          world.assertEqual();
          assert.equal(world.source.restored().get("pods"), turn + 1);
        }
        assert.match(world.sink.sourceProblems.join("\n"), /^pods: the API server has an older state/m);
      });
    }
  }
});
