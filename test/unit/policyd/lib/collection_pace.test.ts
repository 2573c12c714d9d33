import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import process from "node:process";
import { FakeNftables } from "../../../support/nftables/fake/fake_nftables.ts";
import { v8CollectionPace } from "../../../../policyd/lib/collection_pace.ts";
import { LiveNode, set } from "../../../support/policy/live/live_node.ts";
import { objectOf } from "../../../support/policy/live/objects.ts";
import { TickingClock } from "../../../support/policy/live/ticking_clock.ts";

const NAMESPACE = set(objectOf("Namespace", { metadata: { name: "n" } }));

function pods(count: number): readonly ReturnType<typeof set>[] {
  return Array.from({ length: count }, (_, number) =>
    set(objectOf("Pod", { metadata: { name: `p${number}`, namespace: "n" }, spec: {}, status: {} })),
  );
}

describe("policyd: the pace of garbage collections", () => {
  it("DP-13: collections hurry while a change takes several slices, and rest after small changes", () => {
    const flags: string[] = [];
    const clock = new TickingClock(0.1);
    const node = new LiveNode({
      kernel: new FakeNftables(),
      clock,
      collectionPace: v8CollectionPace(
        (text) => flags.push(text),
        ["--heap-growing-percent=10", "--no-maglev"],
        () => 40e6,
      ),
    });
    node.change(NAMESPACE, ...pods(2));
    assert.deepEqual(flags, [], "one slice");
    node.apply({ type: "objects", changes: pods(300) });
    assert.deepEqual(flags, ["--incremental-marking-hard-trigger=25 --heap-growing-percent=80"], "a slice of several");
    node.settle();
    assert.deepEqual(
      flags.slice(1),
      ["--incremental-marking-hard-trigger=0 --heap-growing-percent=10"],
      "the flags of the start are set again",
    );
    node.stop();
  });

  it("DP-13: collections rest by the engine's defaults if it was started without flags for them", () => {
    const flags: string[] = [];
    const pace = v8CollectionPace((text) => flags.push(text), []);
    pace.hurry();
    pace.rest();
    assert.deepEqual(flags.slice(1), ["--incremental-marking-hard-trigger=0 --heap-growing-percent=0"]);
  });

  for (const [megabytes, begin, growth] of [
    [40, 25, 80],
    [50, 33, 60],
    [80, 50, 40],
    [90, 50, 20],
    [1000, 50, 20],
  ] as const) {
    it(`DP-13: a heap of ${megabytes} MB hurries with a growth of up to ${growth} %, so that little of it is garbage`, () => {
      const flags: string[] = [];
      const heap = megabytes * 1e6;
      v8CollectionPace(
        (text) => flags.push(text),
        [],
        () => heap,
      ).hurry();
      assert.deepEqual(flags, [`--incremental-marking-hard-trigger=${begin} --heap-growing-percent=${growth}`]);
    });
  }

  it("DP-13: the engine knows the flags", () => {
    const flags: string[] = [];
    v8CollectionPace((text) => flags.push(text)).hurry();
    const known = execFileSync(process.execPath, ["--v8-options"], { encoding: "utf8" });
    for (const flag of flags.join(" ").split(" "))
      assert.match(known, new RegExp(`^  ${flag.replace(/=.*/, "").replace("--no-", "--")} `, "m"));
  });
});
