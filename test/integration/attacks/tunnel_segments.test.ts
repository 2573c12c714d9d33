import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { CHECKSUM_PROGRAM, filterChecksums } from "../../../kernel/bpf/checksum_filter.ts";
import { kernelChecksumProgram } from "../../../kernel/bpf/checksum_program.ts";
import { removeOwnProgram } from "../../../kernel/bpf/own_program.ts";
import { TX_CHECKSUM_OFFLOAD } from "../../../kernel/ethtool.ts";
import {
  type Address,
  addressToBytes,
  FAMILIES,
  type Family,
  familyOf,
  parseAddress,
} from "../../../kernel/ip/address.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { OpenFlag } from "../../../kernel/syscall/file_calls.ts";
import { check } from "../../../kernel/syscall/syscalls.ts";
import { encodeFrame, encodeIp, encodeTcp, EtherType, TcpFlag } from "../../lab/probe/frame.ts";
import { FrameSocket } from "../../lab/probe/frame_socket.ts";
import { internetChecksum } from "../../lab/probe/raw_packet.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { withoutOffload } from "../../lab/offload.ts";
import { UPLINK } from "../../lab/topology.ts";
import type { GuardedNode } from "../../support/guard/guarded_node.ts";
import { useGuardedNode } from "../../support/guard/guarded_suite.ts";
import { carries, newToken } from "../../support/guard/token.ts";
import { OPPOSITE_WAYS } from "../../support/guard/ways.ts";

const [TUNSETIFF, TUNSETOFFLOAD, TUNSETVNETHDRSZ] = [0x4004_54ca, 0x4004_54d0, 0x4004_54d8];
/** IFF_TAP, IFF_NO_PI and IFF_VNET_HDR (include/uapi/linux/if_tun.h). */
const TAP_WITH_HEADER = 0x5002;
/** TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6 and TUN_F_UDP_TUNNEL_GSO (since Linux 6.17). */
const OFFLOADS = 0x87;
/** struct ifreq, and struct virtio_net_hdr_v1_hash_tunnel. */
const [IFREQ_SIZE, HEADER_SIZE] = [40, 24];
/** VIRTIO_NET_HDR_F_NEEDS_CSUM, VIRTIO_NET_HDR_GSO_TCPV4, VIRTIO_NET_HDR_GSO_UDP_TUNNEL_IPV4 and _IPV6. */
const [NEEDS_CHECKSUM, TCP_SEGMENTS] = [1, 1];
const IN_TUNNEL = { 4: 0x20, 6: 0x40 } as const;

const TAP = "tap9";
const ETHERNET_HEADER = 14;
const [IPV4_HEADER, IPV6_HEADER, UDP_HEADER] = [20, 40, 8];
const PORT = 9111;
/** The headers of the packet within the tunnel, and its length in each segment. */
const [INNER_HEADERS, INNER_LENGTH, SEGMENTS] = [40, 443, 3];
const SEGMENT = INNER_LENGTH - INNER_HEADERS;

for (const way of OPPOSITE_WAYS) {
  describe(`attacks by a tunnel's packet that is segmented after the rules, ${way.title}`, function () {
    this.timeout(300_000);
    let on: GuardedNode;
    let router: FrameSocket;
    let tap = -1;

    useGuardedNode("segments", way, (made) => {
      on = made;
      const { node } = on.wired;
      // As with a network card that does not segment: the node's kernel does it when it sends the packet.
      withoutOffload(node, UPLINK, [TX_CHECKSUM_OFFLOAD, "tx-udp_tnl-segmentation"]);
      router = new FrameSocket(on.nodes.router, `to-${node.name}`);
      on.load();
    });
    before(function () {
      const opened = openTap(on.attacker.namespace);
      if (opened === undefined) this.skip();
      tap = opened;
    });
    after(() => {
      router?.close();
      if (tap >= 0) on.attacker.namespace.calls.close(tap);
    });

    /**
     * Has the attacker send a tunnel's packet that is still to be segmented.
     *
     * @param isOverlapping whether the packet in the tunnel begins where the tunnel's UDP header does, so that its
     *   length is the port
     * @returns the ports that UDP's header has in the packets that leave the node
     */
    async function portsOf(family: Family, isOverlapping: boolean): Promise<readonly number[]> {
      const { namespace, addresses, mac, gatewayMac } = on.attacker;
      const token = newToken();
      const to = on.wired.routerAddresses[family === 4 ? 0 : 1];
      const { headers, payload } = tunnelPacket(addresses[family], to, token, isOverlapping);
      const type = family === 4 ? EtherType.IPV4 : EtherType.IPV6;
      const frame = encodeFrame({ from: mac, to: gatewayMac, type, payload: Uint8Array.of(...headers, ...payload) });
      const transport = ETHERNET_HEADER + headers.length;
      router.received();
      const header = uncutHeader(family, transport + (isOverlapping ? 0 : UDP_HEADER));
      check(namespace.calls.write(tap, Uint8Array.of(...header, ...frame)), "send by the tap");
      await sleep(50);
      const frames = router.received().filter((one) => carries(one, token));
      return frames.map((one) => new DataView(one.buffer).getUint16(transport + 2));
    }

    for (const family of FAMILIES) {
      it(`GUARD-18: no port changes when a tunnel's IPv${family} packet is segmented, ${way.title}`, async () => {
        const { node } = on.wired;
        const bridge = node.link("cni0").index;
        assert.deepEqual(await portsOf(family, true), [], "dropped");
        removeOwnProgram(node.programs, CHECKSUM_PROGRAM, bridge);
        assert.deepEqual(await portsOf(family, true), [INNER_LENGTH], "changed without the filter");
        assert.ok(filterChecksums(node.programs, bridge, kernelChecksumProgram));
      });

      it(`GUARD-18: an honest tunnel's IPv${family} packet is segmented, ${way.title}`, async () => {
        assert.deepEqual(await portsOf(family, false), [PORT]);
      });
    }
  });
}

/**
 * Opens a device whose frames, with a header that says how to segment them, leave a pod unchanged by its eth0.
 *
 * @returns undefined where the kernel does not take packets of tunnels from it
 */
function openTap(pod: LabNamespace): number | undefined {
  const { calls } = pod;
  const fd = pod.inside(() =>
    check(calls.open("/dev/net/tun", OpenFlag.RDWR | OpenFlag.CLOEXEC, 0), "open /dev/net/tun"),
  );
  const request = new Uint8Array(IFREQ_SIZE);
  request.set(new TextEncoder().encode(TAP));
  new DataView(request.buffer).setUint16(16, TAP_WITH_HEADER, true);
  pod.inside(() => check(calls.ioctl(fd, TUNSETIFF, request), "TUNSETIFF"));
  check(calls.ioctl(fd, TUNSETVNETHDRSZ, new Uint8Array(Int32Array.of(HEADER_SIZE).buffer)), "TUNSETVNETHDRSZ");
  const result = calls.ioctlByNumber(fd, TUNSETOFFLOAD, OFFLOADS);
  if (result === -Errno.EINVAL) {
    calls.close(fd);
    return undefined;
  }
  check(result, "TUNSETOFFLOAD");
  pod.exec("ip", ["link", "set", TAP, "up"]);
  pod.exec("tc", `qdisc add dev ${TAP} clsact`.split(" "));
  pod.exec(
    "tc",
    `filter add dev ${TAP} ingress protocol all u32 match u32 0 0 action mirred egress redirect dev eth0`.split(" "),
  );
  return fd;
}

/** Returns the IP header and what follows it. The first segment of the packet in the tunnel carries the token. */
function tunnelPacket(from: Address, to: Address, token: Uint8Array, isOverlapping: boolean) {
  const data = Uint8Array.of(...token, ...new Uint8Array(SEGMENT * SEGMENTS - token.length));
  const ends = { source: 1, destination: 2 };
  const inner = encodeIp(
    encodeTcp(parseAddress("10.0.0.1"), parseAddress("10.0.0.2"), ends, TcpFlag.ACK, data),
  ).payload;
  const udp = isOverlapping ? inner : Uint8Array.of(...new Uint8Array(UDP_HEADER), ...inner);
  // UDP's checksum is zero: the fragment offset of the packet in the tunnel.
  const view = new DataView(udp.buffer);
  if (!isOverlapping) view.setUint16(0, PORT);
  view.setUint16(2, PORT);
  view.setUint16(4, udp.length);
  view.setUint16(6, 0);
  return { headers: ipHeader(from, to, udp.length), payload: udp };
}

/** Returns an IP header with eight bytes of options, which a tunnel's headers do not expect. */
function ipHeader(from: Address, to: Address, length: number): Uint8Array {
  const addresses = [...addressToBytes(from), ...addressToBytes(to)];
  if (familyOf(from) === 6) {
    const padding = [17, 0, 1, 4, 0, 0, 0, 0];
    const size = length + padding.length;
    return Uint8Array.of(0x60, 0, 0, 0, size >> 8, size & 0xff, 60, 64, ...addresses, ...padding);
  }
  const header = Uint8Array.of(0x47, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, ...addresses, 1, 1, 1, 1, 1, 1, 1, 1);
  new DataView(header.buffer).setUint16(2, header.length + length);
  new DataView(header.buffer).setUint16(10, internetChecksum(header));
  return header;
}

/** Returns the header of a tap's frame: it names the place of UDP's header without options, and that of the packet. */
function uncutHeader(family: Family, inner: number): Uint8Array {
  const transport = ETHERNET_HEADER + (family === 4 ? IPV4_HEADER : IPV6_HEADER);
  const checksum = inner + IPV4_HEADER;
  const numbers = [inner + INNER_HEADERS, SEGMENT, checksum, 16, 0, 0, 0, 0, 0, transport, inner];
  return Uint8Array.of(
    NEEDS_CHECKSUM,
    TCP_SEGMENTS | IN_TUNNEL[family],
    ...new Uint8Array(Uint16Array.from(numbers).buffer),
  );
}
