import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { type Family, FAMILIES } from "../../../../kernel/ip/address.ts";
import { type NftablesCounters, nftablesCounters } from "../../../../kernel/nftables/decode/counters.ts";
import type { Configuration } from "../../../lab/cni.ts";
import { createLab, type Lab } from "../../../lab/lab.ts";
import type { LabNamespace } from "../../../lab/namespace.ts";
import { ProbeSocket, SocketType } from "../../../lab/probe/socket.ts";
import { setBridgeNetfilter, type TwoNodes, twoNodes } from "../../../lab/topology.ts";
import { carries, newToken } from "../../../support/guard/token.ts";
import { eventually } from "../../../support/guard/guarded_node.ts";
import {
  byFamily,
  type ComingPod,
  comingPod,
  listOf,
  namespaceObjects,
  type Neighbour,
  podObject,
  startCall,
  succeed,
} from "../../../support/policy/first_packet/coming_pod.ts";
import { type Link, Siege } from "../../../support/policy/first_packet/siege.ts";
import { PolicydNode } from "../../../support/daemon/policyd_node.ts";
import { requireBridgeNetfilter, requireKernel } from "../../../support/privilege.ts";
import { roundsFor } from "../../../support/long_form.ts";

/** The number of pods of each kind that are added at once. */
const TOGETHER = 10;
const ROUNDS = roundsFor("rounds", 2, 40);
/** The port of forbidden packets, and the ports of those that must arrive, below the ones the kernel chooses. */
const FORBIDDEN = 7001;
const FIRST_PORT = 10_000;
const LAST_PORT = 30_000;
const COUNTER = { family: "inet", name: "count" } as const;
/** Matches of packets from the node's pods, which are counted outside of pods, and of all packets, counted in a pod. */
const FROM_PODS = ["ip saddr 10.244.1.0/24", "ip6 saddr fd00:244:1::/64"];
const FROM_ANYBODY = ["meta l4proto udp"];
const RESIDENT = "resident";
const NAMESPACES = { open: undefined, deny: [], allow: [{}] };
type NamespaceName = keyof typeof NAMESPACES;

describe("the first packet of a pod", function () {
  this.timeout(300_000);
  let lab: Lab;
  let nodes: TwoNodes;
  let policyd: PolicydNode;
  let counters: NftablesCounters;
  let resident: Neighbour;
  let link: Link;
  let number = 0;
  let port = FIRST_PORT;
  const present = new Set<ComingPod>();

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    lab = createLab("first-packet");
    nodes = twoNodes(lab, { bridgeNetfilter: true });
    policyd = new PolicydNode(lab, nodes.node1, "60s");
    counters = nftablesCounters(lab.calls);
    policyd.put("policies.json", listOf(namespaceObjects(NAMESPACES)));
    policyd.put("resident.json", listOf([podObject("open", RESIDENT)]));
    await policyd.start();
    const pod = comingPod(lab, RESIDENT, 2);
    await attach(pod, "open");
    const bridgeMac = nodes.node1.node.link("cni0").mac;
    assert.ok(bridgeMac !== undefined);
    link = { bridgeMac, interfaceIndex: pod.namespace.link("eth0").index };
    resident = pod;
    present.clear();
    for (const namespace of [pod.namespace, nodes.node2.node, nodes.router]) count(namespace, FROM_PODS);
  });

  after(async () => {
    await policyd?.kill();
    lab?.destroy();
  });

  const count = (namespace: LabNamespace, sources: readonly string[]): void => {
    const rules = sources.map((source) => `${source} udp dport ${FORBIDDEN} counter comment "forbidden"`);
    const chain = ["chain c {", "type filter hook prerouting priority -300", ...rules, "}"];
    namespace.exec("nft", ["-f", "-"], ["table inet count {", ...chain, "}", ""].join("\n"));
  };

  /** Returns how many forbidden packets the namespaces have received. */
  const received = (...namespaces: readonly LabNamespace[]): number =>
    namespaces
      .flatMap((namespace) => namespace.inside(() => [...counters.rules(COUNTER, "c")].flat()))
      .reduce((sum, { packets }) => sum + packets, 0);

  const neighbours = (): readonly Neighbour[] => [
    resident,
    { namespace: nodes.node2.node, addresses: byFamily(nodes.node2.addresses) },
    { namespace: nodes.router, addresses: byFamily(nodes.node1.routerAddresses) },
  ];

  const attach = async (pod: ComingPod, namespace: NamespaceName, changes: Configuration = {}): Promise<void> => {
    present.add(pod);
    await succeed(startCall("ADD", nodes.node1, pod, namespace, { ...policyd.overrides, ...changes }));
  };

  const detachAll = async (): Promise<void> => {
    const pods = [...present];
    present.clear();
    await Promise.all(pods.map((pod) => succeed(startCall("DEL", nodes.node1, pod, "any", policyd.overrides))));
    for (const { namespace } of pods) lab.remove(namespace);
  };

  afterEach(async () => {
    await detachAll();
  });

  /** Makes two kinds of pods. Each kind gets the addresses that the other kind had before. */
  const twoKinds = (): { readonly denied: readonly ComingPod[]; readonly allowed: readonly ComingPod[] } => {
    const round = number++;
    const kind = (name: string, first: number): readonly ComingPod[] =>
      Array.from({ length: TOGETHER }, (_, i) => comingPod(lab, `${name}-${round}-${i}`, first + i));
    const [first, second] = round % 2 === 0 ? [10, 30] : [30, 10];
    const kinds = { denied: kind("denied", first), allowed: kind("allowed", second) };
    for (const { namespace } of kinds.denied) count(namespace, FROM_ANYBODY);
    const object = (namespace: NamespaceName) => (pod: ComingPod) => podObject(namespace, pod.namespace.name);
    policyd.put("pods.json", listOf([...kinds.denied.map(object("deny")), ...kinds.allowed.map(object("allow"))]));
    return kinds;
  };

  /** Sends one datagram each way between a pod and others, in both families; settles when all have arrived. */
  const exchange = async (pod: ComingPod, others: readonly Neighbour[]): Promise<void> => {
    const sockets: ProbeSocket[] = [];
    const missing = new Map<string, { readonly at: ProbeSocket; readonly token: Uint8Array }>();
    const open = ({ namespace, addresses }: Neighbour, family: Family, own: number): ProbeSocket => {
      const socket = ProbeSocket.open(namespace, family, SocketType.DATAGRAM);
      sockets.push(socket);
      assert.equal(socket.bindOwn(family, own, addresses[family]), 0, `port ${own} of ${namespace.name}`);
      return socket;
    };
    const sendOnce = (from: Neighbour, to: Neighbour, family: Family): void => {
      // The sockets of one test are open at the same time, some in the same namespace.
      port = port === LAST_PORT ? FIRST_PORT : port + 1;
      const token = newToken();
      missing.set(`${from.namespace.name} to ${to.namespace.name}, IPv${family}`, {
        at: open(to, family, port),
        token,
      });
      assert.ok(open(from, family, 0).sendTo(token, { address: to.addresses[family], port }) > 0);
    };
    try {
      for (const family of FAMILIES) {
        for (const other of others) {
          sendOnce(pod, other, family);
          sendOnce(other, pod, family);
        }
      }
      await eventually(() => {
        for (const [what, { at, token }] of missing) {
          const hasArrived = [...at.drain()].some((next) => next.kind === "data" && carries(next.data, token));
          if (hasArrived) missing.delete(what);
        }
        return missing.size === 0;
      });
      assert.deepEqual([...missing.keys()], [], "datagrams sent once that do not arrive");
    } finally {
      for (const socket of sockets) socket.close();
    }
  };

  it("the senders of this test reach an open pod, and the counters see all their packets", async () => {
    const pod = comingPod(lab, "control", 9);
    policyd.put("control.json", listOf([podObject("open", "control")]));
    count(pod.namespace, FROM_ANYBODY);
    using siege = new Siege([pod], neighbours(), link, FORBIDDEN);
    let isThere = false;
    const added = attach(pod, "open").then(() => (isThere = true));
    await Promise.all([added, siege.until(() => isThere, 50)]);
    for (const [kind, taken] of Object.entries(siege.taken)) assert.ok(taken > 0, kind);
    for (const { namespace } of [pod, ...neighbours()]) assert.ok(received(namespace) > 0, namespace.name);
  });

  it(`POL-09 REG-07: under deny-all not one packet passes, under allow-all the first one does: ${ROUNDS * TOGETHER} ADDs each`, async () => {
    const places = neighbours().map(({ namespace }) => namespace);
    const before = received(...places);
    for (let round = 0; round < ROUNDS; round++) {
      setBridgeNetfilter(nodes.node1.node, round % 2 === 1);
      const { denied, allowed } = twoKinds();
      using siege = new Siege(denied, neighbours(), link, FORBIDDEN);
      let isThere = false;
      const added = Promise.all([
        ...denied.map((pod) => attach(pod, "deny")),
        ...allowed.map(async (pod) => {
          await attach(pod, "allow");
          await exchange(pod, neighbours());
        }),
      ]).finally(() => (isThere = true));
      await Promise.all([added, siege.until(() => isThere)]);
      for (const [kind, taken] of Object.entries(siege.taken)) assert.ok(taken > TOGETHER, `${kind} ${taken}`);
      assert.equal(received(...denied.map(({ namespace }) => namespace)), 0, "into the pods");
      assert.equal(received(...places) - before, 0, "out of the pods");
      assert.equal(denied[0]?.namespace.link("eth0").index, link.interfaceIndex);
      await detachAll();
    }
  });

  it("POL-09 REG-06: with onUnavailable closed nothing passes until the daemon starts, then only packets that policies allow", async () => {
    await policyd.kill();
    const closed = policyd.overridesWith({ wait: "1ms", onUnavailable: "closed" });
    const places = neighbours().map(({ namespace }) => namespace);
    const before = received(...places);
    const { denied, allowed } = twoKinds();
    for (const { namespace } of allowed) count(namespace, FROM_ANYBODY);
    const all = [...denied, ...allowed];
    {
      using siege = new Siege(all, neighbours(), link, FORBIDDEN);
      let isThere = false;
      const added = Promise.all([
        ...denied.map((pod) => attach(pod, "deny", closed)),
        ...allowed.map((pod) => attach(pod, "allow", closed)),
      ]).finally(() => (isThere = true));
      await Promise.all([added, siege.until(() => isThere, 50)]);
    }
    assert.equal(received(...places, ...all.map(({ namespace }) => namespace)) - before, 0, "without the daemon");
    {
      using siege = new Siege(denied, neighbours(), link, FORBIDDEN);
      let isThere = false;
      const started = policyd
        .start()
        .then((daemon) => daemon.statusWhen(({ attachments }) => attachments === all.length + 1, "records read"))
        .finally(() => (isThere = true));
      await Promise.all([started, siege.until(() => isThere)]);
      for (const pod of allowed) await untilReached(pod);
      await siege.until(() => true);
    }
    assert.equal(received(...places, ...denied.map(({ namespace }) => namespace)) - before, 0, "with the daemon");
    await policyd.kill();
    await detachAll();
    await policyd.start();
  });

  /** Exchanges with a pod until it works: its rules are in force some milliseconds after the daemon has read all. */
  const untilReached = async (pod: ComingPod): Promise<void> => {
    for (let left = 50; ; left--) {
      try {
        return await exchange(pod, [resident]);
      } catch (error) {
        if (left === 0) throw error;
        await turn();
      }
    }
  };
});
