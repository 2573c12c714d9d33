import assert from "node:assert/strict";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { parseAddress, FAMILIES, type Address, addressFromBytes, formatAddress } from "../../../kernel/ip/address.ts";
import { add } from "../../lab/cni.ts";
import { enableForwarding, type Lab, type LabPod } from "../../lab/lab.ts";
import { type Flow, Prober } from "../../lab/probe/prober.ts";
import type { WiredNode } from "../../lab/topology.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { suiteLab } from "../../support/suite_lab.ts";
import { nodeObject, nodeOf } from "../../support/routes/route_lab.ts";
import { littleEndian } from "../../../kernel/byte_order.ts";
import { OpenFlag } from "../../../kernel/syscall/file_calls.ts";
import { check } from "../../../kernel/syscall/syscalls.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { until } from "../../support/until.ts";
import { listOf } from "../../support/services/manifest.ts";

/** TUNSETIFF, IFF_TUN and IFF_NO_PI (include/uapi/linux/if_tun.h); struct ifreq has 40 bytes. */
const TUNSETIFF = 0x400454ca;
const IFF_TUN = 0x0001;
const IFF_NO_PI = 0x1000;
const IFREQ_SIZE = 40;
const LARGEST_PACKET = 65_536;
/** The largest number of packets that are carried in one turn; the others wait in the device. */
const MOST_AT_ONCE = 200;

/** One end of a pair. */
interface TunEnd {
  readonly namespace: LabNamespace;
  /** The addresses of the end, with their prefix lengths. */
  readonly addresses: readonly string[];
  /** The addresses that the other end accepts from this one, and sends to it: WireGuard's AllowedIPs. */
  readonly allowed: readonly Address[];
}

/**
 * Two TUN devices between which this process carries packets. It drops packets whose inner addresses are not allowed,
 * as WireGuard does: such a link has no MAC addresses and reads only the packet.
 */
class TunPair implements Disposable {
  /** Packets that were dropped, by source and destination. */
  readonly dropped = new Set<string>();
  readonly #ends: readonly { readonly end: TunEnd; readonly fd: number }[];
  readonly #timer: NodeJS.Timeout;
  readonly #buffer = new Uint8Array(LARGEST_PACKET);

  constructor(name: string, a: TunEnd, b: TunEnd) {
    this.#ends = [a, b].map((end) => ({ end, fd: open(name, end) }));
    this.#timer = setInterval(() => this.#carry(), 1);
  }

  #carry(): void {
    const [a, b] = this.#ends;
    if (a === undefined || b === undefined) return;
    for (const [from, to] of [
      [a, b],
      [b, a],
    ] as const) {
      for (let i = 0; i < MOST_AT_ONCE; i++) {
        const length = from.end.namespace.calls.read(from.fd, this.#buffer);
        if (length <= 0) break;
        this.#deliver(this.#buffer.subarray(0, length), from.end, to);
      }
    }
  }

  #deliver(packet: Uint8Array, from: TunEnd, to: { readonly end: TunEnd; readonly fd: number }): void {
    const [source, destination] = addressesOf(packet);
    if (from.allowed.includes(source) && to.end.allowed.includes(destination)) {
      to.end.namespace.calls.write(to.fd, packet);
    } else {
      this.dropped.add(`${formatAddress(source)} to ${formatAddress(destination)}`);
    }
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    for (const { end, fd } of this.#ends) end.namespace.calls.close(fd);
  }
}

function addressesOf(packet: Uint8Array): readonly [Address, Address] {
  const [start, length] = (packet[0] ?? 0) >> 4 === 4 ? [12, 4] : [8, 16];
  return [
    addressFromBytes(packet.slice(start, start + length)),
    addressFromBytes(packet.slice(start + length, start + 2 * length)),
  ];
}

function open(name: string, { namespace, addresses }: TunEnd): number {
  const fd = namespace.inside(() => {
    const opened = check(
      namespace.calls.open("/dev/net/tun", OpenFlag.RDWR | OpenFlag.NONBLOCK | OpenFlag.CLOEXEC, 0),
      "open /dev/net/tun",
    );
    const request = new Uint8Array(IFREQ_SIZE);
    request.set(new TextEncoder().encode(name));
    new DataView(request.buffer).setUint16(16, IFF_TUN | IFF_NO_PI, littleEndian);
    check(namespace.calls.ioctl(opened, TUNSETIFF, request), "TUNSETIFF");
    return opened;
  });
  for (const address of addresses) {
    namespace.exec("ip", ["address", "add", address, "dev", name, ...(address.includes(":") ? ["nodad"] : [])]);
  }
  namespace.exec("ip", ["link", "set", name, "mtu", "1420", "up"]);
  return fd;
}

const PORT = 8080;
/** The name of the link, like that of a WireGuard device. */
const LINK = "wg0";

interface Side {
  readonly wired: WiredNode;
  readonly pod: LabPod;
  readonly policyd: PolicydNode;
}

describe("nodes on a link without a link layer, which checks the addresses in packets", function () {
  this.timeout(300_000);
  let lab: Lab;
  let sides: readonly [Side, Side];
  let pair: TunPair;
  let prober: Prober;

  before(function () {
    lab = suiteLab(this, "tun-pair");
    sides = [side(1), side(2)];
    const [a, b] = sides;
    const ends = [a, b].map(({ wired }, i) => ({
      namespace: wired.node,
      addresses: [`100.64.0.${i + 1}/24`, `fd00:64::${i + 1}/64`],
      allowed: wired.addresses,
    }));
    const [first, second] = ends;
    assert.ok(first !== undefined && second !== undefined);
    pair = new TunPair(LINK, first, second);
    prober = new Prober(lab);
    const items = sides.map(({ wired }) => nodeOf(wired));
    for (const { policyd } of sides) policyd.put("nodes.json", listOf(items));
  });
  after(async () => {
    await Promise.all((sides ?? []).map(({ policyd }) => policyd.kill()));
    pair?.[Symbol.dispose]();
  });

  function side(number: 1 | 2): Side {
    const node = lab.node(`node${number}`);
    enableForwarding(node);
    const wired: WiredNode = {
      node,
      addresses: [parseAddress(`100.64.0.${number}`), parseAddress(`fd00:64::${number}`)],
      routerAddresses: [parseAddress("100.64.0.254"), parseAddress("fd00:64::254")],
      podCidrs: [parseCidr(`10.244.${number}.0/24`), parseCidr(`fd00:244:${number}::/64`)],
      gateways: [parseAddress(`10.244.${number}.1`), parseAddress(`fd00:244:${number}::1`)],
      mtu: 1370,
    };
    return { wired, pod: lab.pod(`pod${number}`), policyd: new PolicydNode(lab, wired) };
  }

  function flows(): readonly Flow[] {
    const [a, b] = sides;
    return [
      [a, b],
      [b, a],
    ].flatMap(([from, to]) =>
      FAMILIES.flatMap((family) =>
        (["tcp", "udp"] as const).flatMap((protocol): readonly Flow[] =>
          from === undefined || to === undefined
            ? []
            : [{ protocol, from: from.pod, to: { address: podAddress(to, family), port: PORT } }],
        ),
      ),
    );
  }

  function podAddress({ wired }: Side, family: 4 | 6) {
    const number = wired.node.name.slice(-1);
    return parseAddress(family === 4 ? `10.244.${number}.2` : `fd00:244:${number}::2`);
  }

  async function startAll(encapsulation: string): Promise<void> {
    await Promise.all(
      sides.map(async ({ policyd }) => {
        await policyd.kill();
        await policyd.start([`--encapsulation=${encapsulation}`]);
      }),
    );
  }

  it("WAY-02: a link without a link layer drops all directly routed packets of pods, and with auto they pass in the tunnel", async () => {
    await startAll("never");
    for (const one of sides) {
      assert.equal(add(one.wired, one.pod, one.policyd.overrides).exitCode, 0);
      for (const family of FAMILIES) {
        for (const protocol of ["tcp", "udp"] as const) {
          prober.listen(protocol, { namespace: one.pod, address: podAddress(one, family), port: PORT });
        }
      }
    }
    const direct = await prober.run(flows(), { timeoutMilliseconds: 700 });
    assert.deepEqual(
      direct.map(({ reached }) => reached),
      direct.map(() => false),
    );
    assert.ok(pair.dropped.has("10.244.1.2 to 10.244.2.2"), [...pair.dropped].join(", "));
    assert.ok(pair.dropped.has("fd00:244:1::2 to fd00:244:2::2"), [...pair.dropped].join(", "));

    await startAll("auto");
    const hasTunnel = ({ wired }: Side): boolean =>
      /dev drawbridge\.vx/.test(wired.node.exec("ip", ["route", "show", "proto", "107"])) &&
      /dev drawbridge\.vx/.test(wired.node.exec("ip", ["-6", "route", "show", "proto", "107"]));
    await until(
      () => sides.every(hasTunnel),
      () => sides.map(({ wired }) => wired.node.exec("ip", ["route"])).join("\n"),
    );
    pair.dropped.clear();
    const tunnelled = await prober.run(flows(), { timeoutMilliseconds: 4000 });
    assert.deepEqual(
      tunnelled.filter(({ reached }) => !reached).map(({ flow, why }) => `${flow.from.name} ${flow.protocol}: ${why}`),
      [],
    );
    assert.deepEqual(
      [...pair.dropped].filter((one) => one.includes("244:") || one.startsWith("10.244.")),
      [],
      "no packet of a pod leaves outside of the tunnel",
    );
  });

  it("WAY-02: routes move to the tunnel when their link loses its link layer, and back to the link when it has one again", async () => {
    const lan = lab.namespace("lan");
    const [{ wired, policyd }] = sides;
    const { node } = wired;
    node.exec("ip", ["link", "add", "uplink", "type", "veth", "peer", "name", "uplink", "netns", lan.path]);
    lan.exec("ip", ["link", "set", "uplink", "up"]);
    node.exec("ip", ["address", "add", "192.0.2.1/24", "dev", "uplink"]);
    node.exec("ip", ["link", "set", "uplink", "up"]);
    const items = [
      nodeObject(node.name, [parseAddress("192.0.2.1")], ["10.244.1.0/24"]),
      nodeObject("other", [parseAddress("192.0.2.2")], ["10.244.2.0/24"]),
    ];
    policyd.put("nodes.json", listOf(items));
    const isBy = (device: string) => (): boolean =>
      node.exec("ip", ["route", "show", "10.244.2.0/24"]).includes(`dev ${device} `);
    const routes = (): string => node.exec("ip", ["route"]);
    await until(isBy("uplink"), routes);
    node.exec("ip", ["link", "set", "uplink", "arp", "off"]);
    await until(isBy("drawbridge.vx"), routes);
    node.exec("ip", ["link", "set", "uplink", "arp", "on"]);
    await until(isBy("uplink"), routes);
  });
});
