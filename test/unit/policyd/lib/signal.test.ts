import assert from "node:assert/strict";
import { Signal } from "../../../../policyd/lib/signal.ts";

describe("policyd/lib/signal", () => {
  it("each subscriber gets every value from its subscription on, in the order of subscription", () => {
    const signal = new Signal<number>();
    const seen: string[] = [];
    signal.emit(1);
    signal.subscribe((value) => seen.push(`first ${value}`));
    signal.emit(2);
    signal.subscribe((value) => seen.push(`second ${value}`));
    signal.emit(3);
    assert.deepEqual(seen, ["first 2", "first 3", "second 3"]);
  });

  it("an exception of a subscriber reaches the caller, and the next subscribers are not called", () => {
    const signal = new Signal();
    let calls = 0;
    signal.subscribe(() => {
      throw new RangeError("bug");
    });
    signal.subscribe(() => calls++);
    assert.throws(() => signal.emit(), RangeError);
    assert.equal(calls, 0);
  });
});
