import assert from "node:assert/strict";
import { readdirSync, truncateSync } from "node:fs";
import { mergedRows } from "../../../cli/flows/merge.ts";
import { systemMachine } from "../../../cli/node/machine/system_machine.ts";
import { deleteEntries, openConntrackSocket } from "../../../kernel/conntrack/table.ts";
import { listEntries } from "../../support/list_entries.ts";
import { type Address, familyOf, formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { endText, type FlowRow } from "../../../policyd/flows/row.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import {
  namespaceManifest,
  NODE_NAMES,
  type NodeName,
  podManifest,
  type PodPlace,
} from "../../support/policy/lab/place.ts";
import { PolicyLab } from "../../support/policy/lab/policy_lab.ts";
import { requireKernel } from "../../support/privilege.ts";
import { until, valueWhen } from "../../support/until.ts";

const PODS: readonly PodPlace[] = [
  { key: "x/a", node: "node1" },
  { key: "x/db", node: "node1" },
  { key: "y/far", node: "node2" },
];
const ACCOUNTING = "net/netfilter/nf_conntrack_acct";
const PAYLOAD = new Uint8Array(100);

describe("the ledger of flows, with packets", function () {
  this.timeout(180_000);
  let lab: PolicyLab;

  before(async function () {
    requireKernel(this);
    lab = await PolicyLab.create({
      name: "flow-ledger",
      pods: PODS,
      bridgeNetfilter: { node1: true, node2: false },
      configuration: { dropLog: true },
      hasFlowLedger: true,
    });
    await lab.apply(objects());
  });
  after(() => lab?.close());

  function objects(...more: readonly object[]): readonly object[] {
    const pods = PODS.filter(({ key }) => lab.places.has(key));
    return [
      ...lab.nodeManifests(),
      ...["x", "y"].map((name) => namespaceManifest(name, { ns: name })),
      ...pods.map(({ key, node }) => podManifest(lab.place(key), node, { labels: { app: key.split("/")[1] ?? "" } })),
      ...more,
    ];
  }

  /** Begins connections: sends a datagram for each, from a socket of its own. */
  function begin(from: LabNamespace, to: Address, port: number, count: number): void {
    for (let i = 0; i < count; i++) {
      const socket = ProbeSocket.open(from, familyOf(to), SocketType.DATAGRAM);
      socket.connect({ address: to, port });
      socket.send(PAYLOAD);
      socket.close();
    }
  }

  function rowsOf(name: NodeName): readonly FlowRow[] {
    const { node } = lab.wired(name);
    const place = { socket: socketOf(name), directory: lab.flowDirectory(name) };
    return node.inside(() => systemMachine(lab.lab.calls).readFlows(place).rows);
  }

  function socketOf(name: NodeName): string {
    const { policyd } = lab.overrides(name) as { readonly policyd: { readonly socket: string } };
    return policyd.socket;
  }

  /** Waits until the rows at one port satisfy a condition, and returns them. */
  async function rowsWhen(port: number, isSo: (rows: readonly FlowRow[]) => boolean): Promise<readonly FlowRow[]> {
    return await valueWhen(
      () => NODE_NAMES.flatMap(rowsOf).filter((row) => row.port === port),
      isSo,
      (rows) => JSON.stringify(rows, null, 1),
    );
  }

  function deleteAll(name: NodeName, port: number): void {
    lab.wired(name).node.inside(() => {
      const socket = openConntrackSocket(lab.lab.calls);
      try {
        deleteEntries(
          socket,
          listEntries(socket).filter(({ original }) => original.destinationPort === port),
        );
      } finally {
        socket.close();
      }
    });
  }

  const textOf = ({ from, to, observedAt, verdict }: FlowRow): string =>
    `${endText(from)} > ${endText(to)} ${verdict} at ${observedAt}`;

  it("FLOW-01: the node of each end counts a connection between pods once, in both families, with its bytes when it ends", async () => {
    const [a, far] = [lab.place("x/a"), lab.place("y/far")];
    for (const family of FAMILIES) begin(a.namespace, far.addresses[family], 5001, 5);
    const rows = await rowsWhen(5001, (found) => found.length === 2 && found.every(({ count }) => count === 10));
    assert.deepEqual(rows.map(textOf).toSorted(), ["x/a > y/far allowed at from", "x/a > y/far allowed at to"]);
    for (const name of NODE_NAMES) deleteAll(name, 5001);
    const ended = await rowsWhen(5001, (found) => found.every(({ open }) => open === 0));
    // A flow has at least header and datagram. An error from the port, at which nobody listens, may be added.
    const least = 5 * (20 + 8 + PAYLOAD.length) + 5 * (40 + 8 + PAYLOAD.length);
    for (const { bytes } of ended) assert.ok(bytes >= least && bytes % 2 === 0, `${bytes} of ${least}`);
    const [merged, ...more] = mergedRows(ended);
    assert.deepEqual([merged?.count, more.length], [10, 0]);
  });

  it("FLOW-07: addresses outside the cluster are one end of a row, as the smallest prefix that contains them", async () => {
    const [db, outside, stranger] = [lab.place("x/db"), lab.place("outside"), lab.place("stranger")];
    begin(db.namespace, outside.addresses[4], 5002, 1);
    begin(db.namespace, stranger.addresses[4], 5002, 2);
    const [row] = await rowsWhen(5002, (found) => found[0]?.count === 3);
    assert.equal(row && textOf(row), "x/db > 203.0.113.0/28 allowed at from");
  });

  it("FLOW-05: a flow that policies drop, or would drop, is a row with the policy and the nearest rule", async () => {
    const policy = (name: string, annotations: object): object => ({
      apiVersion: "networking.k8s.io/v1",
      kind: "NetworkPolicy",
      metadata: { name, namespace: "x", annotations },
      spec: {
        podSelector: { matchLabels: { app: name === "shut" ? "db" : "a" } },
        ingress: [{ ports: [{ protocol: "UDP", port: 53 }] }],
      },
    });
    const shadow = { "drawbridge.dev/shadow": "true" };
    await lab.apply(objects(policy("shut", {}), policy("tried", shadow)));
    const [a, db, far] = [lab.place("x/a"), lab.place("x/db"), lab.place("y/far")];
    begin(far.namespace, db.addresses[4], 5003, 1);
    begin(far.namespace, a.addresses[6], 5003, 1);
    const rows = await rowsWhen(5003, (found) => found.filter(({ reason }) => reason !== undefined).length === 2);
    const at1 = rows.filter(({ observedAt }) => observedAt === "to");
    assert.deepEqual(at1.map(textOf).toSorted(), [
      "y/far > x/a allowed at to",
      "y/far > x/a would be denied at to",
      "y/far > x/db denied at to",
    ]);
    const reasons = new Map(at1.map((row) => [row.verdict, row.reason]));
    assert.match(reasons.get("denied") ?? "", /x\/shut.*ingress\[0\].*53/);
    assert.match(reasons.get("would be denied") ?? "", /x\/tried/);
    await lab.apply(objects());
  });

  it("FLOW-01: a connection's bytes count for the pod that began it, though another pod has its address when it ends", async () => {
    const far = lab.place("y/far");
    const first = await lab.wire({ key: "x/first", node: "node1" });
    await lab.apply([...objects(), podManifest(first, "node1")]);
    begin(first.namespace, far.addresses[4], 5004, 1);
    await rowsWhen(5004, (found) => found.length === 2);
    // On the other node the connection is there after the pod is gone.
    await lab.unwire("x/first", "node1");
    const heir = podManifest({ ...first, name: "x/heir" }, "node1");
    await lab.apply([...objects(), heir]);
    deleteAll("node2", 5004);
    const rows = await rowsWhen(5004, (found) => found.every(({ open }) => open === 0));
    assert.deepEqual([...new Set(rows.map(({ from }) => endText(from)))], ["x/first"]);
    assert.ok(rows.every(({ bytes }) => bytes > 0));
    await lab.apply(objects());
  });

  it("FLOW-15: a flow that a pod begins with another pod's address is in no ledger", async () => {
    const [a, db, far] = [lab.place("x/a"), lab.place("x/db"), lab.place("y/far")];
    const forged = formatAddress(db.addresses[4]);
    a.namespace.exec("ip", ["address", "add", `${forged}/32`, "dev", "eth0"]);
    const socket = ProbeSocket.open(a.namespace, 4, SocketType.DATAGRAM);
    socket.bind({ address: db.addresses[4], port: 40_000 });
    socket.connect({ address: far.addresses[4], port: 5007 });
    assert.equal(socket.send(PAYLOAD), PAYLOAD.length);
    socket.close();
    a.namespace.exec("ip", ["address", "del", `${forged}/32`, "dev", "eth0"]);
    // A later flow is there, so the earlier one would be, too.
    begin(a.namespace, far.addresses[4], 5008, 1);
    await rowsWhen(5008, (found) => found.length === 2);
    assert.deepEqual(await rowsWhen(5007, () => true), []);
  });

  it("FLOW-04: a daemon that is killed and started again continues to count, and a torn file loses only its own rows", async () => {
    const [a, db] = [lab.place("x/a"), lab.place("x/db")];
    begin(a.namespace, db.addresses[4], 5005, 3);
    await rowsWhen(5005, (found) => found[0]?.count === 3);
    begin(a.namespace, db.addresses[4], 5006, 1);
    await rowsWhen(5006, (found) => found[0]?.count === 1);
    await lab.restart("node1", () => {
      const directory = lab.flowDirectory("node1");
      const names = readdirSync(directory).toSorted((x, y) => Number(/\d+/.exec(x)) - Number(/\d+/.exec(y)));
      truncateSync(`${directory}/${names.at(-1)}`, 10);
    });
    await lab.apply(objects());
    const log = (): string => lab.daemon("node1").process.log();
    assert.match(log(), /a file of the flow ledger is not used .*it is torn/);
    begin(a.namespace, db.addresses[4], 5005, 2);
    // The new daemon may still be reading the table of connections, whose older flows are open, too.
    const [row, ...more] = await rowsWhen(5005, (found) => found[0]?.count === 5 && found[0].open === 5);
    assert.deepEqual([row && textOf(row), more], ["x/a > x/db allowed at from", []]);
    // The connection still exists, so it is a row again.
    const [found] = await rowsWhen(5006, (rows) => rows.length > 0);
    assert.deepEqual([found?.count, found?.open], [1, 1]);
  });

  it("FLOW-06: without flowLedger the answer to a request says that it is off, and the daemon sets accounting back", async () => {
    const { node } = lab.wired("node1");
    assert.equal(node.readSysctl(ACCOUNTING), "1");
    await lab.restart("node1", () => {}, { dropLog: true, flowLedger: false });
    await lab.apply(objects());
    await until(() => node.readSysctl(ACCOUNTING) === "0", "the accounting is off again");
    const place = { socket: socketOf("node1"), directory: lab.flowDirectory("node1") };
    const { problems } = node.inside(() => systemMachine(lab.lab.calls).readFlows(place));
    assert.match(problems.join(), /flowLedger: it is false; expected true/);
  });
});
