import assert from "node:assert/strict";
import { mock } from "node:test";
import fc from "fast-check";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { formatCidr, hostCidr, parseCidr } from "../../../../kernel/ip/cidr.ts";
import { seenEnd } from "../../../../policyd/flows/flow_end_names.ts";
import { Ledger, type SeenFlow } from "../../../../policyd/flows/ledger.ts";
import { atOnce } from "../../../../policyd/lib/sliced_work.ts";
import { endText, type FlowRow } from "../../../../policyd/flows/row.ts";

const LIMITS = { rows: 100, bytes: 1_000_000, connections: 100 };
const WEB = seenEnd({ type: "workload", name: "shop/deployment/web" }, true);
const DB = seenEnd({ type: "workload", name: "shop/statefulset/db" }, false);

function outside(text: string): SeenFlow["to"] {
  return seenEnd({ type: "outside", range: hostCidr(parseAddress(text)) }, false);
}

function flow(from: SeenFlow["from"], to: SeenFlow["to"], port = 80): SeenFlow {
  return { from, to, protocol: "TCP", port };
}

function textsOf(rows: Iterable<FlowRow>): readonly string[] {
  return [...rows].map(({ from, to, port, count }) => `${endText(from)} ${endText(to)} ${port} ${count}`);
}

describe("policyd/flows ledger", () => {
  it("FLOW-01: connections of one pair, protocol and port are one row with total, open connections, bytes and times", () => {
    const ledger = new Ledger(LIMITS);
    ledger.begun(1, flow(WEB, DB), 1000);
    ledger.begun(2, flow(WEB, DB), 2000);
    ledger.begun(2, flow(WEB, DB), 2500);
    ledger.ended(1, 300, 3000);
    ledger.ended(1, 300, 3000);
    ledger.ended(99, 300, 3000);
    ledger.begun(3, flow(WEB, DB, 81), 4000);
    const [row, other, ...more] = [...ledger.rows()];
    const { count, open, bytes, firstSeen, lastSeen, verdict, observedAt } = row ?? assert.fail();
    assert.deepEqual(
      { count, open, bytes, firstSeen, lastSeen },
      { count: 2, open: 1, bytes: 300, firstSeen: 1000, lastSeen: 3000 },
    );
    assert.deepEqual([verdict, observedAt, other?.port, more], ["allowed", "from", 81, []]);
  });

  it("FLOW-02: in a full ledger the workload with the most rows loses the one seen longest ago, and the loss is counted", () => {
    const ledger = new Ledger({ ...LIMITS, rows: 4 });
    const busy = seenEnd({ type: "workload", name: "evil/scanner" }, true);
    ledger.begun(1, flow(WEB, DB), 1);
    for (let port = 1; port <= 3; port++) ledger.begun(port + 1, flow(busy, DB, port), port + 1);
    ledger.begun(10, flow(busy, DB, 1), 10);
    ledger.begun(11, flow(busy, DB, 4), 11);
    assert.deepEqual(textsOf(ledger.rows()), [
      "shop/deployment/web shop/statefulset/db 80 1",
      "evil/scanner shop/statefulset/db 3 1",
      "evil/scanner shop/statefulset/db 1 2",
      "evil/scanner shop/statefulset/db 4 1",
    ]);
    assert.deepEqual(ledger.losses(), { rows: 1, connections: 0 });
    // The end of a connection whose row is gone changes nothing.
    ledger.takeChanged();
    ledger.ended(3, 500, 12);
    assert.deepEqual(ledger.takeChanged(), []);
  });

  it("FLOW-02: a new row in a full ledger finds the workload with the most rows without a look at each", () => {
    const ledger = new Ledger(LIMITS);
    const workload = (i: number) => seenEnd({ type: "workload", name: `ci/job/${i}` }, true);
    for (let i = 0; i < LIMITS.rows; i++) ledger.begun(i, flow(workload(i), DB), 1);
    const reads = mock.getter(Map.prototype, "size");
    for (let i = 0; i < 10; i++) ledger.begun(1000 + i, flow(WEB, DB, 1 + i), 2);
    const { length } = reads.mock.calls;
    reads.mock.restore();
    assert.deepEqual([ledger.size, ledger.losses().rows], [LIMITS.rows, 10]);
    assert.ok(length < 10 * 10, `${length} looks at the size of a map for 10 rows`);
  });

  it("FLOW-02: rows are also bounded by their bytes, and connections whose end is awaited by their number", () => {
    const ledger = new Ledger({ rows: 1000, bytes: 3000, connections: 2 });
    for (let port = 1; port <= 50; port++) ledger.begun(port, flow(WEB, DB, port), port);
    assert.ok(ledger.size >= 8 && ledger.size <= 12, `${ledger.size}`);
    assert.deepEqual(ledger.losses(), { rows: 50 - ledger.size, connections: 48 });
    ledger.denied(flow(WEB, DB, 50), "denied", "r".repeat(2000), 60);
    assert.ok(ledger.size <= 4, "a reason counts, too");
  });

  it("FLOW-01: the bytes of a connection count for the ends between which it began", () => {
    const ledger = new Ledger(LIMITS);
    ledger.begun(7, flow(WEB, DB), 1);
    const heir = seenEnd({ type: "workload", name: "other/heir" }, true);
    ledger.begun(8, flow(heir, DB), 2);
    ledger.ended(7, 1000, 3);
    const bytes = new Map([...ledger.rows()].map((row) => [endText(row.from), row.bytes]));
    assert.deepEqual(Object.fromEntries(bytes), { "shop/deployment/web": 1000, "other/heir": 0 });
  });

  it("FLOW-04: loaded rows keep counting in their order, and none of their connections is open", () => {
    const before = new Ledger(LIMITS);
    before.begun(1, flow(WEB, outside("192.0.2.1")), 1);
    before.begun(2, flow(WEB, outside("192.0.2.3")), 2);
    before.denied(flow(DB, WEB), "denied", "isolated", 3);
    const after = new Ledger(LIMITS);
    atOnce(after.load(before.rows()));
    after.listed(2, flow(WEB, outside("192.0.2.3")), 5);
    after.listed(2, flow(WEB, outside("192.0.2.3")), 5);
    after.listed(9, flow(WEB, DB), 6);
    assert.deepEqual(
      [...after.rows()].map(({ to, count, open, verdict, reason }) => [endText(to), count, open, verdict, reason]),
      [
        ["shop/deployment/web", 1, 0, "denied", "isolated"],
        ["192.0.2.0/30", 2, 1, "allowed", undefined],
        ["shop/statefulset/db", 1, 1, "allowed", undefined],
      ],
    );
    assert.equal(after.size, 3);
  });

  it("FLOW-07: outside addresses of one block are one end, named by the smallest prefix that holds them", () => {
    const address = fc.integer({ min: 0, max: 255 }).map((low) => `203.0.113.${low}`);
    fc.assert(
      fc.property(fc.array(address, { minLength: 1, maxLength: 6 }), (texts) => {
        const ledger = new Ledger(LIMITS);
        for (const [id, text] of texts.entries()) ledger.begun(id, flow(WEB, outside(text)), id);
        ledger.begun(100, flow(WEB, outside("203.0.114.1")), 100);
        const [row, other, ...more] = [...ledger.rows()];
        assert.deepEqual([row?.count, other?.count, more.length], [texts.length, 1, 0]);
        const cidr = parseCidr(endText(row?.to ?? assert.fail()));
        const values = texts.map((text) => Number(text.split(".")[3]));
        const bits = 32 - Math.clz32(Math.min(...values) ^ Math.max(...values));
        assert.equal(cidr.prefixLength, 32 - bits);
      }),
    );
    const ledger = new Ledger(LIMITS);
    ledger.begun(1, flow(WEB, outside("2001:db8::1")), 1);
    ledger.begun(2, flow(WEB, outside("2001:db8::ff")), 2);
    ledger.begun(3, flow(WEB, outside("2001:db8:0:1::1")), 3);
    assert.deepEqual(
      [...ledger.rows()].map(({ to }) => (to.type === "outside" ? formatCidr(to.range) : "")),
      ["2001:db8::/120", "2001:db8:0:1::1/128"],
    );
  });

  it("FLOW-04: after a loss of events no connection is known, and those in the table are open again without counting twice", () => {
    const ledger = new Ledger(LIMITS);
    ledger.begun(1, flow(WEB, DB), 1);
    ledger.begun(2, flow(WEB, DB), 2);
    ledger.forgetConnections();
    ledger.listed(2, flow(WEB, DB), 3);
    const [row] = [...ledger.rows()];
    assert.deepEqual([row?.count, row?.open], [2, 1]);
    ledger.ended(1, 100, 4);
    ledger.ended(2, 10, 5);
    assert.deepEqual([row?.open, row?.bytes], [0, 10]);
  });
});
