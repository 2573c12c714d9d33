import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { startNotificationThread } from "../../../../kernel/notifications/thread.ts";
import { nodeSyscalls } from "../../../../kernel/syscall/koffi.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { conditionsAnswer } from "../../../../policyd/health/answers.ts";
import { askEventThread, Liveness } from "../../../../policyd/health/liveness.ts";

describe("the daemon's own health", () => {
  it("HEALTH-06: /readyz names what is missing, and gives reasons and computes problems only for the node itself", () => {
    const conditions = [
      { name: "a", missing: () => undefined },
      { name: "b", missing: () => "not yet" },
    ];
    const bodyFor = (isTrusted: boolean) => conditionsAnswer("readyz", conditions, isTrusted).body;
    assert.equal(bodyFor(true), "[+]a ok\n[-]b: not yet\nreadyz check failed\n");
    assert.equal(bodyFor(false), "[+]a ok\n[-]b: reason withheld\nreadyz check failed\n");
    const well = conditions.slice(0, 1);
    assert.equal(conditionsAnswer("readyz", well, true, () => ["x: y"]).body, "ok\n[!]x: y\n");
    const stranger = conditionsAnswer("readyz", well, false, () => assert.fail("problems were computed"));
    assert.deepEqual([stranger.status, stranger.body], [200, "ok"]);
  });

  it("HEALTH-07: the daemon is alive while a kernel refuses or nothing was read, and not when nothing moves for a minute", async () => {
    const clock = new FakeClock();
    const status = { isReconciled: false, commits: 0, failures: 0, pending: 3 };
    const liveness = new Liveness({ clock, ruleset: () => status });
    let answers = true;
    let late = Promise.withResolvers<void>();
    liveness.watch(() => (answers ? Promise.resolve() : late.promise));
    const pass = async (looks: number, each: () => void): Promise<number> => {
      for (let look = 0; look < looks; look++) {
        each();
        clock.pass(10_000);
        await Promise.resolve();
      }
      return conditionsAnswer("livez", liveness.conditions(), true).status;
    };
    assert.equal(await pass(20, () => {}), 200);
    assert.equal(await pass(20, () => status.failures++), 200);
    assert.equal(await pass(5, () => {}), 200);
    assert.equal(await pass(2, () => {}), 503);
    assert.equal(await pass(1, () => status.commits++), 200);
    status.isReconciled = true;
    answers = false;
    assert.equal(await pass(6, () => {}), 200);
    late.resolve();
    late = Promise.withResolvers();
    assert.equal(await pass(6, () => {}), 200, "a late answer is one");
    assert.equal(await pass(3, () => {}), 503);
    liveness.stop();
  });

  it("HEALTH-07: liveness asks the real event thread, and notices when that thread has ended", async () => {
    const clock = new FakeClock();
    const status = { isReconciled: true, commits: 1, failures: 0, pending: 0 };
    const liveness = new Liveness({ clock, ruleset: () => status });
    const events = startNotificationThread(nodeSyscalls());
    let answer: Promise<unknown> = Promise.resolve();
    liveness.watch(() => {
      const asked = askEventThread(events);
      answer = asked.catch(() => {});
      return asked;
    });
    const pass = async (looks: number): Promise<number> => {
      for (let look = 0; look < looks; look++) {
        clock.pass(10_000);
        await answer;
        await turn();
      }
      return conditionsAnswer("livez", liveness.conditions(), true).status;
    };
    assert.equal(await pass(8), 200);
    await events.stop();
    assert.equal(await pass(5), 200);
    assert.equal(await pass(1), 503);
    liveness.stop();
  });
});
