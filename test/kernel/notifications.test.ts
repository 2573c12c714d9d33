import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { type FlowEvent, parseFlowEvent } from "../../kernel/conntrack/flow_event.ts";
import { deleteEntries, openConntrackSocket } from "../../kernel/conntrack/table.ts";
import { listEntries } from "../support/list_entries.ts";
import type { KernelNotifications } from "../../kernel/notifications/notifications.ts";
import { parseMac } from "../../kernel/ip/mac.ts";
import { protocolNumber } from "../../kernel/ip/protocol.ts";
import { messageType, Subsystem } from "../../kernel/netlink/netfilter_message.ts";
import type { ReceivedMessage, Request } from "../../kernel/netlink/message.ts";
import { parseLoggedPacket } from "../../kernel/packets/logged_packet.ts";
import { parseNotification } from "../../kernel/nftables/decode/notification.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import { changeLink, createVeth, deleteLink, parseLink } from "../../kernel/route/link.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { suiteLab } from "../support/suite_lab.ts";
import { EventRecorder } from "./event_recorder.ts";
import { makeFlows, type TrackedPair, trackedPair } from "./tracked_pair.ts";

const RULESET = `
table inet lab {
  chain out {
    type filter hook output priority 0;
    ct state new
    meta l4proto udp th dport 6200 log group 21 prefix "out-6200"
    meta l4proto udp th dport 6300 log group 22
  }
}`;
const RTM_NEWLINK = 16;
const mac = parseMac("0a:58:0a:f4:01:01");

describe("kernel/notifications", () => {
  let lab: Lab | undefined;
  let pair: TrackedPair;
  const started: KernelNotifications[] = [];

  before(function () {
    lab = suiteLab(this, "kernel-events");
    pair = trackedPair(lab, RULESET);
  });
  afterEach(async () => {
    for (const events of started.splice(0)) await events.stop();
  });

  function startIn(namespace: LabNamespace): KernelNotifications {
    const events = namespace.notifications();
    started.push(events);
    return events;
  }

  function veth(name: string, namespace: LabNamespace): Request {
    return createVeth({
      host: { name, mac },
      peer: { name: `${name}p`, mac, netnsFd: namespace.handle.fd },
      mtu: 0,
      master: 0,
    });
  }

  function descriptors(): number {
    return readdirSync("/proc/self/fd").length;
  }

  it("the end of an entry that was made without a listener is not reported", async () => {
    // First of all tests: a listener of another one may close a moment after its thread has ended. This is the default of kernels from 5.19 on; older kernels only have on and off.
    pair.near.writeSysctl("net/netfilter/nf_conntrack_events", "2");
    const flow = (port: number) => ({ protocol: "udp", to: pair.farAddresses[0], port }) as const;
    await makeFlows(pair, [flow(6110)]);
    const recorder = new EventRecorder();
    await startIn(pair.near).subscribe({ kind: "conntrack", events: ["destroy"] }, recorder);
    await makeFlows(pair, [flow(6111)]);
    const conntrack = pair.near.inside(() => openConntrackSocket(pair.near.calls));
    for (const port of [6110, 6111]) {
      deleteEntries(conntrack, listEntries(conntrack, { protocol: "udp", original: { destinationPort: port } }));
    }
    conntrack.close();
    await recorder.until(() => recorder.messages.length > 0);
    const ports = recorder.messages.map((message) => parseFlowEvent(message)?.port);
    assert.deepEqual(ports, [6111]);
  });

  it("new and ended connections are reported, of the namespace for which the thread was started", async () => {
    const recorder = new EventRecorder();
    await startIn(pair.near).subscribe({ kind: "conntrack", events: ["new", "destroy"] }, recorder);
    const events = (kind: FlowEvent["kind"]): readonly FlowEvent[] =>
      recorder.messages
        .map(parseFlowEvent)
        .filter((event) => event !== undefined)
        .filter((event) => event.kind === kind && event.protocol === protocolNumber("udp"));
    await makeFlows(pair, [{ protocol: "udp", to: pair.farAddresses[0], port: 6100 }]);
    await makeFlows(pair, [{ protocol: "udp", to: pair.farAddresses[1], port: 6101 }]);
    await recorder.until(() => events("begun").length >= 2);
    assert.deepEqual(
      events("begun").map(({ server, port }) => [server, port]),
      [
        [pair.farAddresses[0], 6100],
        [pair.farAddresses[1], 6101],
      ],
    );
    const conntrack = pair.near.inside(() => openConntrackSocket(pair.near.calls));
    assert.deepEqual(deleteEntries(conntrack, listEntries(conntrack, { protocol: "udp" })), ["done", "done"]);
    conntrack.close();
    await recorder.until(() => events("ended").length >= 2);
    assert.deepEqual(
      new Set(events("ended").map(({ id, port }) => `${id} ${port}`)),
      new Set(events("begun").map(({ id, port }) => `${id} ${port}`)),
    );
    assert.equal(recorder.overruns, 0);
  });

  it("events of links and of nftables reach their subscribers until these close", async () => {
    const events = startIn(pair.near);
    const [links, rules] = [new EventRecorder(), new EventRecorder()];
    const subscription = await events.subscribe({ kind: "route", groups: ["link"] }, links);
    await events.subscribe({ kind: "nftables" }, rules);
    pair.near.route.request(veth("seen0", pair.far));
    pair.near.exec("nft", ["add", "table", "inet", "seen"]);
    await links.until(() =>
      links.messages.some((message) => message.type === RTM_NEWLINK && parseLink(message).name === "seen0"),
    );
    const newTable = messageType(Subsystem.NFTABLES, 0);
    await rules.until(() => rules.messages.some(({ type }) => type === newTable));
    assert.ok(rules.messages.every(({ type }) => type >>> 8 === Subsystem.NFTABLES));
    assert.ok(links.messages.every(({ type }) => type >>> 8 === 0));
    subscription.close();
    const reported = links.reported.length;
    pair.near.route.request(deleteLink({ name: "seen0" }));
    const before = rules.reported.length;
    pair.near.exec("nft", ["delete", "table", "inet", "seen"]);
    await rules.until(() => rules.reported.length > before);
    assert.equal(links.reported.length, reported);
  });

  it("DP-08: a subscription is not notified of a commit while it is deaf, and is notified of later ones", async () => {
    const rules = new EventRecorder();
    const subscription = await startIn(pair.near).subscribe({ kind: "nftables" }, rules);
    const add = (name: string): string => pair.near.exec("nft", ["add", "table", "inet", name]);
    subscription.deafFor(() => add("unheard"));
    add("heard");
    const newTable = messageType(Subsystem.NFTABLES, 0);
    await rules.until(() => rules.messages.some(({ type }) => type === newTable));
    const names = rules.messages.flatMap((message) => {
      const read = parseNotification(message);
      return read?.kind === "change" ? [read.table.name] : [];
    });
    assert.deepEqual([names, rules.overruns], [["heard"], 0]);
  });

  it("a slow listener gets an overrun, and after it only later events", async () => {
    const recorder = new EventRecorder();
    const rename = (alias: string): Request => changeLink({ name: "cable" }, { alias });
    const isOf = (item: ReceivedMessage | "overrun", alias: string): boolean =>
      item !== "overrun" && item.type === RTM_NEWLINK && parseLink(item).alias === alias;
    const source = { kind: "route", groups: ["link"], receiveBufferBytes: 16 * 1024 } as const;
    await startIn(pair.near).subscribe(source, recorder);
    // The event loop is blocked meanwhile, so nothing is read.
    for (let i = 0; i < 500; i++) pair.near.route.request(rename("flood"));
    await recorder.until(() => recorder.overruns > 0);
    // Another overrun may be pending and lose a change, which it reports.
    for (let i = 0, overruns = 0; overruns < recorder.overruns; i++) {
      overruns = recorder.overruns;
      pair.near.route.request(rename(`later${i}`));
      await recorder.until(
        () => overruns < recorder.overruns || recorder.reported.some((item) => isOf(item, `later${i}`)),
      );
    }
    const flood = recorder.reported.filter((item) => isOf(item, "flood")).length;
    assert.ok(flood < 500, `${flood} events were reported`);
    const last = recorder.reported.lastIndexOf("overrun");
    assert.ok(
      !recorder.reported.slice(last).some((item) => isOf(item, "flood")),
      "an event from before the overrun was reported after it",
    );
  });

  it("logged packets have their prefix and their parsed headers", async () => {
    const recorder = new EventRecorder();
    const group = { kind: "nflog", group: 21, copyBytes: 96, queueThreshold: 1, queueMilliseconds: 0 } as const;
    await startIn(pair.near).subscribe(group, recorder);
    await makeFlows(
      pair,
      pair.farAddresses.map((to) => ({ protocol: "udp", to, port: 6200 })),
    );
    await recorder.until(() => recorder.messages.length >= 2);
    const packets = recorder.messages.map(parseLoggedPacket);
    assert.deepEqual(packets[0]?.payload.length, 44);
    for (const [i, packet] of packets.entries()) {
      assert.ok(packet?.ip?.sourcePort !== undefined);
      assert.equal(packet.prefix, "out-6200");
      assert.deepEqual(packet.ip, {
        family: i === 0 ? 4 : 6,
        source: pair.nearAddresses[i],
        destination: pair.farAddresses[i],
        protocol: "udp",
        sourcePort: packet.ip.sourcePort,
        destinationPort: 6200,
        upperOffset: i === 0 ? 20 : 40,
        isLaterFragment: false,
      });
    }
  });

  it("logged packets are cut to the group's copy length, and several are read from one datagram", async () => {
    const cut = new EventRecorder();
    const group = { kind: "nflog", group: 22, copyBytes: 24, queueThreshold: 3, queueMilliseconds: 60_000 } as const;
    await startIn(pair.near).subscribe(group, cut);
    const flow = { protocol: "udp", to: pair.farAddresses[0], port: 6300 } as const;
    await makeFlows(pair, [flow]);
    await makeFlows(pair, [flow]);
    assert.equal(cut.reported.length, 0);
    await makeFlows(pair, [flow]);
    await cut.until(() => cut.messages.length >= 3);
    const seen = cut.messages
      .map(parseLoggedPacket)
      .map((packet) => [packet?.payload.length, packet?.ip?.destinationPort]);
    assert.deepEqual(
      seen,
      [1, 2, 3].map(() => [24, 6300]),
    );
  });

  it("a source that cannot be opened is refused, and the thread goes on", async () => {
    const events = startIn(pair.near);
    const group = { kind: "nflog", group: 7, copyBytes: 64, queueThreshold: 1, queueMilliseconds: 0 } as const;
    const other = await events.subscribe(group, new EventRecorder());
    await assert.rejects(events.subscribe(group, new EventRecorder()), {
      code: "ERR_NETLINK",
      message: "bind log group 7: operation not permitted (EPERM)",
    });
    await assert.rejects(events.subscribe({ ...group, group: 0x1_0000 }, new EventRecorder()), {
      code: "ERR_CONFIGURATION",
    });
    other.close();
    await events.subscribe(group, new EventRecorder());
  });

  it("DP-08: our own commits wake no listener, and those of others are reported", async () => {
    const portId = 2 ** 30 + 77;
    let reads = 0;
    const calls: typeof pair.near.calls = {
      ...pair.near.calls,
      receiveFrom: (...given) => {
        reads++;
        return pair.near.calls.receiveFrom(...given);
      },
    };
    const events = pair.near.notifications(calls);
    started.push(events);
    const recorder = new EventRecorder();
    await events.subscribe({ kind: "nftables", exceptPortId: portId }, recorder);
    const [own, other] = pair.near.inside(() => [
      new NftablesSocket(pair.near.calls, portId),
      new NftablesSocket(pair.near.calls, portId + 1),
    ]);
    const table = { family: "inet", name: "watched" } as const;
    const before = reads;
    for (let i = 0; i < 20; i++) {
      own.commit([{ kind: "add table", table }]);
      own.commit([{ kind: "delete table", table }]);
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
    assert.deepEqual([reads - before, recorder.reported.length], [0, 0]);
    other.commit([{ kind: "add table", table }]);
    await recorder.until(() => recorder.messages.length >= 2);
    const kinds = recorder.messages.map((message) => parseNotification(message)?.kind);
    assert.deepEqual(kinds, ["change", "generation"]);
    other.commit([{ kind: "delete table", table }]);
    for (const socket of [own, other]) socket.close();
  });

  it("subscribers get the error when the thread ends, and later subscriptions are refused", async () => {
    const calls = { ...pair.near.calls, eventfd: () => 1_000_000 };
    const events = pair.near.notifications(calls);
    const recorder = new EventRecorder();
    const subscribed = events.subscribe({ kind: "nftables" }, recorder).then(
      () => recorder.until(() => recorder.failure !== undefined).then(() => recorder.failure?.message),
      (error: unknown) => (error instanceof Error ? error.message : undefined),
    );
    assert.match((await subscribed) ?? "", /read the event reader's eventfd: EBADF/);
    await events.stop();
    await assert.rejects(events.subscribe({ kind: "nftables" }, recorder), { message: /the event thread has ended/ });
  });

  it("a process that exits without a stop does not wait for the thread", async () => {
    const modules = ["notifications/thread.ts", "syscall/koffi.ts"].map(
      (name) => new URL(`../../kernel/${name}`, import.meta.url),
    );
    const script = `
      const [{ startNotificationThread }, { nodeSyscalls }] = await Promise.all(${JSON.stringify(modules)}.map((url) => import(url)));
      startNotificationThread(nodeSyscalls());
      setTimeout(() => process.exit(7), 200);`;
    const child = spawn(process.execPath, ["--input-type=module", "--eval", script], { stdio: "ignore" });
    const patience = setTimeout(() => child.kill("SIGKILL"), 8000);
    await once(child, "exit");
    clearTimeout(patience);
    assert.equal(child.exitCode, 7);
  });

  it("stop ends the thread at once, closes its sockets and refuses later subscriptions", async () => {
    const events = startIn(pair.near);
    const recorder = new EventRecorder();
    const group = { kind: "nflog", group: 8, copyBytes: 64, queueThreshold: 1, queueMilliseconds: 0 } as const;
    await events.subscribe(group, recorder);
    await events.stop();
    await assert.rejects(events.subscribe(group, recorder), { code: "ERR_SYSCALL" });
    const open = descriptors();
    const again = startIn(pair.near);
    await again.subscribe(group, recorder);
    assert.ok(descriptors() > open);
    await again.stop();
    assert.equal(descriptors(), open);
    assert.equal(recorder.failure, undefined);
    await events.stop();
  });
});
