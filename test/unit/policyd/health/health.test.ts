import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { startNotificationThread } from "../../../../kernel/notifications/thread.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { nodeSyscalls } from "../../../../kernel/syscall/koffi.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import type { Commit } from "../../../../policyd/ruleset/commit.ts";
import { conditionsAnswer, healthzAnswer } from "../../../../policyd/health/answers.ts";
import { openHealth } from "../../../../policyd/health/open.ts";
import { askEventThread, Liveness } from "../../../../policyd/health/liveness.ts";
import { readConfiguration } from "../../../../policyd/configuration/configuration.ts";
import { recordingLogger } from "../../../../policyd/log/recording_logger.ts";
import { judge } from "../../../../objects/gate/gate.ts";

const NOW = Date.UTC(2026, 10, 22, 4, 30, 19, 120);

describe("the daemon's own health", () => {
  it("HEALTH-01: /healthz answers with kube-proxy's bytes, and with 503 where the node is not eligible", () => {
    const well = healthzAnswer({ isHealthy: true, isEligible: true, lastUpdated: NOW - 5000 }, NOW);
    const now = "2026-11-22 04:30:19.12 +0000 UTC";
    assert.equal(well.status, 200);
    assert.equal(well.body, `{"lastUpdated": "${now}","currentTime": "${now}", "nodeEligible": true}`);
    const leaving = healthzAnswer({ isHealthy: true, isEligible: false, lastUpdated: NOW - 120 }, NOW);
    assert.equal(leaving.status, 503);
    assert.match(leaving.body, /^\{"lastUpdated": "2026-11-22 04:30:19 \+0000 UTC",.* "nodeEligible": false\}$/);
    assert.match(
      healthzAnswer({ isHealthy: false, isEligible: true, lastUpdated: undefined }, NOW).body,
      /"0001-01-01 /,
    );
  });

  it("HEALTH-06: /readyz names what is missing, and gives the reason only to the node", () => {
    const conditions = [
      { name: "a", missing: () => undefined },
      { name: "b", missing: () => "not yet" },
    ];
    const bodyFor = (isTrusted: boolean) => conditionsAnswer("readyz", conditions, isTrusted).body;
    assert.equal(bodyFor(true), "[+]a ok\n[-]b: not yet\nreadyz check failed\n");
    assert.equal(bodyFor(false), "[+]a ok\n[-]b: reason withheld\nreadyz check failed\n");
    assert.equal(conditionsAnswer("readyz", conditions.slice(0, 1), false).status, 200);
  });

  it("HEALTH-04: deletion and the autoscaler's taint make a Node a leaving one, and cordoning does not", () => {
    const leaving = (metadata: object, spec: object): unknown => {
      const verdict = judge({ apiVersion: "v1", kind: "Node", metadata: { name: "n", ...metadata }, spec });
      assert.ok(verdict.type === "accepted" && verdict.object.kind === "Node");
      return verdict.object.isLeaving;
    };
    assert.equal(leaving({}, { unschedulable: true, taints: [{ key: "node.kubernetes.io/unschedulable" }] }), false);
    assert.equal(leaving({}, { taints: [{ key: "ToBeDeletedByClusterAutoscaler", effect: "NoSchedule" }] }), true);
    assert.equal(leaving({ deletionTimestamp: "2026-11-22T04:30:19Z" }, {}), true);
  });

  it("HEALTH-07: the daemon is alive while a kernel refuses or nothing was read, and not when nothing moves for a minute", async () => {
    const clock = new FakeClock();
    const status = { isReconciled: false, commits: 0, failures: 0, pending: 3 };
    const liveness = new Liveness({ clock, ruleset: () => status });
    let answers = true;
    liveness.watch(() => (answers ? Promise.resolve() : new Promise(() => {})));
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
    assert.equal(await pass(2, () => {}), 503);
    liveness.stop();
  });

  it("HEALTH-07: liveness asks the real event thread, and notices when that thread has ended", async () => {
    const clock = new FakeClock();
    const status = { isReconciled: true, commits: 1, failures: 0, pending: 0 };
    const liveness = new Liveness({ clock, ruleset: () => status });
    const events = startNotificationThread({ calls: nodeSyscalls() });
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

  it("HEALTH-03 HEALTH-06: the daemon is ready while its rules are in force until it stops, and alive while it answers", async () => {
    const port = await freePort();
    const flags = { nodeName: { value: "n", where: "" }, objectsDirectory: { value: "/etc", where: "" } };
    const configuration = {
      ...readConfiguration(undefined, flags),
      healthAddress: { address: parseAddress("127.0.0.1"), port },
    };
    const clock = new FakeClock();
    let inForce: (commit: Commit) => void = () => {};
    const none = {
      elements: 1,
      failures: 0,
      repairs: 0,
      replacements: 0,
      pendingSince: undefined,
      lastError: undefined,
    };
    const status = { ...none, isReconciled: false, commits: 0, pending: 1 };
    const ruleset = { status: () => status, follow: (follower: typeof inForce) => void (inForce = follower) };
    const health = openHealth(configuration, { ruleset, clock, logger: recordingLogger() });
    let isInstalled = false;
    health.serve([{ name: "installation", missing: () => (isInstalled ? undefined : "not yet") }]);
    const ask = async (path: string): Promise<string> => {
      const response = await fetch(`http://127.0.0.1:${port}${path}`);
      return `${response.status} ${await response.text()}`;
    };
    assert.match(
      await ask("/readyz"),
      /^503 \[\+\]running ok\n\[-\]rules: not in force yet\n\[-\]installation: not yet\n/,
    );
    Object.assign(status, { isReconciled: true, commits: 1, pending: 0 });
    inForce({ isWhole: true, differences: [] });
    try {
      assert.match(await ask("/readyz"), /^503 .*\n\[\+\]rules ok\n\[-\]installation: not yet\n/);
      isInstalled = true;
      assert.equal(await ask("/readyz"), "200 ok");
      const time = new Date(clock.time()).toISOString().slice(0, 19).replace("T", " ");
      assert.match(await ask("/healthz"), new RegExp(`"lastUpdated": "${time} .*"currentTime": "${time} `));
      health.stopping();
      assert.match(await ask("/readyz"), /^503 \[-\]running: it is stopping\n/);
      assert.deepEqual([await ask("/livez"), (await ask("/healthz")).slice(0, 3)], ["200 ok", "200"]);
    } finally {
      health.stop();
    }
    await assert.rejects(ask("/livez"));
  });

  it("COND-01: without a health address the daemon is ready by the conditions of /readyz, and never before they are given", () => {
    const flags = { nodeName: { value: "n", where: "" }, objectsDirectory: { value: "/etc", where: "" } };
    const configuration = { ...readConfiguration(undefined, flags), healthAddress: "none" as const };
    let inForce: (commit: Commit) => void = () => {};
    const counts = { elements: 1, failures: 0, repairs: 0, replacements: 0, commits: 1, pending: 0 };
    const status = { ...counts, isReconciled: true, pendingSince: undefined, lastError: undefined };
    const ruleset = { status: () => status, follow: (follower: typeof inForce) => void (inForce = follower) };
    const health = openHealth(configuration, { ruleset, clock: new FakeClock(), logger: recordingLogger() });
    let reason: string | undefined = "not yet";
    const found = [health.isReady()];
    health.serve([{ name: "objects", missing: () => reason }]);
    inForce({ isWhole: true, differences: [] });
    found.push(health.isReady());
    reason = undefined;
    found.push(health.isReady());
    health.stopping();
    found.push(health.isReady());
    health.stop();
    assert.deepEqual(found, [false, false, true, false]);
  });
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  assert.ok(typeof address === "object" && address !== null);
  return address.port;
}
