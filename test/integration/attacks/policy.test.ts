import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { type Address, formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import type { Lab } from "../../lab/lab.ts";
import { encodeFrame, encodeUdp, type Frame } from "../../lab/probe/frame.ts";
import { FrameSocket } from "../../lab/probe/frame_socket.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { ip } from "../../support/guard/attack.ts";
import { attach, eventually, type GuardedNode, type Party } from "../../support/guard/guarded_node.ts";
import { carries, newToken } from "../../support/guard/token.ts";
import { loadVirtualAddresses, PORT } from "../../support/guard/virtual_addresses.ts";
import { useGuardedNode } from "../../support/guard/guarded_suite.ts";
import { OPPOSITE_WAYS } from "../../support/guard/ways.ts";
import {
  type Attacked,
  FRAGMENT_ATTACKS,
  HOST_PORT,
  OPEN_PORT,
  POLICY_ATTACKS,
  type PolicyAttack,
  routerAdvertisement,
} from "../../support/policy/attacks/attacks.ts";
import { attackedWorld } from "../../support/policy/attacks/world.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { listOf, serviceManifest } from "../../support/services/manifest.ts";

const METADATA = parseAddress("169.254.169.254");
const METADATA_SERVICE = parseAddress("10.96.7.7");

for (const way of OPPOSITE_WAYS) {
  const { title: state, bypassBridge } = way;
  describe(`attacks on pods under policies, ${state}`, function () {
    this.timeout(300_000);
    let lab: Lab;
    let on: GuardedNode;
    let attacked: Attacked;
    let policyd: PolicydNode;

    after(async () => {
      attacked?.published.link.close();
      await policyd?.kill();
    });
    useGuardedNode("attacks", way, (made, madeIn) => {
      [on, lab] = [made, madeIn];
    });

    const send = (frames: readonly Frame[], from: Party = on.attacker): void => {
      for (const frame of frames) from.link.send(encodeFrame(frame));
    };

    const partyOf = (name: PolicyAttack["seenBy"]): Party => (name === "published" ? attacked.published : on[name]);

    /** Has each party send to the bridge, which then knows the party's port again, wherever an attack has moved it. */
    const introduce = (): void => {
      for (const party of [on.attacker, on.victim, on.third, on.fourth]) {
        const packet = encodeUdp(party.addresses[4], on.bridge.addresses[4], PORT, new Uint8Array(16));
        send([ip(party.mac, on.bridge.mac, packet)], party);
        party.link.received();
      }
    };

    /** Asserts that each attack arrives while none of our tables is loaded. */
    const expectAll = async (attacks: readonly PolicyAttack[]) => {
      const lost: string[] = [];
      for (const { title, seenBy, frames } of attacks) {
        introduce();
        const token = newToken();
        partyOf(seenBy).link.received();
        send(frames(attacked, token));
        if (!(await on.arrives(token, partyOf(seenBy)))) lost.push(title);
      }
      assert.deepEqual(lost, []);
    };

    it("without our tables packets in fragments get through", async () => {
      attacked = { on, published: on.fourth };
      await expectAll(FRAGMENT_ATTACKS);
    });

    /** Makes the kernel track connections, and prepares the node to do what it should not. */
    const openUp = (): void => {
      loadVirtualAddresses(on);
      const portMappings = [{ hostPort: HOST_PORT, containerPort: PORT, protocol: "udp" }];
      const published = attach(lab, on.wired, "published", {
        bypassBridge,
        capabilities: { portMappings: true },
        runtimeConfig: { portMappings },
      });
      attacked = { on, published };
      const { node } = on.wired;
      for (const device of ["all", "cni0"]) {
        node.writeSysctl(`net/ipv4/conf/${device}/route_localnet`, "1");
        node.writeSysctl(`net/ipv6/conf/${device}/accept_ra`, "2");
      }
    };

    describe("with Services and host ports", () => {
      before(openUp);

      it("without our tables all attacks on policies get through", async () => {
        await expectAll(POLICY_ATTACKS);
      });

      it("without our tables an attacker reaches localhost and the node's routes", async () => {
        const { node } = on.wired;
        assert.ok(await reachesLocalhost(), "127.0.0.1");
        advertise();
        assert.ok(await eventually(() => advertised().length > 0), "a default route");
        node.exec("ip", ["-6", "route", "flush", "proto", "ra"]);
        assert.ok(await reachesRouter(METADATA), "169.254.169.254, by way of the router");
      });

      describe("with our tables", () => {
        before(async () => {
          policyd = new PolicydNode(lab, on.wired);
          policyd.put("world.json", listOf(attackedWorld(attacked)));
          const endpoints = [METADATA, parseAddress("127.0.0.1")].map((address) => ({
            address,
            nodeName: "node1",
            conditions: { ready: true, serving: true, terminating: false },
          }));
          policyd.put("service.yaml", serviceManifest("metadata", [formatAddress(METADATA_SERVICE)], endpoints));
          await on.withoutStranger(() => policyd.start());
          const isDenied = async (port: number): Promise<boolean> => {
            const token = newToken();
            const { attacker, victim } = on;
            const packet = encodeUdp(attacker.addresses[4], victim.addresses[4], port, token);
            send([ip(attacker.mac, attacker.gatewayMac, packet)]);
            return !(await arrivedBefore(victim)).some((frame) => carries(frame, token));
          };
          // The daemon has read all objects; its tables follow a moment later. Until then every new flow may begin.
          for (let left = 1000; !(await isDenied(20_000 + left)); left--) {
            assert.ok(left > 0, "the policies come into force");
            await pause(20);
          }
          // A flow that began before the policies is a connection like others. The second pass over flows that began
          // meanwhile cuts it half a second later. The test of each attack checks that it is cut.
          for (const attack of POLICY_ATTACKS)
            for (let left = 500; left > 0 && (await passes(attack)); left--) await pause(5);
        });

        const passes = async ({ seenBy, frames }: PolicyAttack): Promise<boolean> => {
          const token = newToken();
          partyOf(seenBy).link.received();
          send(frames(attacked, token));
          return (await arrivedBefore(partyOf(seenBy))).some((frame) => carries(frame, token));
        };

        /** Returns the frames that arrive at a party up to a later datagram, which the policies allow. */
        const arrivedBefore = async (at: Party): Promise<readonly Uint8Array[]> => {
          const from = at === on.third ? on.attacker : on.third;
          const fence = newToken();
          const packet = encodeUdp(from.addresses[4], at.addresses[4], PORT, fence);
          const arrived: Uint8Array[] = [];
          const isThere = (): boolean => {
            send([ip(from.mac, from.gatewayMac, packet)], from);
            arrived.push(...at.link.received());
            return arrived.some((frame) => carries(frame, fence));
          };
          assert.ok(await eventually(isThere), "what is allowed arrives");
          return arrived;
        };

        for (const attack of [...POLICY_ATTACKS, ...FRAGMENT_ATTACKS]) {
          it(`GUARD-07: ${attack.source}: ${attack.title}`, async () => {
            assert.ok(!(await passes(attack)));
          });
        }

        it("GUARD-07: a datagram to the port that the policy opens passes", async () => {
          const token = newToken();
          const { attacker, victim } = on;
          const packet = encodeUdp(attacker.addresses[4], victim.addresses[4], OPEN_PORT, token);
          send([ip(attacker.mac, attacker.gatewayMac, packet)]);
          assert.ok(await on.arrives(token, victim));
        });

        it("GUARD-07: CVE-2020-8558: a neighbour does not reach localhost of the node, though route_localnet is on", async () => {
          assert.equal(on.wired.node.readSysctl("net/ipv4/conf/all/route_localnet")?.trim(), "1");
          assert.ok(!(await reachesLocalhost()));
        });

        it("GUARD-07: CVE-2020-13401: a router advertisement adds no route to the node, though accept_ra is on", async () => {
          advertise();
          await arrivedBefore(on.bridge);
          assert.deepEqual(advertised(), []);
        });

        it("GUARD-07: CVE-2021-25737: endpoints at 169.254.169.254 and 127.0.0.1 lead nowhere", async () => {
          assert.ok(await reachesRouter(METADATA), "directly, since the attacker's egress is open");
          assert.ok(!(await reachesRouter(METADATA_SERVICE)));
          assert.ok(!(await reachesLocalhost(METADATA_SERVICE)));
        });
      });
    });

    /** Returns whether a datagram to an address arrives at a socket of the node's localhost. */
    const reachesLocalhost = async (to: Address = parseAddress("127.0.0.1")): Promise<boolean> => {
      const socket = ProbeSocket.open(on.wired.node, 4, SocketType.DATAGRAM);
      try {
        socket.bind({ address: parseAddress("127.0.0.1"), port: PORT });
        const token = newToken();
        send([ip(on.attacker.mac, on.attacker.gatewayMac, encodeUdp(on.attacker.addresses[4], to, PORT, token))]);
        return await arrivesUntil(() =>
          [...socket.drain()].some((next) => next.kind === "data" && carries(next.data, token)),
        );
      } finally {
        socket.close();
      }
    };

    const advertise = (): void => {
      const packet = routerAdvertisement(on, newToken());
      send([ip(on.attacker.mac, on.attacker.gatewayMac, packet)]);
    };

    const advertised = (): readonly string[] =>
      on.wired.node
        .exec("ip", ["-6", "route", "show", "proto", "ra"])
        .split("\n")
        .filter((line) => line !== "");

    /** Returns whether a datagram to an address leaves the node. */
    const reachesRouter = async (to: Address): Promise<boolean> => {
      using link = new FrameSocket(on.nodes.router, `to-${on.wired.node.name}`);
      const token = newToken();
      send([ip(on.attacker.mac, on.attacker.gatewayMac, encodeUdp(on.attacker.addresses[4], to, PORT, token))]);
      return await arrivesUntil(() => link.received().some((frame) => carries(frame, token)));
    };

    /** Polls until something has arrived, or a later datagram to the bridge's address has come all the way. */
    const arrivesUntil = async (hasArrived: () => boolean): Promise<boolean> => {
      const fence = newToken();
      on.bridge.link.received();
      send(
        [ip(on.third.mac, on.third.gatewayMac, encodeUdp(on.third.addresses[4], on.bridge.addresses[4], PORT, fence))],
        on.third,
      );
      let isFenced = false;
      let isThere = false;
      await eventually(() => {
        isThere ||= hasArrived();
        isFenced ||= on.bridge.link.received().some((frame) => carries(frame, fence));
        return isThere || isFenced;
      });
      return isThere || hasArrived();
    };
  });
}
