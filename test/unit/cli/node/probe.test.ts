import assert from "node:assert/strict";
import { probe } from "../../../../cli/node/doctor/checks/probe.ts";
import { diagnose } from "../../../../policyd/problems/diagnose.ts";
import { readCounters, risen } from "../../../../cli/node/doctor/probe/counters.ts";
import type { NodeFacts } from "../../../../cli/node/doctor/facts.ts";
import { type ProbeFlow, probeFlows } from "../../../../cli/node/doctor/probe/flow.ts";
import { type Loss, lossOf } from "../../../../cli/node/doctor/probe/loss.ts";
import { formatAddress, parseAddress } from "../../../../kernel/ip/address.ts";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import type { ChainOverview } from "../../../../kernel/nftables/decode/overview.ts";
import type { TraceEvent } from "../../../../kernel/nftables/decode/trace.ts";
import type { Route } from "../../../../kernel/route/route.ts";
import { link, nodeFacts } from "../../../support/node/node_facts.ts";
import { dropped, INSIDE, probeFlow, traceEvent, vanished } from "../../../support/node/probe_cases.ts";

const SOURCE_PORT = 20_007;
const OURS = "inet drawbridge-probe";

function header(sourcePort: number, destinationPort: number, protocol: "tcp" | "udp" = "tcp"): Partial<TraceEvent> {
  const [source, destination] = [parseAddress("10.244.1.7"), parseAddress("10.244.1.8")];
  const parts = { upperOffset: 20, isLaterFragment: false } as const;
  return { header: { family: 4, source, destination, protocol, sourcePort, destinationPort, ...parts } };
}

const first = header(SOURCE_PORT, 8080);
const answer = header(8080, SOURCE_PORT);
const drop = { isDrop: true, rule: 12n };

function loss(flow: Partial<ProbeFlow>, isAnswered: boolean, ...events: readonly TraceEvent[]): Loss | undefined {
  return lossOf(probeFlow(flow), { sourcePort: SOURCE_PORT, isAnswered, events, counted: ["Ip OutNoRoutes"] });
}

const ROUTE: Route = {
  table: 254,
  family: 4,
  destination: undefined,
  gateway: parseAddress("192.0.2.254"),
  outputInterface: 2,
  source: undefined,
  hasOtherNextHop: false,
  priority: 0,
  protocol: 3,
  onLink: false,
};

/** Returns a route of ours to another node's pods. */
function toNode(number: number, outputInterface: number): Route {
  const destination = parseCidr(`10.244.${number}.0/24`);
  return { ...ROUTE, destination, outputInterface, priority: 107, protocol: 107 };
}

function texts(changes: Partial<NodeFacts>, pods: readonly string[] = ["10.244.1.7", "10.244.1.8"]): readonly string[] {
  const [one = [], other = []] = pods.map((pod) => [parseAddress(pod)]);
  const services = [{ address: parseAddress("10.96.0.1"), port: 443 }];
  return probeFlows(nodeFacts(changes), [one, other], services).map(
    ({ need, protocol, source, destination, port, arrives, length, isTunnelled }) =>
      `${need}: ${protocol} ${length} ${formatAddress(source)} ${formatAddress(destination)}:${port} ${arrives}${isTunnelled ? " by the tunnel" : ""}`,
  );
}

describe("cli/node: the packets of a probe", () => {
  const links = {
    value: [
      link(2, "eth0", { mtu: 1500 }),
      link(3, "drawbridge0", { kind: "bridge", mtu: 1450 }),
      link(5, "drawbridge.vx", { kind: "vxlan" }),
    ],
  };
  const addresses = {
    value: [
      { index: 2, address: parseCidr("192.0.2.1/24") },
      { index: 3, address: parseCidr("10.244.1.1/24") },
    ],
  };

  it("DOCTOR-13: without a default route and other nodes the probe's packets go only to the second pod and to Services", () => {
    assert.deepEqual(texts({ links, addresses, routes: { value: [] } }), [
      "pod to pod: tcp 1450 10.244.1.7 10.244.1.8:8080 answered",
      "pod to pod: udp 1450 10.244.1.7 10.244.1.8:8080 received",
      "node to pod: tcp 1450 10.244.1.1 10.244.1.8:8080 answered",
      "node to pod: udp 1450 10.244.1.1 10.244.1.8:8080 received",
      "pod to a Service: tcp 1450 10.244.1.7 10.96.0.1:443 answered",
    ]);
    assert.deepEqual(texts({ links, addresses }, ["10.244.1.7", "fd00::8"]), [], "no family has two pods");
  });

  it("DOCTOR-13: the probe's packets go to the node's ports that listen, to two nodes by the tunnel and two without, and outside", () => {
    const routes = {
      value: [ROUTE, ...[2, 3, 4].map((one) => toNode(one, 5)), ...[5, 6, 7].map((one) => toNode(one, 2))],
    };
    const ports = { tcpPorts: new Set([22, 6443]), udpPorts: new Set([53, 4789]) };
    const found = texts({ links, addresses, routes, ...ports });
    assert.deepEqual(
      found.filter((text) => /^pod to (node|another node: tcp|outside)/.test(text)),
      [
        "pod to node: udp 64 10.244.1.7 192.0.2.1:53 at a socket",
        "pod to node: tcp 64 10.244.1.7 192.0.2.1:6443 answered",
        "pod to another node: tcp 1450 10.244.1.7 10.244.2.1:9 answered by the tunnel",
        "pod to another node: tcp 1450 10.244.1.7 10.244.3.1:9 answered by the tunnel",
        "pod to another node: tcp 1450 10.244.1.7 10.244.5.1:9 answered",
        "pod to another node: tcp 1450 10.244.1.7 10.244.6.1:9 answered",
        "pod to outside: tcp 64 10.244.1.7 203.0.113.7:443 at a link",
        "pod to outside: udp 64 10.244.1.7 203.0.113.7:53 at a link",
      ],
    );
    assert.ok(found.includes("pod to another node: udp 1450 10.244.1.7 10.244.6.1:9 at a link"));
  });
});

describe("cli/node: where a probe's packet was lost, by the kernel's trace", () => {
  it("DOCTOR-13: the rule that drops a packet is found by the packet's number, with the hook whose chain it passed last", () => {
    const by = traceEvent("inet firewalld", "filter_FWD_public", drop);
    const found = loss({}, false, traceEvent(OURS, "forward-3", first), by);
    assert.deepEqual(found, { kind: "dropped", by, packet: "first", hook: "forward" });
  });

  it("DOCTOR-13: a rule that rejects a packet is found although the sender gets an answer, as of a closed port", () => {
    const by = traceEvent("ip filter", "FORWARD", { ...first, ...drop });
    assert.equal(loss({}, true, by)?.kind, "dropped");
    assert.equal(loss({}, true, traceEvent(OURS, "forward-0", first)), undefined);
  });

  it("DOCTOR-13: a drop of another packet, which has got the number of a packet of the probe, is not the probe's", () => {
    const other = traceEvent("ip filter", "FORWARD", { id: 2, ...header(1, 2), ...drop });
    assert.equal(loss({ arrives: "at a link" }, false, traceEvent(OURS, "postrouting-7", first), other), undefined);
  });

  it("DOCTOR-13: a drop of the tunnel's packet is the loss of a flow that the tunnel carries, and of no other", () => {
    const events = [
      traceEvent(OURS, "postrouting-7", first),
      traceEvent("ip filter", "INPUT", { id: 2, ...header(40_000, 4789, "udp"), ...drop }),
    ];
    assert.equal(loss({ isTunnelled: true }, false, ...events)?.packet, "tunnel");
    assert.equal(loss({}, false, ...events)?.packet, "first");
    for (const other of [header(40_000, 4789), header(40_000, 53, "udp")]) {
      const by = traceEvent("ip filter", "INPUT", { id: 2, ...other, ...drop });
      assert.equal(loss({ isTunnelled: true }, false, by)?.kind, "vanished");
    }
    assert.equal(loss({ isTunnelled: true }, true, ...events), undefined, "an answer came by another packet of it");
  });

  it("DOCTOR-14: a packet that vanishes was last between two chains of the probe, and the answer counts before the first packet", () => {
    const inside = loss({}, false, traceEvent(OURS, "forward-3", first));
    assert.ok(inside?.kind === "vanished");
    assert.deepEqual(inside.last, { family: "inet", hook: "forward", after: -99, before: 1 });
    assert.deepEqual(inside.counted, ["Ip OutNoRoutes"]);
    const back = loss(
      {},
      false,
      traceEvent(OURS, "forward-7", first),
      traceEvent(OURS, "prerouting-7", { id: 2, ...answer }),
    );
    assert.ok(back?.kind === "vanished" && back.packet === "answer" && back.last?.hook === "prerouting");
    const sent = [traceEvent(OURS, "forward-7", { ...first, output: 4 }), traceEvent(OURS, "postrouting-0", first)];
    const left = loss({}, false, ...sent, traceEvent(OURS, "postrouting-7"));
    assert.ok(left?.kind === "vanished" && left.output === 4, "the last link is known");
    const nothing = loss({}, false);
    assert.ok(nothing?.kind === "vanished" && nothing.last === undefined);
  });

  it("DOCTOR-13: a packet without an answer has arrived at a link or a socket only when it has passed the hook's last chain", () => {
    assert.equal(loss({ arrives: "at a link" }, false, traceEvent(OURS, "postrouting-7", first)), undefined);
    assert.notEqual(loss({ arrives: "at a link" }, false, traceEvent(OURS, "postrouting-6", first)), undefined);
    assert.equal(loss({ arrives: "at a socket" }, false, traceEvent(OURS, "input-7", first)), undefined);
    assert.notEqual(loss({ arrives: "at a socket" }, false, traceEvent(OURS, "forward-7", first)), undefined);
    const bridged = traceEvent("bridge drawbridge-probe", "input-1", first);
    assert.notEqual(loss({ arrives: "at a socket" }, false, bridged), undefined);
    assert.notEqual(loss({ arrives: "at a link" }, false, traceEvent(OURS, "forward-7", first)), undefined);
    const back = traceEvent(OURS, "postrouting-7", { id: 2, ...answer });
    assert.equal(
      loss({ arrives: "at a link" }, false, traceEvent(OURS, "postrouting-7", first), back)?.packet,
      "answer",
    );
    assert.notEqual(loss({ arrives: "answered" }, false, traceEvent(OURS, "postrouting-7", first)), undefined);
  });

  it("DOCTOR-14: the kernel's counters are read from both forms of its files, and only those that have risen are named", () => {
    const text = (paths: number, routes: number, routes6: number): readonly string[] => [
      `TcpExt: SyncookiesSent IPReversePathFilter\nTcpExt: 5 ${paths}\nIpExt: InNoRoutes\nIpExt: ${routes}\n`,
      `Ip6InReceives  9\nIp6InNoRoutes  ${routes6}\n`,
    ];
    const before = readCounters(text(1, 2, 3));
    assert.deepEqual(risen(before, readCounters(text(2, 2, 4))), ["TcpExt IPReversePathFilter", "Ip6InNoRoutes"]);
    assert.deepEqual(risen(before, before), []);
  });
});

describe("cli/node: the findings of a probe", () => {
  const chain = (family: string, table: string, name: string): ChainOverview => ({
    family,
    table,
    name,
    dropping: 0,
    base: undefined,
  });

  function findings(lost: readonly { readonly flow: ProbeFlow; readonly loss: Loss }[]): readonly string[] {
    const chains = [chain("ip", "filter", "DOCKER-USER"), chain("ip6", "filter", "ufw6-x"), chain("ip", "a", "ufw-x")];
    const ruleset = { value: { tables: [], chains, markWrites: [] } };
    const legacyTables = ["ip6 filter", "ip raw", "ip filter"];
    const facts = nodeFacts({ ruleset, legacyTables, probed: { value: { lost, failure: undefined } } });
    return diagnose(facts, [probe]).findings.map(({ what, why, way }) => `${what}\n${why}\n${way}`);
  }

  it("DOCTOR-13: packets lost by one rule are one finding, with the rule and the way out of the program that made it", () => {
    const byRule = dropped("ip filter", "FORWARD", { rule: 7n });
    const answers = { ...byRule, packet: "answer" } as const;
    const found = findings([
      { flow: probeFlow(), loss: byRule },
      { flow: probeFlow({ protocol: "udp", port: 53, need: "pod to node" }), loss: answers },
      { flow: probeFlow(), loss: dropped("ip filter", "FORWARD") },
    ]);
    assert.equal(found.length, 2);
    const [one = "", other = ""] = found;
    assert.match(
      one,
      /^chain ip filter FORWARD, hook forward, drops what pods need \(Docker\): pod to pod \(IPv4 TCP\); pod to node \(answers of IPv4 UDP 53\)\n/,
    );
    assert.match(one, /handle 7 of chain FORWARD\niptables -I DOCKER-USER -i drawbridge0 -j ACCEPT/);
    assert.match(other, /policy of FORWARD/);
  });

  it("DOCTOR-13: packets of the tunnel that a rule drops are a finding of their own, with the tunnel's port in the way out", () => {
    const by = dropped("inet filter", "input", { rule: 3n, ...header(40_000, 4789, "udp") });
    const flow = probeFlow({ need: "pod to another node", isTunnelled: true });
    const found = findings([
      { flow, loss: { ...by, packet: "tunnel" } },
      { flow: probeFlow(), loss: by },
    ]);
    assert.equal(found.length, 2);
    assert.match(found[0] ?? "", /: pod to another node \(the tunnel of IPv4 TCP to 10\.244\.1\.8\)\n/);
    assert.match(found[0] ?? "", /\nnft insert rule inet filter input udp dport 4789 accept$/);
    assert.match(found[1] ?? "", /\nnft insert rule inet filter input iifname drawbridge0 accept, or/);
  });

  it("DOCTOR-13: a packet that vanishes in a table of iptables-legacy names this table of its family, and no other", () => {
    const [legacy = "", ...more] = findings([{ flow: probeFlow(), loss: vanished({ last: INSIDE }) }]);
    assert.deepEqual(more, []);
    assert.match(legacy, /^iptables-legacy loses packets in hook forward, table ip filter: pod to pod \(IPv4 TCP\)\n/);
    assert.match(legacy, /nobody sees inside.*\n.* iptables-legacy -t filter -vnL --line-numbers$/);
    const raw = { ...INSIDE, hook: "prerouting", after: -0x7fff_ffff, before: -250 };
    assert.match(findings([{ flow: probeFlow(), loss: vanished({ last: raw }) }])[0] ?? "", /table ip raw:/);
    const mangle = { ...INSIDE, after: -250, before: -149 };
    assert.match(
      findings([{ flow: probeFlow(), loss: vanished({ last: mangle }) }])[0] ?? "",
      /^packets are lost in hook/,
    );
  });
});
