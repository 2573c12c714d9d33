import assert from "node:assert/strict";
import { RateLimit } from "../../../../policyd/log/rate_limit.ts";

describe("policyd/log/rate_limit", () => {
  it("DAEMON-08: admits so many in a window, and then says how many were not", () => {
    const limit = new RateLimit(2, 1000);
    assert.deepEqual(
      [0, 1, 2, 999].map((now) => limit.admit("a", now)),
      [0, 0, undefined, undefined],
    );
    assert.equal(limit.admit("b", 999), 0);
    assert.deepEqual(
      [1000, 1001, 1002].map((now) => limit.admit("a", now)),
      [2, 0, undefined],
    );
    assert.equal(limit.admit("a", 5000), 1);
    assert.equal(limit.admit("a", 9000), 0);
  });

  it("DAEMON-08: forgets the oldest of too many keys", () => {
    const limit = new RateLimit(1, 1000);
    for (let i = 0; i < 1001; i++) assert.equal(limit.admit(`key ${i}`, 0), 0);
    assert.equal(limit.admit("key 1000", 0), undefined);
    assert.equal(limit.admit("key 0", 0), 0);
  });
});
