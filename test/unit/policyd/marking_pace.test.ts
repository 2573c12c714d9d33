import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import process from "node:process";
import { FakeNftables } from "../../../kernel/nftables/fake_nftables.ts";
import { v8MarkingPace } from "../../../policyd/marking_pace.ts";
import { LiveNode, set } from "../../support/policy/live/live_node.ts";
import { objectOf } from "../../support/policy/live/objects.ts";
import { TickingClock } from "../../support/policy/live/ticking_clock.ts";

const NAMESPACE = set(objectOf("Namespace", { metadata: { name: "n" } }));

function pods(count: number): readonly ReturnType<typeof set>[] {
  return Array.from({ length: count }, (_, number) =>
    set(objectOf("Pod", { metadata: { name: `p${number}`, namespace: "n" }, spec: {}, status: {} })),
  );
}

describe("policyd: the pace of marking", () => {
  it("DP-18: begins early while a change takes several slices, and as the engine likes it for all that are small", () => {
    const flags: string[] = [];
    const clock = new TickingClock(0.1);
    const node = new LiveNode({
      kernel: new FakeNftables(),
      clock,
      markingPace: v8MarkingPace((text) => flags.push(text)),
    });
    node.change(NAMESPACE, ...pods(2));
    assert.deepEqual(flags, [], "one slice");
    node.apply({ type: "objects", changes: pods(300) });
    assert.deepEqual(flags, ["--incremental-marking-hard-trigger=25"], "a slice of several");
    node.settle();
    assert.deepEqual(flags.slice(1), ["--incremental-marking-hard-trigger=0"], "done");
    node.stop();
  });

  it("DP-18: the engine has the flag", () => {
    const flags: string[] = [];
    v8MarkingPace((text) => flags.push(text)).hurry();
    const [name = ""] = flags.map((text) => text.replace(/=.*/, ""));
    assert.match(
      execFileSync(process.execPath, ["--v8-options"], { encoding: "utf8" }),
      new RegExp(`^  ${name} `, "m"),
    );
  });
});
