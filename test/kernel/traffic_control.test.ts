import assert from "node:assert/strict";
import { parseMac } from "../../kernel/ip/mac.ts";
import { NetlinkError } from "../../kernel/netlink/error.ts";
import type { Request } from "../../kernel/netlink/message.ts";
import { changeLink, createVeth, deleteLink } from "../../kernel/route/link.ts";
import { findLink } from "../../kernel/route/socket.ts";
import { createDelayDevice, isDelayDevice, removeDelayDevice } from "../../kernel/traffic_control/delay_device.ts";
import {
  addClassifiers,
  deleteClassifiers,
  setTokenBucket,
  type TokenBucket,
} from "../../kernel/traffic_control/queueing_discipline.ts";
import { redirectReceived } from "../../kernel/traffic_control/redirect.ts";
import type { Lab } from "../lab/lab.ts";
import { type LabNamespace, requestAll } from "../lab/namespace.ts";
import { suiteLab } from "../support/suite_lab.ts";
import { inner, iproute, pick, type Printed } from "./iproute.ts";

const AF_PACKET = 17;
const SOCK_RAW = 3;
const device = { name: "dbi0", mac: parseMac("be:00:00:00:00:01") };
const bucket: TokenBucket = { rate: 2_500_000, burst: 250_000, limit: 125_000 };

describe("kernel/traffic_control", () => {
  let lab: Lab | undefined;
  let node: LabNamespace;
  let pod: LabNamespace;
  let host = 0;

  before(function () {
    lab = suiteLab(this, "kernel-tc");
    node = lab.namespace("node");
    pod = lab.namespace("pod");
  });
  beforeEach(() => {
    const ends = { name: "dbv0", mac: parseMac("ae:00:00:00:00:01") };
    const peer = { name: "eth0", mac: parseMac("0a:58:0a:f4:01:07"), netnsFd: pod.handle.fd };
    const master = 0;
    node.route.request(createVeth({ host: ends, peer, mtu: 1500, master }));
    // The ends are quiet, so only what a test sends is counted.
    for (const [namespace, name] of [
      [node, "dbv0"],
      [pod, "eth0"],
    ] as const) {
      requestAll(namespace.route, [
        changeLink({ name }, { linkLocalAddress: false }),
        changeLink({ name }, { up: true }),
      ]);
    }
    host = node.link("dbv0").index;
  });
  afterEach(() => {
    for (const { name, index } of node?.links() ?? []) if (name !== "lo") node.route.batch([deleteLink({ index })]);
  });

  function makeDevice(): number {
    requestAll(node.route, [
      createDelayDevice(device, 1500),
      changeLink({ name: device.name }, { linkLocalAddress: false }),
      changeLink({ name: device.name }, { up: true }),
    ]);
    return node.link(device.name).index;
  }

  function refusal(request: Request): string {
    const [reply] = node.route.batch([request]);
    assert.ok(reply?.error instanceof NetlinkError, request.operation);
    return reply.error.errnoName;
  }

  function printedRoot(name: string): Printed {
    const printed = iproute(node, "tc", `qdisc show dev ${name}`).find(({ root }) => root === true);
    assert.ok(printed !== undefined);
    return printed;
  }

  /** Sends frames unchanged from the pod's end. @returns the number of them that a link of the node has sent */
  function countOf(name: string, frames: readonly Uint8Array[]): number {
    const before = sentBy(name);
    const { calls } = pod;
    const fd = pod.inside(() => calls.socket(AF_PACKET, SOCK_RAW, 0));
    assert.ok(fd >= 0);
    try {
      // In struct sockaddr_ll only family, protocol and index are read when sending.
      const to = new Uint8Array(20);
      new DataView(to.buffer).setUint16(0, AF_PACKET, true);
      new DataView(to.buffer).setInt32(4, pod.link("eth0").index, true);
      for (const frame of frames) assert.equal(calls.sendTo(fd, frame, 0, to), frame.length);
    } finally {
      calls.close(fd);
    }
    return sentBy(name) - before;
  }

  function sentBy(name: string): number {
    const [printed] = iproute(node, "tc", `-s qdisc show dev ${name}`).filter(({ root }) => root === true);
    return Number(printed?.["packets"]);
  }

  it("a token bucket is set as tc reads it, and replaced", () => {
    for (const wanted of [bucket, { rate: 125_000, burst: 12_500, limit: 12_000 }, { ...bucket, rate: 25_000_000 }]) {
      node.route.request(setTokenBucket(host, wanted));
      const printed = printedRoot("dbv0");
      assert.equal(printed["kind"], "tbf");
      const { rate, burst, limit } = inner(printed, "options");
      assert.deepEqual([rate, limit], [wanted.rate, wanted.limit]);
      // tc prints "250000b/1".
      assert.ok(Math.abs(Number.parseInt(String(burst), 10) - wanted.burst) <= 2, String(burst));
    }
    node.exec("tc", ["qdisc", "del", "dev", "dbv0", "root"]);
    assert.equal(printedRoot("dbv0")["kind"], "noqueue");
  });

  it("a token bucket that the kernel would change is refused", () => {
    for (const wrong of [0, -1, 1.5, Number.NaN, 2 ** 32]) {
      assert.throws(() => setTokenBucket(host, { ...bucket, burst: wrong }), RangeError);
      assert.throws(() => setTokenBucket(host, { ...bucket, limit: wrong }), RangeError);
    }
    for (const wrong of [0, -1, 1.5, 2 ** 53])
      assert.throws(() => setTokenBucket(host, { ...bucket, rate: wrong }), RangeError);
    assert.equal(refusal(setTokenBucket(9999, bucket)), "ENODEV");
  });

  it("all that a link receives is redirected, and tc sees a classifier without keys", () => {
    const target = makeDevice();
    requestAll(node.route, [addClassifiers(host), redirectReceived(host, target)]);
    assert.equal(refusal(addClassifiers(host)), "EEXIST");
    const filters = iproute(node, "tc", "filter show dev dbv0 ingress");
    const [filter] = filters.filter((printed) => inner(printed, "options")["fh"] === "800::800");
    assert.ok(filter !== undefined, JSON.stringify(filters));
    assert.deepEqual(pick(filter, "protocol", "kind"), { protocol: "all", kind: "u32" });
    assert.match(
      JSON.stringify(inner(filter, "options")["actions"]),
      /^\[{"order":1,"kind":"mirred","mirred_action":"redirect","direction":"egress","to_dev":"dbi0",[^[]*}\]$/,
    );
    node.route.request(deleteClassifiers(host));
    assert.deepEqual(iproute(node, "tc", "filter show dev dbv0 ingress"), []);
  });

  it("every frame passes the delay device, also one too short to be a packet, tagged or without a protocol (W1)", () => {
    const target = makeDevice();
    requestAll(node.route, [setTokenBucket(target, bucket), addClassifiers(host), redirectReceived(host, target)]);
    const types = [0x0800, 0x86dd, 0x0806, 0x0000, 0x0003, 0xffff];
    const lengths = [14, 15, 17, 18, 33, 60, 1514];
    const frames = [
      ...types.flatMap((type) => lengths.map((length) => frameOf(type, length))),
      // A shorter frame with a tag is dropped earlier (skb_vlan_untag).
      ...[0x8100, 0x88a8].flatMap((type) => [20, 21, 60, 1514].map((length) => frameOf(type, length))),
    ];
    assert.equal(countOf(device.name, frames), frames.length);
  });

  it("a delay device is recognized by kind, name and MAC address, and no other is removed (B2)", () => {
    makeDevice();
    const made = node.link(device.name);
    assert.ok(isDelayDevice(made, device));
    assert.equal(refusal(createDelayDevice(device, 1500)), "EEXIST");
    removeDelayDevice(node.route, device);
    assert.equal(findLink(node.route, { name: device.name }), undefined);
    removeDelayDevice(node.route, device);
    const others = [
      ["address", device.mac, "type", "bridge"],
      ["address", "be:00:00:00:00:02", "type", "ifb"],
      ["type", "ifb"],
    ];
    for (const other of others) {
      node.exec("ip", ["link", "add", device.name, ...other]);
      const link = node.link(device.name);
      removeDelayDevice(node.route, device);
      assert.equal(findLink(node.route, { name: device.name })?.index, link.index, other.join(" "));
      node.route.request(deleteLink({ index: link.index }));
    }
  });
});

function frameOf(type: number, length: number): Uint8Array {
  const frame = new Uint8Array(length);
  frame.set([0xae, 0, 0, 0, 0, 1, 0x0a, 0x58, 0x0a, 0xf4, 1, 7]);
  new DataView(frame.buffer).setUint16(12, type);
  return frame;
}
