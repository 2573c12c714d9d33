import assert from "node:assert/strict";
import { type ConntrackEntry, ConntrackStatus, parseEntry } from "../../kernel/conntrack/entry.ts";
import { type ConntrackFilter, matchesFilter } from "../../kernel/conntrack/filter.ts";
import { peekId, peekTuples } from "../../kernel/conntrack/flow_tuples.ts";
import { hasLabel, labelBit } from "../../kernel/conntrack/labels.ts";
import { dumpEntries } from "../../kernel/conntrack/request.ts";
import { changeLabelsOf, deleteEntries, openConntrackSocket } from "../../kernel/conntrack/table.ts";
import { listEntries } from "../support/list_entries.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { familyOf } from "../../kernel/ip/address.ts";
import { createLab, type Lab } from "../lab/lab.ts";
import { ProbeSocket, SocketType } from "../lab/probe/socket.ts";
import { suiteLab } from "../support/suite_lab.ts";
import { makeFlows, type TrackedPair, trackedPair } from "./tracked_pair.ts";

const LABEL = 100;
/** Rules that label what goes to ports from 7000 on, count labelled packets, and mark what goes to port 7003. */
const RULESET = `
table inet lab {
  counter labelled { }
  chain zones {
    type filter hook output priority -300;
    meta l4proto udp th dport 6500 ct zone set 5
    meta l4proto udp th dport 6501 ct original zone set 6
    meta l4proto udp th dport 6502 ct reply zone set 7
  }
  chain out {
    type filter hook output priority 0;
    ct label ${LABEL} counter name labelled
    ct state new meta l4proto { tcp, udp } th dport 7000-7999 ct label set ${LABEL}
    meta l4proto udp th dport 7003 ct mark set 0xab
  }
}`;

describe("kernel/conntrack", () => {
  let lab: Lab | undefined;
  let pair: TrackedPair;
  let socket: NetlinkSocket;

  before(async function () {
    lab = suiteLab(this, "kernel-conntrack");
    pair = trackedPair(lab, RULESET);
    pair.near.writeSysctl("net/netfilter/nf_conntrack_acct", "1");
    socket = pair.near.inside(() => openConntrackSocket(pair.near.calls));
    const [v4, v6] = pair.farAddresses;
    await makeFlows(pair, [
      { protocol: "udp", to: v4, port: 6000 },
      { protocol: "udp", to: v6, port: 6000 },
      { protocol: "udp", to: v4, port: 7001 },
      { protocol: "udp", to: v4, port: 7003 },
      { protocol: "udp", to: v4, port: 6500 },
      { protocol: "udp", to: v4, port: 6501 },
      { protocol: "tcp", to: v4, port: 7002 },
      { protocol: "tcp", to: v6, port: 7002 },
      { protocol: "icmp", to: v4, port: 0 },
      { protocol: "icmp", to: v6, port: 0 },
      { protocol: "sctp", to: v4, port: 6001 },
    ]);
  });
  after(() => socket?.close());

  function toPort(port: number, protocol: "udp" | "tcp" = "udp", family: 4 | 6 = 4): ConntrackEntry {
    const found = listEntries(socket, { family, protocol, original: { destinationPort: port } });
    const [entry] = found;
    assert.ok(entry !== undefined && found.length === 1, `${found.length} entries`);
    return entry;
  }

  function labelled(): bigint {
    const listed = pair.near.exec("nft", ["list", "counter", "inet", "lab", "labelled"]);
    return BigInt(/packets (?<packets>\d+)/.exec(listed)?.groups?.["packets"] ?? assert.fail(listed));
  }

  it("a dump has the flows with both tuples, state and status", () => {
    const udp = toPort(6000);
    assert.deepEqual([udp.original.source, udp.original.destination], [pair.nearAddresses[0], pair.farAddresses[0]]);
    assert.deepEqual([udp.reply.source, udp.reply.destination], [pair.farAddresses[0], pair.nearAddresses[0]]);
    assert.deepEqual([udp.reply.sourcePort, udp.reply.destinationPort], [6000, udp.original.sourcePort]);
    assert.ok((udp.status & ConntrackStatus.SEEN_REPLY) !== 0 && (udp.status & ConntrackStatus.CONFIRMED) !== 0);
    assert.ok(udp.timeout !== undefined && udp.timeout > 0 && udp.timeout <= 180, `${udp.timeout} s`);
    assert.equal(udp.tcpState, undefined);
    const tcp = toPort(7002, "tcp", 6);
    assert.equal(tcp.family, 6);
    assert.equal(tcp.original.destination, pair.farAddresses[1]);
    assert.ok(
      ["time-wait", "close", "fin-wait", "last-ack", "close-wait"].includes(String(tcp.tcpState)),
      String(tcp.tcpState),
    );
    assert.equal(toPort(7003).mark, 0xab);
  });

  it("ICMP queries of both families and SCTP flows are read", () => {
    const [icmp] = listEntries(socket, { protocol: "icmp" });
    assert.deepEqual([icmp?.original.icmp?.type, icmp?.reply.icmp?.type, icmp?.original.sourcePort], [8, 0, undefined]);
    const [icmpv6] = listEntries(socket, { protocol: "icmpv6", original: { source: pair.nearAddresses[1] } });
    assert.deepEqual([icmpv6?.original.icmp?.type, icmpv6?.reply.icmp?.type], [128, 129]);
    const [sctp] = listEntries(socket, { protocol: "sctp", original: { destinationPort: 6001 } });
    assert.equal(sctp?.reply.sourcePort, 6001);
  });

  it("peekTuples and peekId return the same tuples and ID as parseEntry, in both families and without ports", () => {
    const seen = new Set<string>();
    for (const { body, ...rest } of socket.dump(dumpEntries())) {
      const { family, original, reply, id } = parseEntry({ ...rest, body });
      const plain = ({ source, destination, sourcePort, destinationPort }: ConntrackEntry["original"]) => ({
        source,
        destination,
        sourcePort,
        destinationPort,
      });
      assert.deepEqual(peekTuples(body), { family, original: plain(original), reply: plain(reply) });
      assert.deepEqual([peekId(body), peekId(body.subarray(0, 8))], [id, 0]);
      seen.add(`${String(original.protocol)} ${family}`);
      for (let length = 0; length < body.length; length++) {
        const cut = peekTuples(body.subarray(0, length));
        assert.ok(cut === undefined || cut.original.source === original.source, "a truncated tuple is not invented");
      }
    }
    for (const kind of ["udp 4", "udp 6", "tcp 4", "icmp 4", "icmpv6 6", "sctp 4"]) assert.ok(seen.has(kind), kind);
  });

  it("a list by any filter has the matching entries, and the kernel omits what it can", () => {
    const all = listEntries(socket);
    assert.ok(all.length >= 11, `${all.length} entries`);
    const { nearAddresses, farAddresses } = pair;
    const filters: readonly (readonly [expected: number | undefined, byKernel: boolean, filter: ConntrackFilter])[] = [
      [undefined, true, { family: 6 }],
      [undefined, true, { family: 4, protocol: "tcp" }],
      [1, true, { family: 6, protocol: "tcp", original: { destinationPort: 7002 } }],
      [undefined, true, { protocol: "udp", original: { source: nearAddresses[0] } }],
      [1, true, { protocol: "udp", original: { source: nearAddresses[0], destinationPort: 6000 } }],
      [undefined, true, { protocol: "udp", reply: { source: farAddresses[0] } }],
      [2, false, { original: { destinationPort: 6000 } }],
      [undefined, true, { status: { value: ConntrackStatus.ASSURED, mask: ConntrackStatus.ASSURED } }],
      [undefined, true, { family: 6, original: { source: nearAddresses[1] } }],
      // The answer to the flow in zone 5 is a separate flow outside of the zone.
      [1, true, { original: { source: farAddresses[0] } }],
    ];
    for (const [expected, byKernel, filter] of filters) {
      const ours = all.filter((entry) => matchesFilter(filter, entry)).map(({ id }) => id);
      const label = JSON.stringify(filter, (_key, value: unknown) => (typeof value === "bigint" ? `${value}` : value));
      const listed = new Set(socket.dump(dumpEntries(filter)).map((message) => parseEntry(message).id));
      assert.ok(
        ours.every((id) => listed.has(id)),
        label,
      );
      if (expected !== undefined) assert.equal(ours.length, expected, label);
      else assert.ok(ours.length > 0 && ours.length < all.length, label);
      if (byKernel) assert.ok(listed.size < all.length, `${label}: the kernel lists ${listed.size} of ${all.length}`);
    }
  });

  it("a label is cleared and set, as a `ct label` rule sees it, and an entry that is gone is reported", () => {
    const key = toPort(7001);
    assert.ok(hasLabel(key.labels, LABEL));
    const send = (): bigint => {
      const before = labelled();
      sendAgain(pair, key);
      return labelled() - before;
    };
    assert.equal(send(), 1n);
    const bit = labelBit(LABEL);
    assert.deepEqual(changeLabelsOf(socket, [{ key, change: { value: 0n, mask: bit } }]), ["done"]);
    assert.equal(hasLabel(toPort(7001).labels, LABEL), false);
    assert.equal(send(), 0n);
    const gone = { original: { ...key.original, destinationPort: 1 } };
    const change = { value: bit, mask: bit };
    assert.deepEqual(
      changeLabelsOf(
        socket,
        [gone, key, gone].map((one) => ({ key: one, change })),
      ),
      ["absent", "done", "absent"],
    );
    assert.equal(send(), 1n);
    assert.deepEqual(
      changeLabelsOf(socket, [{ key, change: { value: labelBit(3) | labelBit(70), mask: labelBit(3) } }]),
      ["done"],
    );
    assert.equal(toPort(7001).labels, bit | labelBit(3));
  });

  it("changeLabelsOf reports flows without room for labels", async () => {
    using bare = createLab("kernel-conntrack-bare");
    const other = trackedPair(
      bare,
      "table inet lab {\n chain out {\n type filter hook output priority 0\n ct state new\n }\n }",
    );
    await makeFlows(other, [{ protocol: "udp", to: other.farAddresses[0], port: 6000 }]);
    const conntrack = other.near.inside(() => openConntrackSocket(other.near.calls));
    const keys = listEntries(conntrack, { protocol: "udp" });
    const bit = labelBit(LABEL);
    assert.deepEqual(
      changeLabelsOf(
        conntrack,
        keys.map((key) => ({ key, change: { value: bit, mask: bit } })),
      ),
      ["no-labels"],
    );
    conntrack.close();
  });

  it("deleteEntries deletes exactly the named entries, and by ID no newer entry with the same tuple", () => {
    // Entries of earlier tests may end by themselves meanwhile.
    const other = toPort(6501);
    const key = toPort(6000);
    assert.deepEqual(deleteEntries(socket, [{ original: key.original, id: key.id ^ 1 }]), ["absent"]);
    assert.equal(toPort(6000).id, key.id);
    assert.deepEqual(deleteEntries(socket, [key, key]), ["done", "absent"]);
    const left = new Set(listEntries(socket).map(({ id }) => id));
    assert.deepEqual([left.has(key.id), left.has(other.id)], [false, true]);
  });

  it("deleteEntries deletes within a zone of both directions or of one", () => {
    for (const [port, zone, zoneDirection] of [
      [6500, 5, "both"],
      [6501, 6, "original"],
    ] as const) {
      const entry = toPort(port);
      assert.deepEqual([entry.zone, entry.zoneDirection], [zone, zoneDirection]);
      assert.deepEqual(deleteEntries(socket, [{ original: entry.original, id: entry.id }]), ["absent"]);
      assert.deepEqual(deleteEntries(socket, [entry]), ["done"]);
    }
  });
});

/** Sends one more packet of a UDP flow from the near end. It has passed the rules when this returns. */
function sendAgain({ near }: TrackedPair, { original }: ConntrackEntry): void {
  const socket = ProbeSocket.open(near, familyOf(original.source), SocketType.DATAGRAM);
  try {
    socket.bind({ address: original.source, port: original.sourcePort ?? 0 });
    const sent = socket.sendTo(Uint8Array.of(1), {
      address: original.destination,
      port: original.destinationPort ?? 0,
    });
    assert.equal(sent, 1);
  } finally {
    socket.close();
  }
}
