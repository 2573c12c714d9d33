import assert from "node:assert/strict";
import process from "node:process";
import { realWaiting } from "../../../kernel/waiting.ts";
import { AnswerQueue } from "../../../policyd/policies/names/answer_queue.ts";
import { createLab, type Lab } from "../../lab/lab.ts";
import { Program } from "../../support/on_top/program.ts";
import { until } from "../../support/until.ts";
import { type TrackedPair, trackedPair } from "../../kernel/tracked_pair.ts";

const QUEUE = 108;
const PORT = 6300;
const RULESET = `
table inet lab {
  chain out {
    type filter hook output priority 0;
    udp dport ${PORT} queue flags bypass to ${QUEUE}
  }
}`;
const BUSY_MILLISECONDS = 200;
const PACKETS = 100;

/** The queue by itself: the daemon's rules with it are what test/integration/policies/verdicts/domain_names.test.ts sees. */
describe("answer_queue", function () {
  this.timeout(600_000);
  let lab: Lab;
  let pair: TrackedPair;
  let queue: AnswerQueue;
  let received: Program;

  before(async () => {
    lab = createLab("queue");
    pair = trackedPair(lab, RULESET);
    const clock = "performance.timeOrigin + performance.now()";
    const code = `require("node:dgram").createSocket("udp4").on("message", (text) => console.log(text + " " + (${clock}))).bind(${PORT}, () => console.log("up"))`;
    received = new Program(lab, pair.far, process.execPath, ["-e", code]);
    await received.written(/up/);
    queue = pair.near.inside(() => new AnswerQueue(pair.near.calls, QUEUE));
  });
  after(() => {
    queue?.stop();
    lab?.destroy();
  });

  /** Returns the milliseconds from each packet's begin until it was received. */
  const delays = (): readonly number[] =>
    [...received.log.matchAll(/^([\d.]+) ([\d.]+)$/gm)].map(([, sent, at]) => Number(at) - Number(sent));

  /** Sends one packet every 20 ms, each with the time. */
  function send(count: number): void {
    const code = `const socket = require("node:dgram").createSocket("udp4"); let left = ${count};
      setInterval(() => left-- === 0 ? process.exit() : socket.send(String(performance.timeOrigin + performance.now()), ${PORT}, "10.99.0.2"), 20)`;
    void new Program(lab, pair.near, process.execPath, ["-e", code]);
  }

  it("queue: another program's queue is refused, and packets pass before the thread runs", async () => {
    assert.throws(() => pair.near.inside(() => new AnswerQueue(pair.near.calls, QUEUE)), /EPERM/);
    send(3);
    await until(
      () => delays().length >= 3,
      () => received.log,
    );
  });

  it("queue: packets leave after some milliseconds while the main thread is busy, and when the queue is stopped", async () => {
    let [packets, failure] = [0, ""];
    const onPackets = (given: readonly Uint8Array[]): void => {
      packets += given.length;
      realWaiting.pause(BUSY_MILLISECONDS);
    };
    // The thread takes seconds to start in a slow guest.
    await new Promise<void>((onReady) => {
      pair.near.inside(() => queue.start({ onReady, onPackets, onFailure: (reason) => void (failure = reason) }));
    });
    const before = delays().length;
    send(PACKETS);
    await until(
      () => delays().length >= before + PACKETS,
      () => `${failure}\n${received.log}`,
    );
    queue.stop();
    const late = delays()
      .slice(before)
      .toSorted((a, b) => a - b);
    // The machine that runs the guest may have it wait, so the median counts.
    assert.ok(packets > 0 && (late[PACKETS / 2] ?? 0) < BUSY_MILLISECONDS / 4, `${packets} packets: ${late.join(" ")}`);
    send(3);
    await until(
      () => delays().length >= before + PACKETS + 3,
      () => received.log,
    );
  });
});
