import assert from "node:assert/strict";
import * as fc from "fast-check";
import { FlowLimiter } from "../../../../../policyd/policies/drop_log/flow_limiter.ts";

describe("policyd/policies/drop_log/flow_limiter", () => {
  it("DROP-05: after an explanation no other begins for 49 times as long, so that it takes a fiftieth of the time", () => {
    const pace = new FlowLimiter({ rate: { burst: 100, period: 50 }, silence: 60_000, rest: 49 });
    pace.explained(1000, 1014);
    assert.deepEqual([pace.wait(1014), pace.wait(1014 + 14 * 49)], [14 * 49, 0]);
  });

  it("DROP-05: any sequence of flows stays within the limit in the long run", () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ flow: fc.nat(50), wait: fc.nat(300) }), { minLength: 50, maxLength: 400 }),
        (packets) => {
          const pace = new FlowLimiter({ rate: { burst: 10, period: 200 }, silence: 2000, rest: 49 });
          let [now, reported] = [0, 0];
          const last = new Map<number, number>();
          for (const { flow, wait } of packets) {
            now += wait;
            if (pace.take(String(flow), [], now) !== "new") continue;
            if (pace.wait(now) > 0) {
              pace.dismiss(String(flow));
              continue;
            }
            pace.explained(now, now);
            reported++;
            assert.ok(now - (last.get(flow) ?? Number.NEGATIVE_INFINITY) >= 2000);
            last.set(flow, now);
          }
          assert.ok(reported <= 10 + (now / 1000) * 5 + 1, `${reported} in ${now} ms`);
        },
      ),
      { numRuns: 200 },
    );
  });
});
