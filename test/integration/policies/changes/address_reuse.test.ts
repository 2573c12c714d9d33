import assert from "node:assert/strict";
import { existsSync, rmSync } from "node:fs";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { type Address, type Family, formatAddress, parseAddress, FAMILIES } from "../../../../kernel/ip/address.ts";
import { formatCidr } from "../../../../kernel/ip/cidr.ts";
import type { Configuration } from "../../../lab/cni.ts";
import type { Lab } from "../../../lab/lab.ts";
import { ProbeSocket, SocketType } from "../../../lab/probe/socket.ts";
import { type TwoNodes, twoNodes } from "../../../lab/topology.ts";
import { leavesUnchanged } from "../../../lab/unchanged.ts";
import { eventually } from "../../../support/guard/guarded_node.ts";
import { carries, newToken } from "../../../support/guard/token.ts";
import {
  byFamily,
  type ComingPod,
  comingPod,
  namespaceObjects,
  type Neighbour,
  podObject,
  startCall,
  succeed,
} from "../../../support/policy/first_packet/coming_pod.ts";
import { nodeManifest } from "../../../support/policy/lab/place.ts";
import type { DaemonProcess } from "../../../support/daemon/policyd.ts";
import { PolicydNode } from "../../../support/daemon/policyd_node.ts";
import { requireBridgeNetfilter } from "../../../support/privilege.ts";
import { suiteLab } from "../../../support/suite_lab.ts";
import { listOf, serviceManifest, SERVICE_PORT, TARGET_PORT } from "../../../support/services/manifest.ts";
import { until } from "../../../support/until.ts";

/** The last number of the addresses that one pod gets after another. */
const HOST = 20;
const VIRTUAL = { 4: parseAddress("10.96.0.50"), 6: parseAddress("fd00:96::50") } as const;
const HOST_PORT = 8085;
const CLIENT_PORT = 6001;
const SERVER_PORT = 6002;
/** The number of sockets of the other parties; all further sockets are the pod's. */
const OTHERS_SOCKETS = 8;
const NAMESPACES = {
  open: undefined,
  deny: [],
  allow: [{}],
  picky: [{ from: [{ podSelector: { matchLabels: { app: "a" } } }] }],
};
const PORT_MAPPED: Configuration = {
  capabilities: { portMappings: true },
  runtimeConfig: { portMappings: [{ hostPort: HOST_PORT, containerPort: TARGET_PORT, protocol: "udp" }] },
};

/** A way of a datagram from one place to another. The ports stay the same, so it is always the same flow. */
interface Way {
  readonly title: string;
  readonly from: ProbeSocket;
  readonly to: { readonly address: Address; readonly port: number };
  readonly at: ProbeSocket;
}

/** The sockets with which another party talks to the pod that has the address. */
interface Talker {
  readonly other: Neighbour;
  readonly family: Family;
  readonly client: ProbeSocket;
  readonly server: ProbeSocket;
}

describe("a pod with the address of an earlier pod", function () {
  this.timeout(300_000);
  let lab: Lab;
  let nodes: TwoNodes;
  let policyd: PolicydNode;
  let daemon: DaemonProcess;
  let resident: ComingPod;
  let others: readonly Neighbour[];
  const sockets: ProbeSocket[] = [];
  /** The pods of the present test. */
  const pods: ComingPod[] = [];

  before(async function () {
    requireBridgeNetfilter(this);
    lab = suiteLab(this, "address-reuse");
    // The kernel then also tracks the connections of frames that the bridge forwards.
    nodes = twoNodes(lab, { bridgeNetfilter: true });
    policyd = new PolicydNode(lab, nodes.node1, "60s");
    resident = comingPod(lab, "resident", 2);
    policyd.put("namespaces.json", listOf(namespaceObjects(NAMESPACES)));
    policyd.put("resident.json", listOf([podObject("open", "resident")]));
    const addresses = byFamily([parseAddress("10.244.1.20"), parseAddress("fd00:244:1::14")]);
    const endpoints = FAMILIES.map((family) => ({ address: addresses[family], nodeName: "node1" }));
    const clusterIps = FAMILIES.map((family) => formatAddress(VIRTUAL[family]));
    policyd.put(
      "service.yaml",
      serviceManifest("reused", clusterIps, endpoints, { ipFamilyPolicy: "RequireDualStack" }),
    );
    const place = { name: "node1", namespace: nodes.node1.node, addresses: byFamily(nodes.node1.addresses) };
    policyd.put("node.json", listOf([nodeManifest(place, nodes.node1.podCidrs.map(formatCidr))]));
    daemon = await policyd.start();
    await succeed(startCall("ADD", nodes.node1, resident, "open", policyd.overrides));
    const own = (): string => nodes.node1.node.exec("nft", ["list", "set", "inet", "drawbridge-policy", "own4"]);
    assert.ok(await eventually(() => own().includes("10.244.1.0/24")), own());
    others = [resident, { namespace: nodes.node2.node, addresses: byFamily(nodes.node2.addresses) }];
  });

  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.close();
    for (const pod of pods.splice(0)) {
      await succeed(startCall("DEL", nodes.node1, pod, "any", policyd.overrides));
      lab.remove(pod.namespace);
      policyd.put(`${pod.namespace.name}.json`, "");
    }
  });

  leavesUnchanged(() => lab);

  const open = ({ namespace, addresses }: Neighbour, family: Family, port: number): ProbeSocket => {
    const socket = ProbeSocket.open(namespace, family, SocketType.DATAGRAM);
    sockets.push(socket);
    assert.equal(socket.bindOwn(family, port, addresses[family]), 0, `port ${port} of ${namespace.name}`);
    return socket;
  };

  /** Opens the sockets of the other parties, which stay the same for every pod with the address. */
  const openOthers = (): readonly Talker[] =>
    others.flatMap((other) =>
      FAMILIES.map((family) => ({
        other,
        family,
        client: open(other, family, CLIENT_PORT),
        server: open(other, family, SERVER_PORT),
      })),
    );

  /** Returns the ways between a pod and the other parties: from either side, by the Service and by the host port. */
  const waysOf = (talkers: readonly Talker[], pod: ComingPod): readonly Way[] => {
    const servers = new Map(FAMILIES.map((family) => [family, open(pod, family, TARGET_PORT)]));
    const clients = new Map(FAMILIES.map((family) => [family, open(pod, family, CLIENT_PORT)]));
    return talkers.flatMap(({ other, family, client, server }): readonly Way[] => {
      const [at, from] = [servers.get(family), clients.get(family)];
      assert.ok(at !== undefined && from !== undefined);
      const name = `${other.namespace.name}, IPv${family}`;
      const node = byFamily(nodes.node1.addresses)[family];
      return [
        { title: `from ${name}`, from: client, to: { address: pod.addresses[family], port: TARGET_PORT }, at },
        { title: `to ${name}`, from, to: { address: other.addresses[family], port: SERVER_PORT }, at: server },
        other === resident
          ? { title: `Service, ${name}`, from: client, to: { address: VIRTUAL[family], port: SERVICE_PORT }, at }
          : { title: `host port, ${name}`, from: client, to: { address: node, port: HOST_PORT }, at },
      ];
    });
  };

  /**
   * Sends a datagram each way, and returns the titles of the ways by which it arrives.
   *
   * @param isPatient whether to wait until all have arrived
   */
  const passing = async (ways: readonly Way[], isPatient: boolean): Promise<readonly string[]> => {
    const sent = ways.map((way) => ({ ...way, token: newToken() }));
    for (const { from, to, token } of sent) from.sendTo(token, to);
    const arrived = new Set<string>();
    const look = (): boolean => {
      for (const at of new Set(sent.map((one) => one.at))) {
        for (const next of at.drain()) {
          if (next.kind !== "data") continue;
          for (const { title, token } of sent) if (carries(next.data, token)) arrived.add(title);
        }
      }
      return arrived.size === sent.length;
    };
    // The sender's own call takes a datagram through the namespaces, so a datagram that passes is there soon.
    if (isPatient) await eventually(look);
    else await pause(100);
    look();
    return [...arrived].sort();
  };

  const titles = (ways: readonly Way[]): readonly string[] => ways.map(({ title }) => title).sort();

  const attach = async (pod: ComingPod, namespace: string, changes: Configuration = {}): Promise<void> =>
    succeed(startCall("ADD", nodes.node1, pod, namespace, { ...policyd.overrides, ...changes }));

  const detach = async (pod: ComingPod): Promise<void> => {
    await succeed(startCall("DEL", nodes.node1, pod, "any", policyd.overrides));
    for (const socket of sockets.splice(OTHERS_SOCKETS)) socket.close();
    const neighbours = nodes.node1.node.exec("ip", ["neigh", "show", "nud", "permanent"]);
    for (const family of FAMILIES)
      assert.ok(!neighbours.includes(`${formatAddress(pod.addresses[family])} `), neighbours);
  };

  const newPod = (
    name: string,
    namespace: string,
    { labels = {}, host = HOST }: { readonly labels?: Readonly<Record<string, string>>; readonly host?: number } = {},
  ): ComingPod => {
    const pod = comingPod(lab, name, host);
    pods.push(pod);
    policyd.put(`${name}.json`, listOf([podObject(namespace, name, { labels })]));
    return pod;
  };

  /** Attaches a pod to which everything is allowed, and returns it once a datagram has passed each way. */
  const letTalk = async (talkers: readonly Talker[]): Promise<ComingPod> => {
    const pod = newPod("first", "allow");
    await attach(pod, "allow", PORT_MAPPED);
    const ways = waysOf(talkers, pod);
    // The daemon knows the Service's endpoint a moment later than the pod.
    await until(async () => (await passing(ways, true)).length === ways.length, "all ways are open");
    return pod;
  };

  /**
   * Removes a pod's reservations, and runs an ADD that gets its addresses. The daemon stands still until the ADD has
   * reserved them, because it would restore what is removed (STATE-07).
   */
  const withoutReservations = async (holder: ComingPod, add: () => Promise<void>): Promise<void> => {
    const files = FAMILIES.map((family) =>
      path.join(nodes.node1.node.dataDir, "drawbridge", formatAddress(holder.addresses[family])),
    );
    await daemon.pause();
    for (const file of files) rmSync(file);
    // An entry of a pod with a record would keep the address (IPAM-05).
    for (const family of FAMILIES) {
      const address = formatAddress(holder.addresses[family]);
      nodes.node1.node.exec("ip", ["neighbour", "del", address, "dev", "cni0"]);
    }
    const added = add();
    assert.ok(await eventually(() => files.every((file) => existsSync(file))), "the ADD reserves the addresses");
    daemon.child.kill("SIGCONT");
    await added;
  };

  /** Ways to detach a pod, whose peers keep sending. */
  const DETACHMENTS: readonly (readonly [title: string, detached: (pod: ComingPod) => Promise<void>])[] = [
    ["after an allowed pod's DEL", detach],
    [
      "after a DEL without the daemon, which is back,",
      async (pod) => {
        await policyd.kill();
        await detach(pod);
        daemon = await policyd.start();
      },
    ],
    [
      "after the DEL of a pod that the daemon does not know",
      async (pod) => {
        await policyd.kill();
        const { containerId } = pod.namespace;
        rmSync(path.join(nodes.node1.node.runDir, "attachments", "drawbridge", `${containerId}:eth0.json`));
        daemon = await policyd.start();
        await daemon.statusWhen(({ attachments }) => attachments === 1, "the other record is read");
        await detach(pod);
      },
    ],
  ];
  for (const [title, detached] of DETACHMENTS) {
    it(`POD-20: ${title} no flow of it gets through to the denied pod with its addresses`, async () => {
      const talkers = openOthers();
      await detached(await letTalk(talkers));
      const next = newPod("next", "deny");
      await attach(next, "deny");
      const ways = waysOf(talkers, next);
      for (let round = 0; round < 3; round++) assert.deepEqual(await passing(ways, false), []);
    });
  }

  it("POD-20: after a DEL without the daemon no flow gets through to the next pod, closed or with the daemon back", async () => {
    const talkers = openOthers();
    const first = await letTalk(talkers);
    await policyd.kill();
    await detach(first);
    const next = newPod("next", "deny");
    await attach(next, "deny", policyd.overridesWith({ wait: "1ms", onUnavailable: "closed" }));
    const ways = waysOf(talkers, next);
    for (let round = 0; round < 3; round++) assert.deepEqual(await passing(ways, false), []);
    daemon = await policyd.start();
    await daemon.statusWhen(({ attachments }) => attachments === 2, "the records are read");
    for (let round = 0; round < 10; round++) assert.deepEqual(await passing(ways, false), []);
  });

  it("POL-09: a pod that the daemon does not know yet gets nothing from its node, directly or by a Service", async () => {
    const { node, addresses } = nodes.node1;
    const from = { namespace: node, addresses: byFamily(addresses) };
    const waysTo = (pod: ComingPod): readonly Way[] =>
      FAMILIES.flatMap((family) => {
        const [client, at] = [open(from, family, CLIENT_PORT), open(pod, family, TARGET_PORT)];
        return [
          { title: `Service, IPv${family}`, from: client, to: { address: VIRTUAL[family], port: SERVICE_PORT }, at },
          { title: `IPv${family}`, from: client, to: { address: pod.addresses[family], port: TARGET_PORT }, at },
        ];
      });
    const unknown = newPod("unknown", "open");
    await succeed(startCall("ADD", nodes.node1, unknown, "open", {}));
    const closed = waysTo(unknown);
    for (let round = 0; round < 3; round++) assert.deepEqual(await passing(closed, false), []);
    await succeed(startCall("DEL", nodes.node1, unknown, "open", {}));
    for (const socket of sockets.splice(0)) socket.close();
    const known = newPod("known", "open");
    await attach(known, "open");
    const ways = waysTo(known);
    assert.equal((await passing(ways, true)).length, ways.length);
  });

  it("POD-20 REG-07: an allowed pod after a denied one loses no packet to flows that were denied before", async () => {
    const talkers = openOthers();
    const first = newPod("first", "deny");
    await attach(first, "deny", PORT_MAPPED);
    assert.deepEqual(await passing(waysOf(talkers, first), false), []);
    await detach(first);
    const next = newPod("next", "allow");
    await attach(next, "allow", PORT_MAPPED);
    const ways = waysOf(talkers, next);
    assert.deepEqual(await passing(ways, true), titles(ways));
  });

  it("GUARD-01 POD-20: a pod that still runs when the store forgets its addresses sends nothing as the next pod", async () => {
    const talkers = openOthers();
    const first = newPod("first", "deny");
    await attach(first, "deny");
    const ofFirst = waysOf(talkers, first).filter(({ title }) => title.startsWith("to "));
    assert.deepEqual(await passing(ofFirst, false), []);
    const next = newPod("next", "allow");
    await withoutReservations(first, () => attach(next, "allow"));
    for (let round = 0; round < 3; round++) assert.deepEqual(await passing(ofFirst, false), []);
    const ofNext = waysOf(talkers, next).filter(({ title }) => /^(from|to) /.test(title));
    assert.deepEqual(await passing(ofNext, true), titles(ofNext));
    assert.deepEqual(await passing(ofFirst, false), []);
  });

  for (const isRestarted of [false, true]) {
    it(`POD-20: a pod has no permission by the labels of an earlier pod with its address${isRestarted ? ", nor under a new daemon" : ""}`, async () => {
      const picky = newPod("picky", "picky", { host: 3 });
      await attach(picky, "picky");
      const toPicky = (from: ComingPod): readonly Way[] =>
        FAMILIES.map((family) => ({
          title: `IPv${family}`,
          from: open(from, family, CLIENT_PORT),
          to: { address: picky.addresses[family], port: SERVER_PORT },
          at: servers[family],
        }));
      const servers = { 4: open(picky, 4, SERVER_PORT), 6: open(picky, 6, SERVER_PORT) };
      const first = newPod("first", "picky", { labels: { app: "a" } });
      await attach(first, "picky");
      assert.deepEqual(await passing(toPicky(first), true), ["IPv4", "IPv6"]);
      // The kubelet has reported the addresses; the object outlives the pod's sandbox, and still has them.
      const object = podObject("picky", "first", { labels: { app: "a" }, addresses: first.addresses });
      policyd.put("first.json", listOf([object]));
      await succeed(startCall("DEL", nodes.node1, first, "any", policyd.overrides));
      const next = newPod("next", "picky");
      await attach(next, "picky");
      if (isRestarted) {
        await policyd.kill();
        daemon = await policyd.start();
      }
      const ways = toPicky(next);
      for (let round = 0; round < 3; round++) assert.deepEqual(await passing(ways, false), []);
    });
  }
});
