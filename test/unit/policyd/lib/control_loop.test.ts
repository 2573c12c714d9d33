import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { ControlLoop, type ControlLoopParts } from "../../../../policyd/lib/control_loop.ts";
import { FakeClock } from "../../../support/fake_clock.ts";

describe("policyd/lib/control_loop", () => {
  let clock = new FakeClock();
  /** The times of the passes, in milliseconds since the test began. */
  let passes: number[] = [];
  let begun = 0;

  beforeEach(() => {
    clock = new FakeClock();
    begun = clock.now();
    passes = [];
  });

  function loopOf(pass: ControlLoopParts["pass"] = () => undefined, pause = 20): ControlLoop {
    const noted = (): ReturnType<typeof pass> => {
      passes.push(clock.now() - begun);
      return pass();
    };
    return new ControlLoop({ clock, pass: noted, pause: () => pause });
  }

  /** Returns a loop whose passes end when the test says so. */
  function heldLoop(): { readonly loop: ControlLoop; readonly end: (next?: number) => Promise<void> } {
    let settle: (next: number | undefined) => void = () => {};
    const loop = loopOf(() => new Promise((resolve) => (settle = resolve)));
    const end = async (next?: number): Promise<void> => {
      settle(next);
      await turn();
    };
    return { loop, end };
  }

  it("all changes within the pause have one pass, and a later change has another", () => {
    const loop = loopOf();
    loop.enqueue();
    clock.pass(15);
    loop.enqueue();
    clock.pass(1000);
    assert.deepEqual(passes, [20]);

    loop.enqueue();

    clock.pass(20);
    assert.deepEqual(passes, [20, 1035]);
  });

  it("a pass follows after the time that the last one asked for", () => {
    loopOf(() => (passes.length === 3 ? undefined : 500)).run();
    clock.pass(5000);
    assert.deepEqual(passes, [0, 500, 1000]);
  });

  it("of several times that are asked for, the pass begins at the earliest", () => {
    const loop = loopOf(() => 500);
    loop.within(100);
    loop.within(30);
    loop.within(200);
    clock.pass(40);
    assert.deepEqual(passes, [30], "a later time does not delay the pass");
    loop.enqueue();
    clock.pass(550);
    assert.deepEqual(passes, [30, 60, 560], "the time of the pass before is replaced");
  });

  it("a pass that is run at once takes the place of the one that is due", () => {
    const loop = loopOf();
    loop.enqueue();
    clock.pass(10);
    loop.run();
    clock.pass(1000);
    assert.deepEqual(passes, [10]);
  });

  for (const ask of ["enqueue", "run"] as const) {
    it(`${ask} during a pass leads to one more pass, after the pause that follows it`, async () => {
      const { loop, end } = heldLoop();
      loop.run();
      clock.pass(50);
      loop[ask]();
      loop[ask]();
      clock.pass(50);
      assert.deepEqual(passes, [0], "passes do not overlap");
      await end(5000);
      clock.pass(20);
      assert.deepEqual(passes, [0, 120]);
      await end();
      clock.pass(10_000);
      assert.deepEqual(passes, [0, 120]);
    });
  }

  it("a pass of several turns is followed by another after the time that it asked for", async () => {
    const { loop, end } = heldLoop();
    loop.run();
    await end(300);
    clock.pass(1000);
    assert.deepEqual(passes, [0, 300]);
  });

  it("a stopped loop runs no pass that is due, asked for or enqueued", async () => {
    const loop = loopOf(() => 500);
    loop.run();
    await loop.stop();
    loop.enqueue();
    loop.run();
    clock.pass(10_000);
    assert.deepEqual(passes, [0]);
    assert.equal(clock.pending, 0);
  });

  it("stop resolves when the pass in progress has ended, and none follows", async () => {
    const { loop, end } = heldLoop();
    loop.run();
    loop.enqueue();
    let isStopped = false;
    const stopped = loop.stop().then(() => (isStopped = true));
    await turn();
    assert.ok(!isStopped);
    await end(500);
    await stopped;
    clock.pass(10_000);
    assert.deepEqual(passes, [0]);
  });
});
