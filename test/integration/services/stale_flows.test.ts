import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import type { ConntrackEntry } from "../../../kernel/conntrack/entry.ts";
import { deleteEntries, openConntrackSocket } from "../../../kernel/conntrack/table.ts";
import { listEntries } from "../../support/list_entries.ts";
import { type Address, formatAddress, parseAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { add, del } from "../../lab/cni.ts";
import { SyscallError } from "../../../kernel/syscall/syscalls.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import type { Endpoint } from "../../lab/probe/endpoint.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { type TwoNodes, twoNodes } from "../../lab/topology.ts";
import type { DaemonProcess } from "../../support/daemon/policyd.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { suiteLab } from "../../support/suite_lab.ts";
import { type ManifestEndpoint, SERVICE_PORT, serviceManifest, TARGET_PORT } from "../../support/services/manifest.ts";
import { UdpTalk } from "../../support/services/udp_talk.ts";
import { until, valueWhen } from "../../support/until.ts";

const CLUSTER = { 4: parseAddress("10.96.0.10"), 6: parseAddress("fd00:96::10") } as const;
const NODE_PORT = 30_080;
const NAMES = ["first", "second"] as const;
type Name = (typeof NAMES)[number];
type Conditions = ManifestEndpoint["conditions"];

/** Rules of a pod that answers no connection. */
const MUTE = `table inet mute {
  chain in { type filter hook prerouting priority -400; tcp dport ${TARGET_PORT} drop; }
}
`;
const READY = { ready: true, serving: true, terminating: false };
const TERMINATING = { ready: false, serving: true, terminating: true };

for (const family of FAMILIES) {
  describe(`flows of Services that change, IPv${family}`, function () {
    this.timeout(300_000);
    let lab: Lab;
    let nodes: TwoNodes;
    let policyd: PolicydNode;
    let daemon: DaemonProcess;
    let talk: UdpTalk;
    /** Whether the Service is there. */
    let isThere = false;
    let client: LabPod;
    let clientAddress: Address;
    const pods = new Map<Name, { readonly pod: LabPod; readonly address: Address }>();

    before(async function () {
      lab = suiteLab(this, `stale-flows-${family}`);
      nodes = twoNodes(lab, { mtu: 1420 });
      policyd = new PolicydNode(lab, nodes.node1);
      daemon = await policyd.start();
      client = attach("client");
      clientAddress = addressOf(2);
      for (const [index, name] of NAMES.entries()) {
        pods.set(name, { pod: attach(name), address: addressOf(3 + index) });
      }
    });
    beforeEach(() => {
      talk = new UdpTalk();
      for (const { pod, address } of pods.values()) talk.respond(pod, { address, port: TARGET_PORT });
    });
    afterEach(async () => {
      if (isThere) put(undefined);
      await daemon.statusWhen(({ objects }) => objects["Service"] === 0, "the Service is gone");
      // The daemon counts an object before its rules are in force.
      const cluster = { address: CLUSTER[family], port: SERVICE_PORT };
      await talk.askAnew([client, clientAddress], cluster, (name) => name === "");
      talk[Symbol.dispose]();
      const socket = nodes.node1.node.inside(() => openConntrackSocket(lab.calls));
      deleteEntries(socket, listEntries(socket));
      socket.close();
    });

    const addressOf = (host: number): Address =>
      parseAddress(family === 4 ? `10.244.1.${host}` : `fd00:244:1::${host}`);

    function attach(name: string): LabPod {
      const pod = lab.pod(name);
      assert.equal(add(nodes.node1, pod, policyd.overrides).exitCode, 0);
      return pod;
    }

    /** Puts a Service with these endpoints, or removes it if they are undefined. */
    function put(endpoints: Readonly<Partial<Record<Name, Conditions>>> | undefined, spec = {}): void {
      const list = NAMES.flatMap((name): readonly ManifestEndpoint[] => {
        const conditions = endpoints?.[name];
        const address = pods.get(name)?.address;
        return conditions === undefined || address === undefined ? [] : [{ address, nodeName: "node1", conditions }];
      });
      const text = serviceManifest("talk", [formatAddress(CLUSTER[family])], list, spec, NODE_PORT);
      policyd.put("talk.yaml", endpoints === undefined ? "" : text);
      isThere = endpoints !== undefined;
    }

    /** Returns the flows of the node to a Service, through NAT or not. */
    function flows(protocol: "udp" | "tcp" = "udp"): readonly ConntrackEntry[] {
      const socket = nodes.node1.node.inside(() => openConntrackSocket(lab.calls));
      try {
        return listEntries(socket, { family, protocol });
      } finally {
        socket.close();
      }
    }

    const ways: readonly {
      readonly title: string;
      readonly from: () => readonly [LabNamespace, Address];
      readonly to: () => Endpoint;
    }[] = [
      {
        title: "a pod by the cluster IP",
        from: () => [client, clientAddress],
        to: () => ({ address: CLUSTER[family], port: SERVICE_PORT }),
      },
      {
        title: "outside by a NodePort",
        from: () => [nodes.router, nodes.node1.routerAddresses[family === 4 ? 0 : 1]],
        to: () => ({ address: nodes.node1.addresses[family === 4 ? 0 : 1], port: NODE_PORT }),
      },
    ];

    for (const { title, from, to } of ways) {
      it(`SVC-27: from ${title}: the same socket gets another endpoint when its own goes, and others keep theirs`, async () => {
        put({ first: READY, second: READY });
        const sockets = Array.from({ length: 5 }, () => talk.client(...from()));
        const before: string[] = [];
        for (const socket of sockets) before.push(await talk.askUntil(socket, to(), (name) => name !== ""));
        const [lost, kept] = before[0] === "first" ? (["first", "second"] as const) : (["second", "first"] as const);
        const idsOf = (name: Name): readonly number[] =>
          flows()
            .filter(
              ({ reply, original }) =>
                reply.source === pods.get(name)?.address && original.destination === to().address,
            )
            .map(({ id }) => id)
            .toSorted((a, b) => a - b);
        const keptIds = idsOf(kept);
        assert.equal(keptIds.length, before.filter((name) => name === kept).length);
        put({ [kept]: READY });
        for (const socket of sockets) await talk.askUntil(socket, to(), (name) => name === kept);
        for (const id of keptIds) assert.ok(idsOf(kept).includes(id), "a flow in order was cut");
        assert.deepEqual(idsOf(lost), []);
        // Without any endpoint nothing answers, and the next one is found from the same socket.
        put({});
        await talk.askUntil(talk.client(...from()), to(), (name) => name === "");
        put({ [lost]: READY });
        for (const socket of sockets) await talk.askUntil(socket, to(), (name) => name === lost);
      });

      it(`SVC-27 NE-08: from ${title}: a socket that asked before there was an endpoint gets through, also when the Service is made again`, async () => {
        const socket = talk.client(...from());
        assert.equal(await talk.ask(socket, to()), "");
        put({ first: READY });
        await talk.askUntil(socket, to(), (name) => name === "first");
        put(undefined);
        await talk.askUntil(socket, to(), (name) => name === "");
        // Now the flow goes through the node or to it, without a Service.
        put({ second: READY });
        await talk.askUntil(socket, to(), (name) => name === "second");
      });

      it(`TERM-04 SVC-27: from ${title}: a flow to a terminating endpoint goes on until the endpoint has gone`, async () => {
        put({ first: READY });
        const socket = talk.client(...from());
        await talk.askUntil(socket, to(), (name) => name === "first");
        put({ first: TERMINATING, second: READY });
        await talk.askAnew(from(), to(), (name) => name === "second");
        // A flow that is forgotten at all is forgotten within a second.
        await pause(1200);
        assert.equal(await talk.askUntil(socket, to(), (name) => name !== ""), "first");
        put({ second: READY });
        await talk.askUntil(socket, to(), (name) => name === "second");
      });
    }

    it("SVC-27: a started daemon ends flows to endpoints that went while none was running, and keeps other flows", async () => {
      const to = { address: CLUSTER[family], port: SERVICE_PORT };
      put({ first: READY, second: READY });
      const sockets = Array.from({ length: 5 }, () => talk.client(client, clientAddress));
      for (const socket of sockets) await talk.askUntil(socket, to, (name) => name !== "");
      const ids = new Map(flows().map((entry) => [entry.id, entry]));
      await policyd.kill();
      put({ second: READY });
      daemon = await policyd.start();
      for (const socket of sockets) await talk.askUntil(socket, to, (name) => name === "second");
      const after = new Set(flows().map(({ id }) => id));
      for (const [id, { reply }] of ids) {
        if (reply.source === pods.get("second")?.address) assert.ok(after.has(id), "a flow in order was cut");
      }
      await policyd.kill();
      put(undefined);
      daemon = await policyd.start();
      const translated = (): readonly ConntrackEntry[] =>
        flows().filter(({ original, reply }) => original.destination === to.address && reply.source !== to.address);
      await until(() => translated().length === 0, "flows to a Service that is gone");
    });

    it("TERM-04: a TCP connection is never cut, neither by a terminating endpoint nor by one that is gone", async () => {
      const { pod, address } = pods.get("first") ?? assert.fail();
      const server = ProbeSocket.open(pod, family, SocketType.STREAM);
      const connection = ProbeSocket.open(client, family, SocketType.STREAM);
      let accepted: ProbeSocket | undefined;
      try {
        server.bind({ address, port: TARGET_PORT });
        server.listen();
        put({ first: READY });
        const udp = talk.client(client, clientAddress);
        const to = { address: CLUSTER[family], port: SERVICE_PORT };
        await talk.askUntil(udp, to, (name) => name === "first");
        connection.connect(to);
        accepted = await untilAccepted(server);
        const exchange = async (): Promise<void> => {
          assert.equal(connection.send(new Uint8Array([7])), 1);
          const next = await valueWhen(
            () => accepted?.receive().kind,
            (kind) => kind !== "nothing",
            () => "nothing is received",
          );
          assert.equal(next, "data");
        };
        await exchange();
        for (const endpoints of [{ first: TERMINATING, second: READY }, { second: READY }]) {
          put(endpoints);
          await talk.askAnew([client, clientAddress], to, (name) => name === "second");
          await pause(1200);
          await exchange();
        }
        await talk.askUntil(udp, to, (name) => name === "second");
        assert.equal(flows("tcp").filter(({ reply }) => reply.source === address).length, 1);
      } finally {
        for (const socket of [server, connection, accepted]) socket?.close();
      }
    });

    it("SVC-30: a connection that its endpoint never answered reaches another endpoint when its own has gone", async () => {
      const [first, second] = [pods.get("first") ?? assert.fail(), pods.get("second") ?? assert.fail()];
      const server = ProbeSocket.open(second.pod, family, SocketType.STREAM);
      const connection = ProbeSocket.open(client, family, SocketType.STREAM);
      let accepted: ProbeSocket | undefined;
      try {
        server.bind({ address: second.address, port: TARGET_PORT });
        server.listen();
        put({ first: READY });
        const udp = talk.client(client, clientAddress);
        const to = { address: CLUSTER[family], port: SERVICE_PORT };
        await talk.askUntil(udp, to, (name) => name === "first");
        first.pod.exec("nft", ["-f", "-"], MUTE);
        connection.connect(to);
        assert.deepEqual(
          flows("tcp").map(({ reply }) => formatAddress(reply.source)),
          [formatAddress(first.address)],
        );
        put({ second: READY });
        accepted = await untilAccepted(server);
        assert.deepEqual(
          flows("tcp").map(({ reply }) => formatAddress(reply.source)),
          [formatAddress(second.address)],
        );
      } finally {
        first.pod.exec("nft", ["flush", "ruleset"]);
        for (const socket of [server, connection, accepted]) socket?.close();
      }
    });

    it("SVC-30: a connection begun while the rules were missing is forgotten when they are back, and its port is free", async () => {
      const { node } = nodes.node1;
      const { pod, address } = pods.get("first") ?? assert.fail();
      const to = { address: CLUSTER[family], port: SERVICE_PORT };
      const begin = (): ProbeSocket => {
        const socket = ProbeSocket.open(node, family, SocketType.STREAM);
        socket.bind({ address: nodes.node1.addresses[family === 4 ? 0 : 1], port: 40_000 });
        try {
          socket.connect(to);
        } catch (error) {
          if (!(error instanceof SyscallError)) throw error;
        }
        return socket;
      };
      put({ first: READY });
      await policyd.kill();
      // Another program's rules make the kernel track connections all the time.
      node.exec("nft", [
        "flush ruleset; table inet other { chain out { type filter hook output priority 0; ct state new counter; }; }",
      ]);
      begin().close();
      assert.deepEqual(
        flows("tcp").map(({ reply }) => formatAddress(reply.source)),
        [formatAddress(to.address)],
      );
      daemon = await policyd.start();
      const server = ProbeSocket.open(pod, family, SocketType.STREAM);
      let accepted: ProbeSocket | undefined;
      try {
        server.bind({ address, port: TARGET_PORT });
        server.listen();
        for (let left = 1000; accepted === undefined; left--) {
          assert.ok(left > 0, "no new connection from the same port reaches the endpoint");
          const connection = begin();
          await pause(50);
          accepted = server.accept()?.socket;
          connection.close();
        }
      } finally {
        node.exec("nft", ["delete", "table", "inet", "other"]);
        for (const socket of [server, accepted]) socket?.close();
      }
    });

    it("POD-20: a DEL removes a pod's flows and its session affinity, and no other pod's", async () => {
      const to = { address: CLUSTER[family], port: SERVICE_PORT };
      put({ first: READY }, { sessionAffinity: "ClientIP" });
      const third = { pod: attach("third"), address: addressOf(5) };
      talk.respond(third.pod, { address: third.address, port: TARGET_PORT });
      for (const [pod, address] of [
        [client, clientAddress],
        [third.pod, third.address],
      ] as const) {
        await talk.askUntil(talk.client(pod, address), to, (name) => name === "first");
        // Directly, from pod to pod: as the client and as the server.
        await talk.askUntil(
          talk.client(pod, address),
          { address: addressOf(3), port: TARGET_PORT },
          (name) => name === "first",
        );
      }
      await talk.askUntil(
        talk.client(client, clientAddress),
        { address: third.address, port: TARGET_PORT },
        (name) => name === "third",
      );
      const clients = (): number =>
        nodes.node1.node.exec("nft", ["list", "map", "inet", "drawbridge", `client${family}`]).match(/expires/g)
          ?.length ?? 0;
      const involving = (address: Address): number =>
        flows().filter(({ original, reply }) => [original.source, reply.source].includes(address)).length;
      assert.equal(clients(), 2);
      assert.ok(involving(third.address) >= 3);
      const kept = involving(clientAddress) - 1;
      assert.equal(del(nodes.node1, third.pod, policyd.overrides).exitCode, 0);
      assert.deepEqual([involving(third.address), involving(clientAddress), clients()], [0, kept, 1]);
    });
  });
}

/** Waits for a client of a listening socket, and returns its connection. */
function untilAccepted(server: ProbeSocket): Promise<ProbeSocket | undefined> {
  return valueWhen(
    () => server.accept()?.socket,
    (socket) => socket !== undefined,
    () => "not connected",
  );
}
