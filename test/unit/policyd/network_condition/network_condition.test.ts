import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { FakeApiWriter } from "../../../support/daemon/fake_api_writer.ts";
import type { Answer } from "../../../../policyd/api_write/refusal.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { judge } from "../../../../objects/gate/gate.ts";
import { recordingNotices } from "../../../../policyd/events/notice.ts";
import { recordingLogger } from "../../../../policyd/log/recording_logger.ts";
import {
  LOOK_MILLISECONDS,
  MOST_ATTEMPTS,
  PATIENCE_MILLISECONDS,
  RARE_MILLISECONDS,
  UNSEEN_MILLISECONDS,
} from "../../../../policyd/network_condition/decision.ts";
import { NetworkCondition } from "../../../../policyd/network_condition/network_condition.ts";
import type { ObjectChange } from "../../../../objects/model.ts";

function answer(status: number, words = ""): Answer {
  return { type: "answered", status, words, retryAfter: undefined };
}

/** The change that the API reports for a Node with this status of the condition; undefined leaves the condition out. */
function node(status: string | undefined, name = "node1"): ObjectChange {
  const condition = { type: "NetworkUnavailable", status, reason: "NoRouteCreated" };
  const conditions = [{ type: "Ready", status: "True" }, ...(status === undefined ? [] : [condition])];
  const verdict = judge({ apiVersion: "v1", kind: "Node", metadata: { name }, status: { conditions } });
  assert.ok(verdict.type === "accepted");
  return { type: "set", kind: "Node", key: name, object: verdict.object };
}

class World {
  readonly clock = new FakeClock();
  readonly writer = new FakeApiWriter();
  readonly logger = recordingLogger();
  readonly events = recordingNotices();
  readonly condition: NetworkCondition;
  isReady = true;

  constructor(isOurs = true) {
    const { clock, writer, logger, events } = this;
    const isReady = (): boolean => this.isReady;
    const parts = { clock, writer, logger, events, nodeName: "node1", isOurs, isReady, random: () => 0 };
    this.condition = new NetworkCondition(parts);
  }

  async tell(...changes: readonly ObjectChange[]): Promise<void> {
    for (const change of changes) this.condition.apply([change]);
    await this.settle();
  }

  /** Lets time pass in steps, and answers arrive after each step. */
  async pass(milliseconds: number, step = milliseconds): Promise<void> {
    for (let left = milliseconds; left > 0; left -= step) {
      this.clock.pass(Math.min(step, left));
      await this.settle();
    }
  }

  async settle(): Promise<void> {
    for (let left = 3; left > 0; left--) await turn();
  }

  get asked(): number {
    return this.writer.asked.length;
  }

  warnings(): readonly string[] {
    return this.logger.lines.filter(({ level }) => level === "warn").map(({ fields }) => String(fields["reason"]));
  }
}

describe("policyd/network_condition/network_condition", () => {
  it("COND-01: only the own Node's condition is patched, in the form that kubelets and flannel use", async () => {
    const world = new World();
    await world.tell(node("True"));
    const [{ method, path, body } = assert.fail()] = world.writer.asked;
    assert.deepEqual([method, path], ["PATCH", "/api/v1/nodes/node1/status"]);
    const time = new Date(world.clock.time()).toISOString().replace(/\.\d+Z/, "Z");
    assert.deepEqual(JSON.parse(body), {
      status: {
        conditions: [
          {
            type: "NetworkUnavailable",
            status: "False",
            reason: "RouteCreated",
            message: "Drawbridge's rules and routes are in force on this node",
            lastHeartbeatTime: time,
            lastTransitionTime: time,
          },
        ],
      },
    });
    assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  });

  it("COND-01: other Nodes, a Node without the condition and one with False cause no patch", async () => {
    const world = new World();
    await world.tell(node("True", "node2"), node(undefined), node("False"), node("True", "node10"));
    await world.pass(3_600_000, 1000);
    assert.equal(world.asked, 0);
    assert.deepEqual(world.condition.problems(), []);
    await world.tell(node("Unknown"));
    assert.equal(world.asked, 1, "any status but False needs the patch");
  });

  it("COND-01: the patch waits until the daemon is ready, and a Node that is available by then needs none", async () => {
    const world = new World();
    world.isReady = false;
    await world.tell(node("True"));
    await world.pass(120_000, LOOK_MILLISECONDS);
    assert.equal(world.asked, 0);
    world.isReady = true;
    await world.pass(LOOK_MILLISECONDS);
    assert.equal(world.asked, 1);
    const other = new World();
    other.isReady = false;
    await other.tell(node("True"), node("False"));
    assert.equal(other.clock.pending, 0, "no timer runs");
    other.isReady = true;
    await other.pass(3_600_000, 1000);
    assert.equal(other.asked, 0);
  });

  it("COND-01: the condition is patched once, again when it comes back, and again when the watch shows nothing for a minute", async () => {
    const world = new World();
    await world.tell(node("True"));
    await world.tell(node("True"));
    await world.pass(UNSEEN_MILLISECONDS / 2, 500);
    assert.equal(world.asked, 1);
    await world.tell(node("False"));
    await world.pass(3_600_000, 60_000);
    assert.equal(world.asked, 1);
    await world.tell(node("True"));
    assert.equal(world.asked, 2);
    await world.pass(UNSEEN_MILLISECONDS);
    assert.equal(world.asked, 3);
    assert.deepEqual(world.warnings(), []);
  });

  it("COND-01: a change that the watch shows before the patch is answered is not lost", async () => {
    const world = new World();
    let arrive: (answer: Answer) => void = () => {};
    world.writer.answers.push(new Promise((resolve) => (arrive = resolve)));
    await world.tell(node("True"), node("False"), node("True"));
    assert.equal(world.asked, 1, "one at a time");
    arrive(answer(200));
    await world.settle();
    await world.pass(UNSEEN_MILLISECONDS);
    assert.equal(world.asked, 2);
  });

  it("COND-02: a failing patch is a problem while it fails, is reported after twelve attempts, and is retried further", async () => {
    const world = new World();
    world.writer.answers.push(...Array.from({ length: MOST_ATTEMPTS }, () => answer(503, "away")));
    await world.tell(node("True"));
    await world.pass(1000);
    assert.equal(world.asked, 2);
    assert.deepEqual(world.condition.problems(), ["Node node1: the condition NetworkUnavailable stays: 503 (away)"]);
    assert.deepEqual(world.warnings(), []);
    await world.pass(600_000, 1000);
    assert.equal(world.asked, MOST_ATTEMPTS);
    assert.deepEqual(world.warnings(), world.condition.problems());
    for (let left = RARE_MILLISECONDS; world.asked === MOST_ATTEMPTS; left -= 1000) {
      assert.ok(left > 0, "one in ten minutes");
      await world.pass(1000);
    }
    assert.deepEqual(world.condition.problems(), []);
  });

  it("COND-02: a program that sets the condition back again and again is reported", async () => {
    const world = new World();
    for (let times = 0; times < MOST_ATTEMPTS; times++) {
      await world.tell(node("True"));
      await world.pass(UNSEEN_MILLISECONDS, 1000);
      await world.tell(node("False"));
    }
    assert.match(
      world.warnings().join("\n"),
      /^Node node1: another program sets .* --configure-cloud-routes=false .*$/,
    );
    assert.deepEqual(world.condition.problems(), [], "the condition is cleared");
  });

  it("COND-03: a condition that is not ours is reported once in log, Event and status, until it is cleared", async () => {
    const world = new World(false);
    await world.tell(node("True"));
    await world.pass(PATIENCE_MILLISECONDS - 1, 1000);
    assert.deepEqual(world.condition.problems(), []);
    await world.pass(1);
    const [problem = assert.fail(), ...others] = world.condition.problems();
    assert.match(
      problem,
      /^Node node1 .* apply manifests\/overlays\/network-unavailable, .*\(clearNetworkUnavailable\)/,
    );
    assert.deepEqual(others, []);
    assert.ok(problem.length <= 400, "the status keeps 400 characters of a problem");
    await world.tell(node("False"));
    assert.deepEqual(world.condition.problems(), []);
    await world.tell(node("True"));
    await world.pass(3_600_000, 10_000);
    assert.deepEqual(world.condition.problems(), [problem]);
    assert.deepEqual(world.warnings(), [problem]);
    assert.deepEqual(
      world.events.notices.map(({ regarding, reason, note }) => [regarding.key, reason, note]),
      [["node1", "InstallationProblem", problem]],
    );
    assert.equal(world.asked, 0);
  });

  it("COND-03: nothing is reported where another program clears the condition in time", async () => {
    const world = new World(false);
    for (let times = 0; times < 10; times++) {
      await world.tell(node("True"));
      await world.pass(PATIENCE_MILLISECONDS - 1, 1000);
      await world.tell(node("False"));
      await world.pass(60_000, 1000);
    }
    assert.deepEqual([world.warnings(), world.asked], [[], 0]);
  });

  it("COND-04: a missing right is reported once with the way out, and the patch is retried every ten minutes", async () => {
    const world = new World();
    world.writer.answers.push(...Array.from({ length: 3 }, () => answer(403, "no right")));
    await world.tell(node("True"));
    await world.pass(RARE_MILLISECONDS - 1, 1000);
    assert.equal(world.asked, 1);
    await world.pass(2 * RARE_MILLISECONDS, 1000);
    assert.equal(world.asked, 3);
    assert.equal(world.warnings().length, 1);
    assert.equal(world.events.notices.length, 1);
    assert.match(
      world.warnings().join(),
      /403 \(no right\); expected the verb patch on nodes\/status, which manifests\/overlays\/network-unavailable grants$/,
    );
    await world.pass(2000);
    assert.deepEqual([world.asked, world.condition.problems()], [4, []]);
  });

  it("COND-02: after stop, no request is under way, waits or is begun", async () => {
    for (const [status, isReady] of [
      ["True", true],
      ["True", false],
      ["False", true],
    ] as const) {
      const world = new World();
      world.isReady = isReady;
      world.writer.answers.push(new Promise(() => {}));
      await world.tell(node(status));
      await world.condition.stop();
      assert.deepEqual([world.writer.isStopped, world.clock.pending], [true, 0]);
      const { asked } = world;
      world.isReady = true;
      await world.tell(node("False"), node("True"));
      await world.pass(3_600_000, 60_000);
      assert.equal(world.asked, asked);
    }
  });
});
