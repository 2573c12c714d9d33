import assert from "node:assert/strict";
import { assembleBpf } from "../../kernel/bpf/instruction.ts";
import { attachOwnProgram, hasOwnProgram, type OwnProgram, removeOwnProgram } from "../../kernel/bpf/own_program.ts";
import { PORT_PROGRAM, putPort } from "../../kernel/bpf/port_table.ts";
import { type Address, type Family, parseAddress, FAMILIES } from "../../kernel/ip/address.ts";
import type { Request } from "../../kernel/netlink/message.ts";
import { endBypass } from "../../policyd/attachments/bypass_end.ts";
import { type MacAddress, parseMac } from "../../kernel/ip/mac.ts";
import { setPortEntry } from "../../kernel/route/forwarding_entry.ts";
import { changeLink, createBridge, createVeth, deleteLink } from "../../kernel/route/link.ts";
import { addClassifiers } from "../../kernel/traffic_control/queueing_discipline.ts";
import { receiveAtBridge } from "../../kernel/traffic_control/redirect.ts";
import type { Lab, LabPod } from "../lab/lab.ts";
import { type LabNamespace, requestAll } from "../lab/namespace.ts";
import { encodeArp, encodeFrame, encodeIp, encodeUdp, EtherType, type Frame } from "../lab/probe/frame.ts";
import { FrameSocket } from "../lab/probe/frame_socket.ts";
import { eventually } from "../support/guard/guarded_node.ts";
import { carries, newToken } from "../support/guard/token.ts";
import { suiteLab } from "../support/suite_lab.ts";
import { inner, iproute } from "./iproute.ts";

/** A program of somebody else, which lets everything pass to the next one. */
const TO_THE_NEXT = [{ do: "set", to: 0, value: -1 }, { do: "exit" }] as const;
const OTHER: OwnProgram = {
  name: "another",
  licence: "Apache-2.0",
  place: { ...PORT_PROGRAM.place, handle: 1 },
};

const BRIDGE_MAC = parseMac("ce:00:00:00:00:01");
const GATEWAY = { 4: parseAddress("10.244.1.1"), 6: parseAddress("fd00:244:1::1") } as const;

/** A pod, made from the last number of its addresses, and its port. */
interface Party {
  readonly name: string;
  readonly hostMac: MacAddress;
  readonly mac: MacAddress;
  readonly addresses: Readonly<Record<Family, Address>>;
}

function party(last: number): Party {
  const hex = last.toString(16).padStart(2, "0");
  return {
    name: `dbv${last}`,
    hostMac: parseMac(`ae:00:00:00:00:${hex}`),
    mac: parseMac(`0a:58:0a:f4:01:${hex}`),
    addresses: { 4: parseAddress(`10.244.1.${last}`), 6: parseAddress(`fd00:244:1::${last}`) },
  };
}

const first = party(2);
const second = party(3);

describe("kernel: packets around a bridge", () => {
  let lab: Lab | undefined;
  let node: LabNamespace;
  let bridge = 0;
  const pods = new Map<Party, LabPod>();

  before(function () {
    lab = suiteLab(this, "kernel-bypass");
    node = lab.namespace("node");
    node.route.request(createBridge({ name: "cni0", mac: BRIDGE_MAC }));
    requestAll(node.route, [
      changeLink({ name: "cni0" }, { linkLocalAddress: false }),
      changeLink({ name: "cni0" }, { up: true }),
    ]);
    bridge = node.link("cni0").index;
    for (const one of [first, second]) {
      const pod = lab.pod(`pod-${one.name}`);
      pods.set(one, pod);
      wire(one, pod);
    }
  });

  function wire({ name, hostMac, mac }: Party, pod: LabPod): number {
    const peer = { name: "eth0", mac, netnsFd: pod.handle.fd };
    node.route.request(createVeth({ host: { name, mac: hostMac }, peer, mtu: 1500, master: bridge }));
    for (const [namespace, link] of [
      [node, name],
      [pod, "eth0"],
    ] as const) {
      requestAll(namespace.route, [
        changeLink({ name: link }, { linkLocalAddress: false }),
        changeLink({ name: link }, { up: true }),
      ]);
    }
    const port = node.link(name).index;
    node.route.request(setPortEntry(port, mac));
    return port;
  }

  const podOf = (one: Party): LabPod => {
    const pod = pods.get(one);
    assert.ok(pod !== undefined);
    return pod;
  };

  function send(from: LabNamespace, link: string, frame: Uint8Array): void {
    using socket = new FrameSocket(from, link);
    socket.send(frame);
  }

  /** Returns the number of packets that the filters of a port have redirected. */
  function takenUp(name: string): number {
    const filters = iproute(node, "tc", `-s filter show dev ${name} ingress`);
    const actions = filters.flatMap((filter) => inner(filter, "options")["actions"] ?? []);
    return [...JSON.stringify(actions).matchAll(/"packets":(\d+)/g)].reduce((sum, [, count]) => sum + Number(count), 0);
  }

  const datagram = (family: 4 | 6, from = first): ReturnType<typeof encodeIp> =>
    encodeIp(encodeUdp(from.addresses[family], GATEWAY[family], 9, new Uint8Array(8)));

  it("BYPASS-01: only a pod's own packets to its port are received by the bridge at once", async () => {
    const port = node.link(first.name).index;
    requestAll(node.route, [
      addClassifiers(port),
      ...FAMILIES.map((family) =>
        receiveAtBridge(port, bridge, {
          source: first.mac,
          destination: first.hostMac,
          address: first.addresses[family],
        }),
      ),
    ]);
    const right = { from: first.mac, to: first.hostMac } as const;
    const arp = encodeArp({
      operation: "request",
      senderMac: first.mac,
      sender: first.addresses[4],
      targetMac: BRIDGE_MAC,
      target: GATEWAY[4],
    });
    using pod = new FrameSocket(podOf(first), "eth0");
    using received = new FrameSocket(node, "cni0");
    let before = takenUp(first.name);
    /** Sends a frame, and then a right one. @returns the number of frames redirected before the right one */
    const counted = async (frame: Frame): Promise<number> => {
      const fence = newToken();
      pod.send(encodeFrame(frame));
      pod.send(encodeFrame({ ...right, ...encodeIp(encodeUdp(first.addresses[4], GATEWAY[4], 9, fence)) }));
      assert.ok(await eventually(() => received.received().some((one) => carries(one, fence))), "the right frame");
      const after = takenUp(first.name);
      const more = after - before - 1;
      before = after;
      return more;
    };
    for (const family of FAMILIES) {
      const own = { ...right, ...datagram(family) };
      assert.equal(await counted(own), 1, `IPv${family}`);
      assert.equal(
        await counted({ ...right, ...datagram(family, second) }),
        0,
        `IPv${family} from another pod's address`,
      );
      assert.equal(await counted({ ...own, from: second.mac }), 0, "another pod's MAC address");
      assert.equal(await counted({ ...own, to: BRIDGE_MAC }), 0, "to the bridge");
      assert.equal(await counted({ ...own, to: second.hostMac }), 0, "to another port");
      assert.equal(await counted({ ...own, tags: [{ type: EtherType.VLAN, id: 0 }] }), 0, "with a tag");
      assert.equal(await counted({ ...own, tags: [{ type: EtherType.VLAN, id: 5 }] }), 0, "of another VLAN");
    }
    assert.equal(await counted({ ...right, ...arp }), 0, "ARP");
  });

  it("GUARD-01: a port that no longer bypasses the bridge is handled by the bridge again, and a foreign port is not touched", () => {
    const port = node.link(first.name);
    const classifiers = (): string => node.exec("tc", ["qdisc", "show", "dev", first.name, "clsact"]);
    const links = { batch: (requests: readonly Request[]) => node.route.batch(requests) };
    node.route.batch([addClassifiers(port.index)]);
    endBypass({ hostInterface: first.name, hostMac: second.hostMac }, links);
    assert.match(classifiers(), /clsact/);
    endBypass({ hostInterface: first.name, hostMac: first.hostMac }, links);
    assert.equal(classifiers(), "");
    endBypass({ hostInterface: first.name, hostMac: first.hostMac }, links);
    endBypass({ hostInterface: "dbv9", hostMac: first.hostMac }, links);
  });

  const put = (at: number, mac: MacAddress, port: number): boolean =>
    node.inside(() => putPort(node.programs, at, mac, port));

  /** Returns the ports at which pods get a frame that the bridge sends. */
  async function receivers(to: MacAddress): Promise<readonly string[]> {
    const token = newToken();
    const ends = [first, second].map((one) => ({ name: one.name, socket: new FrameSocket(podOf(one), "eth0") }));
    try {
      const packet = encodeUdp(GATEWAY[4], first.addresses[4], 9, token);
      send(node, "cni0", encodeFrame({ from: BRIDGE_MAC, to, ...encodeIp(packet) }));
      const found = new Set<string>();
      const hasFound = (): boolean => {
        for (const { name, socket } of ends)
          if (socket.received().some((frame) => carries(frame, token))) found.add(name);
        return found.size > 0;
      };
      assert.ok(await eventually(hasFound), `a frame to ${to} arrives at a port`);
      hasFound();
      return [...found].toSorted();
    } finally {
      for (const { socket } of ends) socket.close();
    }
  }

  it("BYPASS-01: a bridge sends to a MAC address by the port in its table, and otherwise by its own learning", async () => {
    const [one, other] = [first, second].map(({ name }) => node.link(name).index);
    assert.ok(one !== undefined && other !== undefined);
    assert.deepEqual(await receivers(first.mac), [first.name]);
    assert.ok(put(bridge, first.mac, other));
    assert.deepEqual(await receivers(first.mac), [second.name], "the table decides, not what the bridge has learned");
    assert.deepEqual(await receivers(second.mac), [second.name]);
    assert.deepEqual(
      await receivers(parseMac("02:00:00:00:00:99")),
      [first.name, second.name],
      "a frame to an unknown address goes to all ports",
    );
  });

  // Only 12 bits of the last two bytes count, in which f1:02 and 01:02 are equal.
  for (const alike of [parseMac("0a:58:0a:f4:f1:02"), parseMac("0a:58:0b:f4:01:02")]) {
    it(`BYPASS-03: of MAC addresses with equal low bits the last one is in the table, and the bridge finds the other: ${alike}`, async () => {
      const [one, other] = [first, second].map(({ name }) => node.link(name).index);
      assert.ok(one !== undefined && other !== undefined);
      node.route.request(setPortEntry(other, alike));
      put(bridge, first.mac, one);
      put(bridge, alike, other);
      assert.deepEqual(await receivers(first.mac), [first.name]);
      assert.deepEqual(await receivers(alike), [second.name]);
    });
  }

  it("BYPASS-03: a port that was removed is replaced by the next one with its MAC address", async () => {
    put(bridge, first.mac, node.link(first.name).index);
    node.route.request(deleteLink({ name: first.name }));
    const again = wire(first, podOf(first));
    assert.deepEqual(await receivers(first.mac), [first.name], "the bridge finds the port by itself");
    put(bridge, first.mac, again);
    assert.deepEqual(await receivers(first.mac), [first.name]);
  });

  it("BYPASS-03: removeOwnProgram removes our table from a bridge, and keeps programs of others", async () => {
    assert.ok(attachOwnProgram(node.programs, OTHER, assembleBpf(TO_THE_NEXT), bridge));
    const has = (program: OwnProgram): boolean => hasOwnProgram(node.programs, program, bridge);
    put(bridge, first.mac, node.link(second.name).index);
    assert.deepEqual([has(PORT_PROGRAM), has(OTHER)], [true, true]);
    removeOwnProgram(node.programs, PORT_PROGRAM, bridge);
    assert.deepEqual([has(PORT_PROGRAM), has(OTHER)], [false, true]);
    assert.deepEqual(await receivers(first.mac), [first.name]);
    removeOwnProgram(node.programs, PORT_PROGRAM, bridge);
    assert.ok(put(bridge, first.mac, node.link(first.name).index));
    assert.equal(has(PORT_PROGRAM), true);
  });

  it("BYPASS-03: the table of ports exists as long as the bridge", () => {
    node.route.request(createBridge({ name: "br1", mac: parseMac("ce:00:00:00:00:02") }));
    const index = node.link("br1").index;
    const port = node.link(first.name).index;
    assert.ok(put(index, first.mac, port));
    node.route.request(deleteLink({ name: "br1" }));
    assert.equal(put(index, first.mac, port), false, "no such link");
  });
});
