import assert from "node:assert/strict";
import { CHECKSUM_PROGRAM } from "../../../kernel/bpf/checksum_filter.ts";
import { removeOwnProgram } from "../../../kernel/bpf/own_program.ts";
import { setTimeout as pause } from "node:timers/promises";
import { type Address, type Family, FAMILIES } from "../../../kernel/ip/address.ts";
import { fragmentSettings } from "../../../policyd/node/conntrack_settings.ts";
import { REASSEMBLY_SECONDS } from "../../../policyd/node/tables/fragment_share.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { encodeFrame, IpProtocol } from "../../lab/probe/frame.ts";
import { FrameSocket } from "../../lab/probe/frame_socket.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import type { GuardedNode, GuardedPod } from "../../support/guard/guarded_node.ts";
import { useGuardedNode } from "../../support/guard/guarded_suite.ts";
import { OPPOSITE_WAYS } from "../../support/guard/ways.ts";
import { encodeFragment, encodeFragmentAfterOptions } from "../../support/policy/attacks/fragments.ts";
import { DropReason } from "../../../policyd/node/tables/drop_reasons.ts";

const PORT = 7001;
/**
 * The number of fragments in a flood. The node's memory for fragments, by default 4 MiB (net.ipv4.ipfrag_high_thresh),
 * has room for about four thousand.
 */
const FLOOD = 6000;
const FIRST_BYTES = 8;
const MEBIBYTES = 512;
const DATAGRAMS = 20;
/** A memory so small that three pods can use it up, and the number of answers that fit into a pod's share of it. */
const LITTLE_MEBIBYTES = 64;
const OWN_ANSWERS = 9;
/** The sizes of a DNS answer in two fragments, and of a default write of NFS over UDP. */
const ANSWER = 2000;
const NFS_WRITE = 32 * 1024;
/** The wait for datagrams of which some are lost. */
const FEW = { milliseconds: 500 };

/** The number of uncut frames, each of which takes 62 KB of the 4 MiB. */
const UNCUT = 80;
/** A TCP segment with its header, which the kernel is to cut into pieces of 1400 bytes. */
const UNCUT_SEGMENT = Uint8Array.of(
  0,
  1,
  0,
  2,
  0,
  0,
  0,
  1,
  0,
  0,
  0,
  1,
  0x50,
  0x10,
  1,
  0,
  0,
  0,
  0,
  0,
  ...new Uint8Array(60_000),
);
/** A struct virtio_net_hdr: fill in the checksum, TCP over IPv4, and the places of the headers and the checksum. */
const UNCUT_HEADER = new Uint8Array([1, 1, ...new Uint8Array(Uint16Array.of(54, 1400, 34, 16).buffer)]);

interface End {
  readonly namespace: LabNamespace;
  readonly address: Address;
}

for (const way of OPPOSITE_WAYS) {
  const { title: state } = way;
  describe(`fragments that are never completed, ${state}`, function () {
    this.timeout(300_000);
    let on: GuardedNode;
    /** The ID of the next datagram: a fragment of a datagram that is already known would take no memory. */
    let nextId = 0;

    useGuardedNode("fragments", way, (made) => void (on = made));

    /** Sends the first fragment of each of `count` datagrams, and no other. */
    const flood = (from: GuardedPod, family: Family, count: number, afterOptions = false): void => {
      const to = on.nodes.node1.routerAddresses[family === 4 ? 0 : 1] ?? assert.fail("a router");
      const payload = new Uint8Array(FIRST_BYTES);
      const encode = afterOptions ? encodeFragmentAfterOptions : encodeFragment;
      const packet = { from: from.addresses[family], to, protocol: IpProtocol.UDP };
      const frames = Array.from({ length: count }, () => {
        nextId = (nextId + 1) & 0xffff;
        const fragment = encode(packet, nextId, { offset: 0, isLast: false, payload });
        return encodeFrame({ from: from.mac, to: from.gatewayMac, ...fragment });
      });
      for (const frame of frames) from.link.send(frame);
    };

    /** Returns how many datagrams of a size arrive, within a short time where not all should. */
    const arrived = async (
      family: Family,
      from: End,
      to: End,
      size: number,
      { sent = DATAGRAMS, milliseconds = 20_000, port = PORT } = {},
    ): Promise<number> => {
      // A busy machine still has packets of the flood in its queues, and drops other packets beside them.
      await pause(50);
      const receiver = ProbeSocket.open(to.namespace, family, SocketType.DATAGRAM);
      const sender = ProbeSocket.open(from.namespace, family, SocketType.DATAGRAM);
      try {
        receiver.bind({ address: to.address, port });
        let count = 0;
        for (let i = 0; i < sent; i++) {
          sender.sendTo(new Uint8Array(size), { address: to.address, port });
          // A socket that nobody reads has room for only a few of the large datagrams.
          count += [...receiver.drain()].filter(({ kind }) => kind === "data").length;
        }
        await eventuallyWithin(milliseconds, () => {
          count += [...receiver.drain()].filter(({ kind }) => kind === "data").length;
          return count >= sent;
        });
        return count;
      } finally {
        sender.close();
        receiver.close();
      }
    };

    const pod = ({ namespace, addresses }: GuardedPod, family: Family): End => ({
      namespace,
      address: addresses[family],
    });
    const outside = (family: Family): End => ({
      namespace: on.nodes.router,
      address: on.wired.routerAddresses[family === 4 ? 0 : 1] ?? assert.fail("a router"),
    });
    const node = (family: Family): End => ({
      namespace: on.wired.node,
      address: on.wired.addresses[family === 4 ? 0 : 1] ?? assert.fail("a node"),
    });

    /** Gives the kernel the settings that the tables need, or its default ones. */
    const settings = (isDefended: boolean): void => {
      for (const { key, value, isMost = false } of fragmentSettings(MEBIBYTES)) {
        on.wired.node.writeSysctl(key, String(isDefended ? value : isMost ? 30 : 4 * 1024 * 1024));
      }
    };
    const untilGone = (): Promise<void> => pause(REASSEMBLY_SECONDS * 1000 + 500);

    it("SHARE-01: frames that are too large for any link, a few of which fill the memory for fragments, are dropped", async () => {
      using socket = new FrameSocket(on.attacker.namespace, "eth0");
      socket.setUncut();
      const { mac, gatewayMac, addresses } = on.attacker;
      const packet = { from: addresses[4], to: outside(4).address, protocol: IpProtocol.TCP };
      const uncut = (): void => {
        for (let i = 0; i < UNCUT; i++) {
          nextId = (nextId + 1) & 0xffff;
          const fragment = encodeFragment(packet, nextId, { offset: 0, isLast: false, payload: UNCUT_SEGMENT });
          const frame = encodeFrame({ from: mac, to: gatewayMac, ...fragment });
          const whole = new Uint8Array(UNCUT_HEADER.length + frame.length);
          whole.set(UNCUT_HEADER);
          whole.set(frame, UNCUT_HEADER.length);
          socket.send(whole);
        }
      };
      const [victim, third] = [pod(on.victim, 4), pod(on.third, 4)];
      const host = on.wired.node;
      // On kernels that have it, this filter drops them, too (GUARD-18).
      removeOwnProgram(host.programs, CHECKSUM_PROGRAM, host.link("cni0").index);
      on.load();
      settings(false);
      uncut();
      assert.equal(await arrived(4, victim, third, ANSWER, FEW), 0, "without the share");
      on.load({ fragmentMemory: MEBIBYTES });
      settings(true);
      uncut();
      assert.ok(on.dropped(DropReason.FRAGMENT) >= UNCUT, "with the share they are dropped");
      assert.equal(await arrived(4, victim, third, ANSWER), DATAGRAMS);
    });

    for (const family of FAMILIES) {
      it(`SHARE-01: first fragments from one pod do not keep other datagrams from being reassembled, IPv${family}`, async () => {
        const pairs = (): readonly (readonly [string, End, End])[] => [
          ["pod to pod", pod(on.victim, family), pod(on.third, family)],
          ["pod to outside", pod(on.victim, family), outside(family)],
          ["outside to pod", outside(family), pod(on.victim, family)],
          ["pod to node", pod(on.third, family), node(family)],
          ["outside to node", outside(family), node(family)],
        ];
        on.load();
        settings(false);
        flood(on.attacker, family, FLOOD);
        // Two of the pairs have the same receiver.
        const counts = pairs().map(async ([what, from, to], index) => {
          const count = await arrived(family, from, to, ANSWER, { ...FEW, port: PORT + index });
          assert.equal(count, 0, `without the share, ${what}`);
        });
        await Promise.all(counts);

        settings(true);
        for (const afterOptions of family === 6 ? [false, true] : [false]) {
          // The fragments of the attacks so far are still there, and nothing is counted yet.
          on.load({ fragmentMemory: MEBIBYTES });
          flood(on.attacker, family, 5 * FLOOD, afterOptions);
          for (const [what, from, to] of pairs()) {
            assert.equal(await arrived(family, from, to, ANSWER), DATAGRAMS, `with the share, ${what}`);
          }
          assert.equal(
            await arrived(family, pod(on.third, family), pod(on.victim, family), NFS_WRITE),
            DATAGRAMS,
            "a write of NFS",
          );
          assert.ok(on.dropped(DropReason.FRAGMENT) > 0, "fragments beyond the share are counted");
        }
      });

      it(`SHARE-01: while three pods use up the common memory for fragments, each other pod still has its own share, IPv${family}`, async () => {
        on.load({ fragmentMemory: LITTLE_MEBIBYTES });
        settings(true);
        for (const from of [on.attacker, on.third, on.fourth]) flood(from, family, FLOOD);
        const [victim, third] = [pod(on.victim, family), pod(on.third, family)];
        const router = outside(family);
        assert.equal(await arrived(family, victim, router, ANSWER, { sent: OWN_ANSWERS }), OWN_ANSWERS);
        flood(on.third, family, FLOOD);
        assert.ok(
          (await arrived(family, third, router, NFS_WRITE, FEW)) < DATAGRAMS,
          "the third pod has no share left",
        );
        await untilGone();
        assert.equal(
          await arrived(family, third, router, ANSWER, { sent: OWN_ANSWERS }),
          OWN_ANSWERS,
          "some seconds later",
        );
      });
    }
  });
}

async function eventuallyWithin(milliseconds: number, isSo: () => boolean): Promise<void> {
  const end = performance.now() + milliseconds;
  while (!isSo() && performance.now() < end) await pause(2);
}
