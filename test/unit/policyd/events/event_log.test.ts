import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import type { ApiWriter, Write, WriteOutcome } from "../../../../policyd/api_write/api_writer.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import {
  EventLog,
  MOST_ATTEMPTS,
  MOST_WAITING,
  RATE,
  RATE_OF_OBJECT,
  REPORTED_MILLISECONDS,
} from "../../../../policyd/events/event_log.ts";
import type { Notice } from "../../../../policyd/events/notice.ts";
import { recordingLogger } from "../../../support/recording_logger.ts";

interface SentEvent {
  readonly metadata: { readonly namespace: string; readonly name: string };
  readonly note: string;
  readonly eventTime: string;
}

/** A writer with prepared outcomes; Events beyond these are written. */
class FakeWriter implements ApiWriter {
  /** The Events, in order. */
  readonly asked: SentEvent[] = [];
  readonly outcomes: WriteOutcome[] = [];
  isStopped = false;

  write({ method, path, body }: Write): Promise<WriteOutcome> {
    const event = JSON.parse(body) as SentEvent;
    assert.equal(`${method} ${path}`, `POST /apis/events.k8s.io/v1/namespaces/${event.metadata.namespace}/events`);
    this.asked.push(event);
    return Promise.resolve(this.outcomes.shift() ?? { type: "written", status: 201 });
  }

  stop(): void {
    this.isStopped = true;
  }
}

const AWAY: WriteOutcome = { type: "failed", reason: "connect ECONNREFUSED", retryAfter: undefined };
const FORBIDDEN: WriteOutcome = { type: "forbidden", reason: "403 (no)" };

function notice(note: string, name = "a", namespace = "x"): Notice {
  return { regarding: { kind: "Service", key: `${namespace}/${name}`, uid: "u" }, reason: "ServiceNotServed", note };
}

class World {
  readonly clock = new FakeClock();
  readonly writer = new FakeWriter();
  readonly logger = recordingLogger();
  readonly log: EventLog;

  constructor(random = 0) {
    const { clock, writer, logger } = this;
    this.log = new EventLog({ writer, nodeName: "n", clock, logger, random: () => random });
  }

  tell(...notices: readonly Notice[]): void {
    for (const one of notices) this.log.tell(one);
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

  /** The notes of the Events that were requested. */
  notes(): readonly string[] {
    return this.writer.asked.map(({ note }) => note);
  }
}

describe("policyd/events/event_log", () => {
  it("EVENT-02: the same notice is written once, and again when the API server may have forgotten it, one request at a time", async () => {
    const world = new World();
    world.tell(notice("1"), notice("1"), notice("2"));
    assert.deepEqual(world.notes(), ["1"], "the second waits for the first");
    await world.settle();
    world.tell(notice("2"), notice("1"));
    await world.settle();
    assert.deepEqual(world.notes(), ["1", "2"]);
    await world.pass(REPORTED_MILLISECONDS - 1);
    world.tell(notice("1"));
    await world.settle();
    assert.deepEqual(world.notes(), ["1", "2"]);
    await world.pass(1);
    world.tell(notice("1"));
    await world.settle();
    assert.deepEqual(world.notes(), ["1", "2", "1"]);
    assert.deepEqual(world.log.counts(), { created: 3, known: 0, suppressed: 0, dropped: 0 });
  });

  it("EVENT-02 DAEMON-09: an Event has the wall clock's time, and setting that clock does not repeat an Event", async () => {
    const world = new World();
    world.tell(notice("1"));
    await world.settle();
    world.clock.set(2 * REPORTED_MILLISECONDS);
    world.tell(notice("1"), notice("2"));
    await world.settle();
    assert.deepEqual(world.notes(), ["1", "2"]);
    const time = (index: number): number => Date.parse(world.writer.asked[index]?.eventTime ?? "");
    assert.deepEqual([time(1), time(1) - time(0)], [world.clock.time(), 2 * REPORTED_MILLISECONDS]);
  });

  it("EVENT-04: an object gets a burst of Events and then one per period, without delaying other objects", async () => {
    const world = new World();
    const { burst, period } = RATE_OF_OBJECT;
    for (let i = 0; i < burst + 10; i++) world.tell(notice(`${i}`));
    world.tell(notice("other", "b"));
    await world.pass(60_000, 100);
    assert.equal(world.notes().length, burst + 1);
    assert.equal(world.notes().at(-1), "other");
    assert.equal(world.log.counts().suppressed, 10);
    await world.pass(period - 60_000);
    world.tell(notice("later"), notice("too soon"));
    await world.settle();
    assert.deepEqual(world.notes().slice(burst + 1), ["later"]);
    assert.equal(world.log.counts().suppressed, 11);
  });

  it("EVENT-04: beyond the limit of waiting notices the oldest is dropped and counted, and may be written later", async () => {
    const world = new World();
    world.writer.outcomes.push(...Array.from({ length: 5 }, () => AWAY));
    for (let i = 0; i < MOST_WAITING + 4; i++) world.tell(notice("bad", `s${i}`));
    // The first notice is already being written.
    assert.equal(world.log.counts().dropped, 3);
    const [first] = world.writer.asked;
    await world.pass(MOST_WAITING * RATE.period + 60_000, RATE.period / 2);
    assert.equal(world.log.counts().created, MOST_WAITING + 1);
    assert.ok(first?.metadata.name.startsWith("s0."));
    assert.ok(!world.writer.asked.some(({ metadata: { name } }) => /^s[13]\./.test(name)));
    world.tell(notice("bad", "s1"));
    await world.pass(RATE.period * RATE.burst);
    assert.ok(world.writer.asked.at(-1)?.metadata.name.startsWith("s1."));
  });

  it("SHARE-06: a tenant that writes bad objects in a loop delays only its own Events and displaces no others", async () => {
    const world = new World();
    const bad = (i: number): Notice => notice("bad", `s${i}`, "hostile");
    /** The number of Events that were written in a namespace. */
    const written = (namespace: string): number =>
      world.writer.asked.filter(({ metadata }) => metadata.namespace === namespace).length;
    for (let i = 0; i < 2 * MOST_WAITING; i++) world.tell(bad(i));
    for (let i = 0; i < 5; i++) world.tell(notice("mine", `mine${i}`));
    world.tell({ ...notice("the node's"), regarding: { kind: "Node", key: "n", uid: "n" } });
    // At one per period, a thousand Events of another namespace would take eight minutes.
    await world.pass(RATE.burst * RATE.period, RATE.period / 5);
    assert.equal(written("x"), 5);
    assert.ok(world.notes().includes("the node's"));
    // The flood gets every turn that nothing else needs.
    const before = world.writer.asked.length;
    for (let i = 0; i < 20; i++) {
      for (let k = 0; k < 50; k++) world.tell(bad(10_000 + 50 * i + k));
      await world.pass(RATE.period, RATE.period / 5);
    }
    assert.equal(world.writer.asked.length - before, 20, "the flood causes no additional API writes");
    assert.equal(written("x"), 5);
    assert.ok(world.log.counts().dropped > MOST_WAITING, "the flood's own notices were dropped");
  });

  it("EVENT-05: a failed Event is retried after growing pauses, or the pause that the server asks for, while the rest waits", async () => {
    const world = new World();
    world.writer.outcomes.push(AWAY, AWAY, { ...AWAY, retryAfter: 7 }, AWAY);
    world.tell(notice("1"), notice("2"));
    const times: number[] = [];
    let seen = 0;
    for (let second = 0; second <= 30; second++) {
      await world.settle();
      for (; seen < world.writer.asked.length; seen++) times.push(second);
      world.clock.pass(1000);
    }
    assert.deepEqual(times, [0, 1, 3, 10, 18, 18]);
    assert.deepEqual(world.notes(), ["1", "1", "1", "1", "1", "2"]);
    assert.deepEqual(world.logger.lines, []);
  });

  it("EVENT-05: after the last attempt an Event is dropped and logged, and the next one is written after a pause", async () => {
    const world = new World();
    world.writer.outcomes.push(...Array.from({ length: MOST_ATTEMPTS }, () => AWAY));
    world.tell(notice("1"), notice("2"));
    await world.settle();
    for (let left = 2000; world.log.counts().dropped === 0; left--) {
      assert.ok(left > 0, "dropped in bounded time");
      await world.pass(1000);
    }
    assert.deepEqual(
      world.notes(),
      Array.from({ length: MOST_ATTEMPTS }, () => "1"),
    );
    assert.deepEqual(
      world.logger.lines.map(({ level, message, fields }) => [level, message, fields["reason"]]),
      [["warn", "Kubernetes Event not written", "connect ECONNREFUSED"]],
    );
    await world.pass(59_000);
    assert.equal(world.writer.asked.length, MOST_ATTEMPTS);
    await world.pass(1000);
    assert.equal(world.notes().at(-1), "2");
    world.tell(notice("1"));
    await world.settle();
    assert.equal(world.notes().at(-1), "1", "it may be written again");
  });

  it("EVENT-06: a namespace where no Event may be written is logged once and skipped, and the others get theirs", async () => {
    const world = new World();
    world.writer.outcomes.push(FORBIDDEN);
    world.tell(notice("1"), notice("2"), notice("3", "a", "y"));
    await world.settle();
    world.tell(notice("4"));
    await world.settle();
    assert.deepEqual(world.notes(), ["1", "3"]);
    world.writer.outcomes.push(FORBIDDEN);
    world.tell(notice("5", "a", "z"));
    await world.settle();
    assert.equal(world.log.counts().dropped, 4);
    assert.equal(world.logger.lines.length, 1);
    const [{ level, fields } = assert.fail()] = world.logger.lines;
    assert.deepEqual([level, fields["namespace"], fields["reason"]], ["warn", "x", "403 (no)"]);
    assert.match(String(fields["expected"]), /create on events\.events\.k8s\.io: look at policyd's ClusterRole/);
  });

  it("EVENT-06: after stop, no request is under way and no notice is taken", async () => {
    for (const outcomes of [[], [AWAY]] as const) {
      const world = new World();
      world.writer.outcomes.push(...outcomes);
      world.tell(notice("1"), notice("2"));
      if (outcomes.length > 0) await world.settle();
      world.log.stop();
      world.tell(notice("3"));
      await world.settle();
      assert.equal(world.writer.isStopped, true);
      assert.equal(world.clock.pending, 0);
      assert.deepEqual(world.notes(), ["1"]);
    }
  });
});
