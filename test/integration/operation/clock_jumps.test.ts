import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { EVENTS_PATH } from "../../apiserver/events.ts";
import type { RawObject } from "../../apiserver/storage.ts";
import { createLab } from "../../lab/lab.ts";
import { ApiNode, slice } from "../../support/daemon/api_node.ts";
import { requireKernel } from "../../support/privilege.ts";
import { until } from "../../support/until.ts";

const HOUR = 3_600_000;
/** The time between two jumps, short enough for several jumps within each wait. */
const PERIOD_MILLISECONDS = 300;

/**
 * A script that sets the wall clock of its process forward by an hour, back by two, forward by one, and so on. It does
 * not change the monotonic clock.
 */
const JUMPS = `
const RealDate = Date;
const shifts = [0, ${HOUR}, -${HOUR}];
let jumps = 0;
setInterval(() => jumps++, ${PERIOD_MILLISECONDS}).unref();
const now = () => RealDate.now() + shifts[jumps % shifts.length];
globalThis.Date = class extends RealDate {
  constructor(...parts) {
    if (parts.length === 0) super(now());
    else super(...parts);
  }
  static now() {
    return now();
  }
};
`;

/** How many Events the test waits for, since the pace of Events depends on a clock. */
const OTHER_EVENTS = 12;

const DENY = {
  apiVersion: "networking.k8s.io/v1",
  kind: "NetworkPolicy",
  metadata: { name: "deny", namespace: "default", annotations: { "drawbridge.dev/shadow": "perhaps" } },
  spec: { podSelector: { matchLabels: { app: "second" } }, ingress: [] },
} satisfies RawObject;

describe("a daemon whose wall clock is set forward and back by an hour all the time", function () {
  this.timeout(300_000);
  let node: ApiNode;

  before(async function () {
    requireKernel(this);
    node = new ApiNode(createLab("clock-jumps"));
    await node.prepare();
    await node.listen();
  });
  after(async () => {
    await node?.stop();
    node?.lab.destroy();
  });

  /** Asserts that something holds within the seconds that it takes when the clock does not jump. */
  async function within(seconds: number, what: string, holds: () => Promise<boolean>): Promise<void> {
    const words = (): string => `${what}: not within ${seconds} s:\n${node.daemon.log().slice(-4000)}`;
    await until(holds, words, seconds * 1000);
  }

  it("DAEMON-09: jumps of the wall clock neither hasten nor delay what the daemon does, and it sends each Event once", async () => {
    const preload = `${node.directory}/jumps.cjs`;
    writeFileSync(preload, JUMPS);
    node.start(undefined, [`--require=${preload}`]);
    await node.untilSynced();
    await node.attachPods();
    await within(10, "a Service", async () => (await node.answer()) === "first");
    await node.server.apply(slice("10.244.1.4"));
    await within(10, "another endpoint", async () => (await node.answer()) === "second");
    await node.server.apply(DENY);
    await within(10, "a policy", async () => (await node.answer()) === "");
    // The server answers with an error, so the daemon pauses and lists everything again.
    await node.server.tell({ type: "compact" });
    await node.server.tell({ type: "strike", fault: { type: "error", status: 410 } });
    await node.server.apply({ ...DENY, spec: { podSelector: { matchLabels: { app: "nobody" } } } });
    await within(20, "a change after an error", async () => (await node.answer()) === "second");
    const count = async (): Promise<number> =>
      (await node.server.tell({ type: "read", path: EVENTS_PATH })).objects?.length ?? 0;
    await within(10, "an Event", async () => (await count()) > 0);
    await node.server.apply(DENY);
    await within(10, "the policy again", async () => (await node.answer()) === "");
    assert.equal(await count(), 1);
    const { asked = [] } = await node.server.tell({ type: "asked" });
    assert.equal(asked.filter(({ verb }) => verb === "create").length, 1);
    for (let number = 2; number <= OTHER_EVENTS; number++) {
      await node.server.apply({ ...DENY, metadata: { ...DENY.metadata, name: `deny${number}` } });
      await within(10, "another Event", async () => (await count()) === number);
    }

    const hours = node.daemon
      .log()
      .split("\n")
      .map((line) => Date.parse(line.split(" ")[0] ?? ""))
      .filter((time) => !Number.isNaN(time));
    assert.ok(Math.max(...hours) - Math.min(...hours) > HOUR, "the clock was set");
  });
});
