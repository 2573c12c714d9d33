import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { systemFileSystem } from "../../../../ipam/file_system.ts";
import { ConntrackMessage } from "../../../../kernel/conntrack/request.ts";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { readTextFile } from "../../../../kernel/file.ts";
import { type Address, addressToBytes, formatAddress, parseAddress } from "../../../../kernel/ip/address.ts";
import { MessageFlag, type ReceivedMessage } from "../../../../kernel/netlink/message.ts";
import { nodeSyscalls } from "../../../../kernel/syscall/koffi.ts";
import { FlowEndNames } from "../../../../policyd/flows/flow_end_names.ts";
import { FlowLedger } from "../../../../policyd/flows/flow_ledger.ts";
import { Ledger } from "../../../../policyd/flows/ledger.ts";
import { readLedger } from "../../../../policyd/flows/ledger_files.ts";
import { endText } from "../../../../policyd/flows/row.ts";
import { atOnce } from "../../../../policyd/lib/sliced_work.ts";
import { recordingLogger } from "../../../support/recording_logger.ts";
import { FakeKernelNotifications } from "../../../support/daemon/fake_notifications.ts";
import { storeOf } from "../../../support/evaluate/store.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { storeView } from "../../../support/policy/store_view.ts";

const MINUTE = 60_000;
const syscalls = nodeSyscalls();

function pod(name: string, node: string, ip: string): object {
  const metadata = { name, namespace: "shop", labels: { "pod-template-hash": "6d4cf56db6" } };
  const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web-6d4cf56db6", controller: true };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: name.startsWith("web") ? { ...metadata, ownerReferences: [owner] } : metadata,
    spec: { nodeName: node },
    status: { phase: "Running", podIPs: [{ ip }] },
  };
}

function nodeManifest(name: string, address: string): object {
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name },
    status: { addresses: [{ type: "InternalIP", address }] },
  };
}

const STORE = storeOf([
  nodeManifest("n1", "192.0.2.1"),
  nodeManifest("n2", "192.0.2.2"),
  pod("web-1", "n1", "10.0.0.1"),
  pod("web-2", "n1", "10.0.0.2"),
  pod("db", "n2", "10.0.1.1"),
  pod("far", "n2", "10.0.1.2"),
]);

/** The names by which one of the pods knows addresses, the last of which a pod has. */
const NAMES: Readonly<Record<string, string>> = {
  "203.0.113.4": "a.example.com",
  "203.0.113.5": "a.example.com",
  "203.0.113.6": "b.example.com",
  "10.0.1.1": "c.example.com",
};

/** A conntrack message about a TCP connection to port 5432 of another address through a Service. */
function tcp(id: number, from: string, to: string, kind: "begun" | "ended" | "listed", bytes = 0): ReceivedMessage {
  const [source, server] = [from, to].map((text) => [...addressToBytes(parseAddress(text))]);
  const attribute = (number: number, payload: readonly number[]): readonly number[] => {
    const padding = Array.from({ length: (4 - (payload.length % 4)) % 4 }, () => 0);
    return [payload.length + 4, 0, number, 0, ...payload, ...padding];
  };
  const tuple = (a: readonly number[] = [], b: readonly number[] = [], ports: readonly (readonly number[])[]) => [
    ...attribute(1, [...attribute(1, a), ...attribute(2, b)]),
    ...attribute(2, [...attribute(1, [6]), ...attribute(2, ports[0] ?? []), ...attribute(3, ports[1] ?? [])]),
  ];
  const [client, own] = [
    [0x90, id % 256],
    [5432 >> 8, 5432 & 255],
  ];
  const counters = attribute(9, attribute(2, [0, 0, 0, 0, 0, 0, bytes >> 8, bytes & 255]));
  const body = [
    2,
    0,
    0,
    0,
    ...attribute(1, tuple(source, [10, 96, 0, 1], [client, [0, 80]])),
    ...attribute(2, tuple(server, source, [own, client])),
    ...attribute(12, [0, 0, 0, id]),
    ...counters,
  ];
  const type = kind === "ended" ? ConntrackMessage.DELETE : ConntrackMessage.NEW;
  return { type, flags: kind === "begun" ? MessageFlag.CREATE : 0, sequence: 0, body: Uint8Array.from(body) };
}

describe("policyd/flows", () => {
  let directory = "";
  let table: readonly ReceivedMessage[] = [];
  let refusal: Error | undefined;
  let walks = 0;

  beforeEach(() => {
    directory = mkdtempSync(path.join(tmpdir(), "drawbridge-flows-"));
    [table, refusal, walks] = [[], undefined, 0];
  });

  afterEach(() => {
    rmSync(directory, { recursive: true });
  });

  const place = () => ({
    directory: path.join(directory, "flows"),
    files: systemFileSystem(syscalls),
    read: (file: string, limit: number) => readTextFile(syscalls, file, limit),
  });

  async function start() {
    const [events, clock, logger, ledger] = [
      new FakeKernelNotifications(),
      new FakeClock(),
      recordingLogger(),
      new Ledger(),
    ];
    const { holderOf } = storeView(STORE);
    const domainNameOf = (source: Address, remote: Address): string | undefined =>
      source === parseAddress("10.0.0.1") ? NAMES[formatAddress(remote)] : undefined;
    const flows = new FlowLedger({
      ledger,
      ends: new FlowEndNames("n1", holderOf, domainNameOf),
      place: place(),
      visitTable: async (see) => {
        walks++;
        await turn();
        clock.spend(100);
        if (refusal !== undefined) throw refusal;
        for (const message of table) see(message);
      },
      clock,
      logger,
    });
    await flows.start(events);
    await turn();
    await turn();
    return { events, clock, logger, ledger, flows };
  }

  /** The last row of each pair of ends in the files. */
  function written(): Readonly<Record<string, readonly (number | string | undefined)[]>> {
    const rows = atOnce(readLedger(place())).rows.map(
      ({ from, to, port, verdict, count, open, bytes }) =>
        [`${endText(from)} > ${endText(to)}:${port} ${verdict}`, [count, open, bytes]] as const,
    );
    return Object.fromEntries(rows);
  }

  it("FLOW-04: files of changes hold at most twice the rows of the ledger, however many rows change", async () => {
    const { events, flows } = await start();
    for (let round = 0; round < 18; round++) {
      // Each round changes every row.
      const all = Array.from({ length: 250 }, (_, number) =>
        [1, 2].map((host) => tcp(number % 256, `10.0.0.${host}`, `203.0.${number}.1`, "begun")),
      ).flat();
      events.emit("conntrack", all);
      events.emit(
        "conntrack",
        all.map((_, number) => tcp(number % 256, "10.0.0.1", "10.0.1.1", "ended")),
      );
      await flows.write();
    }
    const names = readdirSync(place().directory).join(" ");
    assert.equal(names.match(/all-/g)?.length, 2, names);
    assert.ok((names.match(/changes-/g)?.length ?? 0) <= 5 + 4, names);
  });

  it("FLOW-04: the last complete file of all rows stays after the next one is written, which may be torn", async () => {
    mkdirSync(place().directory);
    writeFileSync(path.join(place().directory, "all-1.jsonl"), '{"version":1,"rows":0}\n');
    writeFileSync(path.join(place().directory, "all-2.jsonl"), "");
    const { events, flows } = await start();
    const names = (): string => readdirSync(place().directory).toSorted().join(" ");
    for (const [id, expected] of [
      [1, "all-1.jsonl all-2.jsonl all-3.jsonl"],
      [2, "all-1.jsonl all-2.jsonl all-3.jsonl changes-4.jsonl"],
    ] as const) {
      events.emit("conntrack", [tcp(id, "10.0.0.1", "10.0.1.1", "begun")]);
      await flows.write();
      assert.equal(names(), expected);
    }
  });

  it("FLOW-07: outside addresses that a pod knows by a domain name are a row for each name, beside those that it does not", async () => {
    const { events, flows } = await start();
    const to = ["203.0.113.4", "203.0.113.5", "203.0.113.6", "203.0.113.7", "10.0.1.1"];
    const pairs = [...to.map((server) => ["10.0.0.1", server] as const), ["10.0.1.1", "10.0.0.2"] as const];
    events.emit(
      "conntrack",
      pairs.map(([source, server], id) => tcp(id, source, server, "begun")),
    );
    await flows.write();
    assert.deepEqual(
      Object.keys(written()).toSorted(),
      [
        "shop/deployment/web > a.example.com 203.0.113.4/31:5432 allowed",
        "shop/deployment/web > b.example.com 203.0.113.6/32:5432 allowed",
        "shop/deployment/web > shop/db:5432 allowed",
        "shop/deployment/web > 203.0.113.7/32:5432 allowed",
        "shop/db > shop/deployment/web:5432 allowed",
      ].toSorted(),
    );
  });

  it("FLOW-04: a failed write is a problem, and all rows are written when writing is possible again", async () => {
    const { events, clock, flows, logger } = await start();
    writeFileSync(place().directory, "in the way");
    events.emit("conntrack", [tcp(1, "10.0.0.1", "10.0.1.1", "begun")]);
    clock.pass(MINUTE);
    await turn();
    await turn();
    assert.match(flows.problems().join(), /^flow ledger: it is not written: .*flows/);
    await assert.rejects(flows.write(), { code: "ERR_STORE" });
    rmSync(place().directory);
    events.emit("conntrack", [tcp(2, "10.0.0.1", "10.0.0.2", "begun")]);
    clock.pass(MINUTE);
    for (let turns = 0; turns < 5; turns++) await turn();
    assert.deepEqual(flows.problems(), []);
    assert.deepEqual(Object.keys(written()).length, 2);
    assert.equal(logger.lines.filter(({ message }) => message === "the flow ledger is not written").length, 1);
  });

  it("FLOW-04: after a loss of events the conntrack table is read, and the loss is counted", async () => {
    const { events, clock, flows } = await start();
    events.emit("conntrack", [tcp(1, "10.0.0.1", "10.0.1.1", "begun"), tcp(2, "10.0.0.1", "10.0.1.1", "begun")]);
    table = [tcp(2, "10.0.0.1", "10.0.1.1", "listed")];
    events.overrun("conntrack");
    clock.pass(400);
    for (let turns = 0; turns < 3; turns++) await turn();
    await flows.write();
    assert.deepEqual(written(), { "shop/deployment/web > shop/db:5432 allowed": [2, 1, 0] });
    assert.deepEqual(flows.counts(), { rows: 0, connections: 0, size: 1, overruns: 1 });
  });

  it("FLOW-04: many losses of events, also during a walk of the table, have one walk after a pause of four times its duration", async () => {
    const { events, clock } = await start();
    for (const before of [1, 2]) {
      for (let losses = 0; losses < 5; losses++) events.overrun("conntrack");
      for (let turns = 0; turns < 3; turns++) await turn();
      clock.pass(399);
      assert.equal(walks, before);
      clock.pass(1);
      assert.equal(walks, before + 1);
    }
  });

  it("FLOW-04: refused events are a problem until they are read, and a refused table is logged", async () => {
    const events = new FakeKernelNotifications();
    refusal = new DrawbridgeError("ERR_NETLINK", "dump: no memory");
    const { clock, logger, flows } = await start();
    assert.match(logger.lines.map(({ message }) => message).join(), /connections from before are missing/);
    assert.deepEqual(flows.problems(), []);
    events.refuseNext("conntrack", new Error("no buffer"));
    await flows.start(events);
    assert.match(flows.problems().join(), /events of connections are not read: no buffer/);
    clock.pass(5000);
    await turn();
    assert.deepEqual(flows.problems(), []);
  });
});
