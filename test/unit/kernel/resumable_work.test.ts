import assert from "node:assert/strict";
import { carryOut, type Work } from "../../../kernel/resumable_work.ts";

describe("kernel/waiting", () => {
  const pauses: number[] = [];
  const waiting = { now: () => 0, pause: (milliseconds: number) => void pauses.push(milliseconds) };

  beforeEach(() => {
    pauses.length = 0;
  });

  it("carryOut pauses only where the work has no descriptor, since with one the work blocks by itself", () => {
    function* work(): Work<string> {
      yield { fd: undefined, milliseconds: 20 };
      yield { fd: 0, milliseconds: 1000 };
      yield { fd: undefined, milliseconds: 5 };
      return "done";
    }
    assert.equal(carryOut(work(), waiting), "done");
    assert.deepEqual(pauses, [20, 5]);
  });

  it("carryOut throws what the work throws", () => {
    function* work(): Work<never> {
      yield { fd: undefined, milliseconds: 1 };
      throw new RangeError("no");
    }
    assert.throws(() => carryOut(work(), waiting), new RangeError("no"));
  });
});
