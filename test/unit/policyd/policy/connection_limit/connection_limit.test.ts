import assert from "node:assert/strict";
import type { FlowTuples } from "../../../../../kernel/conntrack/flow_tuples.ts";
import { DrawbridgeError } from "../../../../../kernel/error.ts";
import { familyOf, parseAddress } from "../../../../../kernel/ip/address.ts";
import { FakeClock } from "../../../../../policyd/clock.ts";
import type { Claim } from "../../../../../policyd/dataplane/claim.ts";
import { recordingLogger } from "../../../../../policyd/log/recording_logger.ts";
import type { ConnectionTable } from "../../../../../policyd/policy/connection_limit/connection_limit.ts";
import { ConnectionLimit } from "../../../../../policyd/policy/connection_limit/connection_limit.ts";

const HOSTILE = "10.244.1.2";
const OTHER = "10.244.1.3";
const HOSTILE6 = "fd00:244:1::2";
const NODE = "192.0.2.1";
const OUTSIDE = "192.0.2.7";
const OUTSIDE6 = "2001:db8::7";

class FakeTable implements ConnectionTable {
  flows: FlowTuples[] = [];
  most = 1000;
  sweeps = 0;
  error: DrawbridgeError | undefined;

  /** @param from as it began @param to behind destination NAT */
  open(count: number, from: string, to: string): void {
    const [source, destination] = [parseAddress(from), parseAddress(to)];
    for (let left = count; left > 0; left--) {
      const ports = { sourcePort: 1024 + (this.flows.length % 60_000), destinationPort: 80 };
      const original = { source, destination, ...ports };
      const reply = { source: destination, destination: source, sourcePort: 80, destinationPort: ports.sourcePort };
      this.flows.push({ family: familyOf(source), original, reply });
    }
  }

  size(): number {
    if (this.error !== undefined) throw this.error;
    return this.flows.length;
  }

  capacity(): number {
    return this.most;
  }

  async sweep(isMeant: (flow: FlowTuples) => boolean): Promise<number> {
    this.sweeps++;
    const before = this.flows.length;
    this.flows = this.flows.filter((flow) => !isMeant(flow));
    return before - this.flows.length;
  }

  countOf(address: string): number {
    return this.flows.filter(({ original, reply }) => [original.source, reply.source].includes(parseAddress(address)))
      .length;
  }
}

function limited(limit: number | undefined) {
  const table = new FakeTable();
  const logger = recordingLogger();
  const claimed = new Map<string, readonly Claim[]>();
  let hooks = 0;
  const own = new ConnectionLimit({
    table,
    ruleset: {
      claim: (owner, claims) => void claimed.set(owner, claims),
      provide: (_owner, { chains }) => void (hooks = chains.length),
    },
    addresses: () => [HOSTILE, OTHER, HOSTILE6].map((text) => parseAddress(text)),
    nodeAddresses: () => new Set([parseAddress(NODE)]),
    clock: new FakeClock(),
    logger,
    limit,
  });
  const crowded = () => [...claimed.values()].flat().map(({ set, element: { key } }) => [set, ...key]);
  return { table, logger, own, crowded, hooks: () => hooks };
}

describe("policyd/policy/connection_limit", () => {
  it("GUARD-08 MODE-04: a pod beyond the limit begins no further connections, and keeps about as many as it may have", async () => {
    const { table, own, crowded, hooks, logger } = limited(100);
    table.open(400, HOSTILE, OUTSIDE);
    table.open(90, OTHER, OUTSIDE);
    assert.equal(hooks(), 0, "nobody has too many yet");
    await own.check();
    assert.equal(hooks(), 2);
    assert.deepEqual(crowded(), [["crowded4", parseAddress(HOSTILE)]]);
    assert.ok(Math.abs(table.countOf(HOSTILE) - 100) < 40, `${table.countOf(HOSTILE)}`);
    assert.equal(table.countOf(OTHER), 90);
    assert.deepEqual(
      logger.lines.map(({ level, fields }) => [level, fields["connections"]]),
      [["warn", 400]],
    );
    assert.equal(own.problems().length, 1);
    await own.check();
    assert.equal(logger.lines.length, 1, "told once");
  });

  it("GUARD-08: what began before the rules were there is deleted again and again, until the pod keeps to the limit", async () => {
    const { table, own } = limited(100);
    for (let round = 0; round < 12; round++) {
      if (round < 4) table.open(250, HOSTILE, OUTSIDE);
      await own.check();
    }
    assert.ok(table.countOf(HOSTILE) <= 100, `${table.countOf(HOSTILE)}`);
  });

  it("GUARD-08: so it is of what an accomplice outside begins, in each family by itself, and of no other pod", async () => {
    const { table, own, crowded } = limited(100);
    table.open(150, OUTSIDE6, HOSTILE6);
    table.open(80, OUTSIDE, HOSTILE);
    // These count for who began them.
    table.open(99, HOSTILE, OTHER);
    table.open(99, OTHER, OUTSIDE);
    table.open(500, OUTSIDE, "192.0.2.8");
    await own.check();
    assert.deepEqual(crowded(), [
      ["crowded4", parseAddress(HOSTILE)],
      ["crowded6", parseAddress(HOSTILE6)],
    ]);
  });

  it("GUARD-08: what the node itself begins counts for no pod, and is not deleted", async () => {
    const { table, own, crowded } = limited(100);
    table.open(400, NODE, HOSTILE);
    table.open(400, NODE, OTHER);
    table.open(150, OUTSIDE, OTHER);
    await own.check();
    assert.deepEqual(crowded(), [["crowded4", parseAddress(OTHER)]]);
    assert.equal(table.countOf(NODE), 800);
  });

  it("GUARD-08: it may again when it has three quarters of the limit, or nobody could have too many", async () => {
    for (const others of [0, 200]) {
      const { table, own, crowded } = limited(100);
      table.open(others, OUTSIDE, "192.0.2.8");
      table.open(101, HOSTILE, OUTSIDE);
      await own.check();
      assert.equal(crowded().length, 1);
      table.flows = table.flows.slice(0, others + 76);
      await own.check();
      assert.equal(crowded().length, 1, "not yet");
      table.flows = table.flows.slice(0, others + 75);
      await own.check();
      assert.deepEqual([crowded(), own.problems()], [[], []]);
    }
  });

  it("GUARD-08: by default it is a quarter of the table, and of no matter before that is filled to three quarters", async () => {
    const { table, own, crowded } = limited(undefined);
    table.open(700, HOSTILE, OUTSIDE);
    await own.check();
    assert.deepEqual([crowded(), table.sweeps], [[], 0], "nobody is in need, and nothing is gone through");
    table.open(60, OTHER, OUTSIDE);
    await own.check();
    assert.equal(crowded().length, 1);
    assert.ok(table.countOf(HOSTILE) < 330, `${table.countOf(HOSTILE)}`);
    await own.check();
    assert.equal(crowded().length, 1, "also when there is room again");
    table.flows = table.flows.slice(-80);
    await own.check();
    assert.deepEqual(crowded(), []);
  });

  it("GUARD-08: of a table without bounds (nf_conntrack_max is 0) nobody has a share, and who was beyond one may again", async () => {
    const { table, own, crowded } = limited(undefined);
    table.open(760, HOSTILE, OUTSIDE);
    await own.check();
    assert.equal(crowded().length, 1);
    table.most = 0;
    table.open(700, OTHER, OUTSIDE);
    await own.check();
    assert.deepEqual([crowded(), own.problems(), table.countOf(OTHER)], [[], [], 700]);
  });

  it("GUARD-08: a table that cannot be read is told once, and it goes on", async () => {
    const { table, own, logger, crowded } = limited(100);
    table.open(300, HOSTILE, OUTSIDE);
    table.error = new DrawbridgeError("ERR_UNAVAILABLE", "no table");
    await own.check();
    await own.check();
    assert.equal(logger.lines.length, 1);
    table.error = undefined;
    await own.check();
    assert.equal(crowded().length, 1);
  });
});
