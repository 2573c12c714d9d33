import assert from "node:assert/strict";
import { readCounters, risen } from "../../../../cli/node/doctor/probe/counters.ts";
import type { ProbeFlow } from "../../../../cli/node/doctor/probe/flow.ts";
import { type Loss, lossOf } from "../../../../cli/node/doctor/probe/loss.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import type { TraceEvent } from "../../../../kernel/nftables/decode/trace.ts";
import { probeFlow, traceEvent } from "../../../support/node/probe_cases.ts";

const SOURCE_PORT = 20_007;
const OURS = "inet drawbridge-probe";

function header(sourcePort: number, destinationPort: number, protocol: "tcp" | "udp" = "tcp"): Partial<TraceEvent> {
  const [source, destination] = [parseAddress("10.244.1.7"), parseAddress("10.244.1.8")];
  const parts = { icmp: undefined, isLaterFragment: false } as const;
  return { header: { family: 4, source, destination, protocol, sourcePort, destinationPort, ...parts } };
}

const first = header(SOURCE_PORT, 8080);
const answer = header(8080, SOURCE_PORT);
const drop = { isDrop: true, rule: 12n };

function loss(flow: Partial<ProbeFlow>, isAnswered: boolean, ...events: readonly TraceEvent[]): Loss | undefined {
  return lossOf(probeFlow(flow), { sourcePort: SOURCE_PORT, isAnswered, events, counted: ["Ip OutNoRoutes"] });
}

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
    const nothing = loss({}, false);
    assert.ok(nothing?.kind === "vanished" && nothing.last === undefined);
  });

  it("DOCTOR-13: a packet without an answer has arrived at a link or a socket only when it has passed the hook's last chain", () => {
    assert.equal(loss({ arrives: "at a link" }, false, traceEvent(OURS, "postrouting-7", first)), undefined);
    assert.notEqual(loss({ arrives: "at a link" }, false, traceEvent(OURS, "postrouting-6", first)), undefined);
    assert.equal(loss({ arrives: "at a socket" }, false, traceEvent(OURS, "input-7", first)), undefined);
    assert.notEqual(loss({ arrives: "at a socket" }, false, traceEvent(OURS, "forward-7", first)), undefined);
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
