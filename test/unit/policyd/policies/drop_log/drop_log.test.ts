import assert from "node:assert/strict";
import * as fc from "fast-check";
import { DrawbridgeError } from "../../../../../kernel/error.ts";
import { FakeKernelNotifications } from "../../../../support/daemon/fake_notifications.ts";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { FakeClock } from "../../../../support/fake_clock.ts";
import { recordingLogger } from "../../../../support/recording_logger.ts";
import { logPrefix } from "../../../../../policyd/policies/compile/log_prefix.ts";
import type { AffectedAddresses } from "../../../../../policyd/policies/live/pods/affected_addresses.ts";
import { DropLog } from "../../../../../policyd/policies/drop_log/drop_log.ts";
import { FlowLimiter } from "../../../../../policyd/policies/drop_log/flow_limiter.ts";
import { loggedFlow } from "../../../../../policyd/policies/drop_log/logged_flow.ts";
import { parseLoggedPacket } from "../../../../../kernel/packets/logged_packet.ts";
import { MOST_PAIRS } from "../../../../../policyd/policies/policy_size.ts";
import { storeOf } from "../../../../support/evaluate/store.ts";
import { loggedMessage, packetBetween, ports } from "../../../../support/policy/logged_packet.ts";
import { storeView } from "../../../../support/policy/store_view.ts";
import { addressOf, threeByThree } from "../../../../support/policy/three_by_three.ts";
import { roundsFor } from "../../../../support/long_form.ts";

const KEY = "0123456789abcdef";
const PREFIX = {
  ingress: logPrefix({ direction: "ingress", key: KEY, outcome: "drop" }),
  egress: logPrefix({ direction: "egress", key: KEY, outcome: "drop" }),
  shadow: logPrefix({ direction: "ingress", key: KEY, outcome: "would drop" }),
};
const [TCP, UDP, ICMP, GRE] = [6, 17, 1, 47];
const FROM_A = { from: [{ podSelector: { matchLabels: { pod: "a" } } }], ports: [{ port: 80 }] };

function policy(name: string, spec: object, annotations: Record<string, string> = {}): object {
  const metadata = { name, namespace: "x", annotations };
  return { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", metadata, spec };
}

const WEB = policy("web", { podSelector: { matchLabels: { pod: "c" } }, ingress: [FROM_A] });

function between(from: string, to: string, protocol: number, upper: Uint8Array): Uint8Array {
  const address = (end: string) => parseAddress(end.includes("/") ? addressOf(end) : end);
  return packetBetween(address(from), address(to), protocol, upper);
}

async function setUp(objects: readonly object[]) {
  const [events, clock, logger] = [new FakeKernelNotifications(), new FakeClock(), recordingLogger()];
  const log = new DropLog({
    group: 107,
    view: storeView(storeOf([...threeByThree(), ...objects])),
    options: { policePodToOwnNode: false, nodeLocalDNS: [] },
    logger,
    clock,
  });
  await log.start(events);
  const emit = (prefix: string, ...packets: readonly Uint8Array[]): void => {
    events.emit(
      "nflog",
      packets.map((packet) => loggedMessage(prefix, packet)),
    );
    clock.pass(0);
  };
  return { events, clock, logger, log, emit };
}

describe("policyd/policies/drop_log: lines", () => {
  it("DROP-01: peers are named as pods, nodes or addresses, and the pod of an egress line is the source", async () => {
    const deny = policy("deny", { podSelector: {}, policyTypes: ["Egress"] });
    const { emit, logger } = await setUp([deny]);
    emit(
      PREFIX.egress,
      between("x/a", "y/b", UDP, ports(1, 53)),
      between("x/a", "10.240.0.2", TCP, ports(1, 443)),
      between("x/a", "192.0.2.1", ICMP, Uint8Array.of(8, 0, 0, 0)),
      between("x/a", "192.0.2.1", GRE, new Uint8Array(4)),
    );
    assert.deepEqual(
      logger.lines.map(({ fields: { pod, peer, protocol, port, policies, nearest } }) => [
        pod,
        peer,
        protocol,
        port,
        policies,
        nearest,
      ]),
      [
        ["x/a", "y/b", "UDP", 53, "x/deny", "none: they have no rules"],
        ["x/a", "node/node-y", "TCP", 443, "x/deny", "none: they have no rules"],
        ["x/a", "192.0.2.1", "ICMP", undefined, "x/deny", "none: they have no rules"],
        ["x/a", "192.0.2.1", "protocol 47", undefined, "x/deny", "none: they have no rules"],
      ],
    );
  });

  it("DROP-01: a drop by a ClusterNetworkPolicy names its Deny rule", async () => {
    const cluster = {
      apiVersion: "policy.networking.k8s.io/v1alpha2",
      kind: "ClusterNetworkPolicy",
      metadata: { name: "apart" },
      spec: {
        tier: "Admin",
        priority: 3,
        subject: { namespaces: {} },
        ingress: [{ action: "Deny", from: [{ namespaces: { matchLabels: { ns: "y" } } }] }],
      },
    };
    const { emit, logger } = await setUp([cluster]);
    emit(PREFIX.ingress, between("y/a", "x/a", TCP, ports(1, 80)));
    const because = logger.lines[0]?.fields["because"];
    assert.equal(because, "Deny of ClusterNetworkPolicy apart ingress[0], from[0] (Admin tier, priority 3)");
  });

  it("DROP-01: a packet that the present policies would allow has a line that says so", async () => {
    const { emit, logger } = await setUp([]);
    emit(PREFIX.ingress, between("x/b", "x/c", TCP, ports(1, 80)), between("x/b", "192.0.2.7", TCP, ports(1, 80)));
    emit(PREFIX.shadow, between("x/a", "x/c", TCP, ports(1, 80)));
    assert.deepEqual(
      logger.lines.map(({ fields }) => [fields["pod"], fields["because"]]),
      [
        ["x/c", "policies allow it by now"],
        [undefined, "no pod has the address by now"],
        ["x/c", "policies allow it by now"],
      ],
    );
  });
});

describe("policyd/policies/drop_log: policies that are too large to allow anything", () => {
  it("DROP-01 POL-73: a drop by a policy that is too large names that policy, and does not claim to be allowed by now", async () => {
    const big = (pairs: number, annotations: Record<string, string> = {}): object => {
      const from = Array.from({ length: pairs }, () => ({ podSelector: {} }));
      return policy("big", { podSelector: { matchLabels: { pod: "c" } }, ingress: [{ from }] }, annotations);
    };
    for (const [one, prefix, ...expected] of [
      [big(MOST_PAIRS + 1), PREFIX.ingress, undefined, "x/big", "x/big", "none: they are too large"],
      [
        big(MOST_PAIRS + 1, { "drawbridge.dev/shadow": "true" }),
        PREFIX.shadow,
        undefined,
        "x/big",
        "x/big",
        "none: they are too large",
      ],
      [big(MOST_PAIRS), PREFIX.ingress, "policies allow it by now", undefined, undefined, undefined],
    ] as const) {
      const { emit, logger } = await setUp([one]);
      emit(prefix, between("x/a", "x/c", TCP, ports(1, 80)));
      const [{ fields: { because, policies, tooLarge, nearest } } = assert.fail()] = logger.lines;
      assert.deepEqual([because, policies, tooLarge, nearest], expected);
    }
  });
});

describe("policyd/policies/drop_log: hostile packets", () => {
  it("DROP-05: a logged message that is not from our rules or not a packet is counted and has no line", async () => {
    const { emit, events, log, logger } = await setUp([WEB]);
    const packet = between("x/b", "x/c", TCP, ports(1, 80));
    for (const prefix of ["", "drawbridge", `drawbridge ingress ${KEY}`, `${PREFIX.ingress} `, `x${PREFIX.ingress}`]) {
      emit(prefix, packet);
    }
    emit(PREFIX.ingress, new Uint8Array(0), packet.subarray(0, 19), Uint8Array.of(0x50));
    events.emit("nflog", [{ type: 0x400, flags: 0, sequence: 0, body: Uint8Array.of(2, 0, 0, 107, 5, 0, 1, 0) }]);
    assert.equal(logger.lines.length, 0);
    assert.equal(log.counts()["not ours"], 9);
  });

  it("DROP-05: any bytes give a flow in the model's terms or none, and never an exception", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 128 }), fc.constantFrom(0x45, 0x46, 0x4f, 0x60), (bytes, first) => {
        const packet = Uint8Array.of(first, ...bytes.subarray(1));
        const parsed = parseLoggedPacket(loggedMessage(PREFIX.egress, packet));
        const flow = parsed && loggedFlow(parsed);
        if (flow === undefined) return;
        const { traffic } = flow;
        assert.ok(traffic.protocol === "ICMP" || (traffic.port !== undefined && traffic.port <= 65_535));
      }),
      { numRuns: roundsFor("random cases", 1000, 10_000) },
    );
  });
});

describe("policyd/policies/drop_log: limits", () => {
  it("DROP-05: a flow is logged once a minute, whatever its source port", async () => {
    const { emit, logger, log, clock } = await setUp([WEB]);
    for (let i = 0; i < 5; i++) emit(PREFIX.ingress, between("x/b", "x/c", TCP, ports(40_000 + i, 80)));
    assert.equal(logger.lines.length, 1);
    assert.equal(log.counts().repeated, 4);
    clock.pass(60_000);
    emit(PREFIX.ingress, between("x/b", "x/c", TCP, ports(1, 80)));
    assert.equal(logger.lines.length, 2);
  });

  it("DROP-05: a flow whose verdict may have changed is logged again", async () => {
    const { emit, logger, log } = await setUp([WEB]);
    const send = (): void => emit(PREFIX.ingress, between("x/b", "x/c", TCP, ports(1, 80)));
    send();
    const changed = (addresses: AffectedAddresses): void => log.verdictsChanged({ addresses, withFlows: new Set() });
    changed(new Set([parseAddress(addressOf("x/a"))]));
    send();
    assert.equal(logger.lines.length, 1);
    changed(new Set([parseAddress(addressOf("x/b"))]));
    send();
    assert.equal(logger.lines.length, 2);
    changed("all");
    send();
    assert.equal(logger.lines.length, 3);
  });

  it("DROP-05: in a flood a bounded number of flows is explained, and memory is bounded by that", async () => {
    const { emit, logger, log, clock } = await setUp([WEB]);
    const flood = (count: number, first: number): void => {
      for (let i = 0; i < count; i++) emit(PREFIX.ingress, between("x/b", "x/c", TCP, ports(1, first + i)));
    };
    flood(1000, 1);
    assert.equal(logger.lines.length, 100);
    assert.equal(log.counts()["too many"], 800, "100 wait");
    clock.pass(1000);
    flood(1000, 2000);
    assert.equal(logger.lines.length, 120);
    clock.pass(10_000);
    assert.deepEqual(logger.lines.slice(220), [
      { level: "warn", message: "logged packets have no line: too many", fields: { packets: 800 + 980 } },
    ]);
    clock.pass(60_000);
    assert.equal(logger.lines.length, 221, "the loss is logged once");
  });

  it("DROP-05: after an explanation no other begins for 49 times as long, so that it takes a fiftieth of the time", () => {
    const pace = new FlowLimiter();
    pace.explained(1000, 1014);
    assert.deepEqual([pace.wait(1014), pace.wait(1014 + 14 * 49)], [14 * 49, 0]);
  });

  for (const [sender, isTenant] of [
    ["y/a", true],
    ["10.9.9.9", false],
  ] as const) {
    it(`SHARE-06: a denied flood from ${sender} delays no line of others, and has its lines in its own namespace`, async () => {
      const { emit, logger, clock, log } = await setUp([WEB]);
      const sendersOf = (): readonly unknown[] => logger.lines.map(({ fields }) => fields["source"]);
      const flood = (first: number): void => {
        for (let i = 0; i < 1000; i++) emit(PREFIX.ingress, between(sender, "x/c", TCP, ports(1, first + i)));
      };
      flood(1);
      flood(2000);
      assert.equal(sendersOf().length, 100);
      // The whole burst is used, and the maximum number of flows waits.
      emit(PREFIX.ingress, between("x/b", "x/c", TCP, ports(1, 80)));
      flood(4000);
      clock.pass(150);
      const place = sendersOf().indexOf(addressOf("x/b"));
      assert.ok(place >= 100 && place <= 102, `line ${place} of ${sendersOf().length}`);
      assert.equal(logger.namespaces[place], "x");
      assert.equal(logger.namespaces[0], isTenant ? "y" : "");
      assert.equal(log.counts()["too many"], 2800 + 1);
    });
  }
});

describe("policyd/policies/drop_log: the log group", () => {
  it("DROP-06: a log group of another program is reported once and retried, and a source that ends is opened again", async () => {
    const [events, clock, logger] = [new FakeKernelNotifications(), new FakeClock(), recordingLogger()];
    const view = storeView(storeOf([]));
    const log = new DropLog({
      group: 107,
      view,
      options: { policePodToOwnNode: false, nodeLocalDNS: [] },
      logger,
      clock,
    });
    events.refuseNext("nflog", new DrawbridgeError("ERR_NETLINK", "bind log group 107: EPERM"));
    await log.start(events);
    assert.equal(events.sources.length, 0);
    assert.deepEqual(log.problems(), ["drop log: group 107 is not read: bind log group 107: EPERM"]);
    events.refuseNext("nflog", new DrawbridgeError("ERR_NETLINK", "bind log group 107: EPERM"));
    clock.pass(5000);
    await Promise.resolve();
    clock.pass(5000);
    await new Promise(setImmediate);
    clock.pass(5000);
    await new Promise(setImmediate);
    assert.deepEqual(
      logger.lines.map(({ message }) => message),
      [
        "the kernel sends no packets to the drop log; the subscription is retried",
        "the kernel sends packets to the drop log now",
      ],
    );
    assert.equal(events.sources.length, 1);
    assert.deepEqual(log.problems(), []);
    log.stop();
    assert.equal(events.sources.length, 0);
    assert.equal(clock.pending, 0);
  });

  it("DROP-06: lost packets are counted", async () => {
    const { events, log } = await setUp([]);
    events.overrun("nflog");
    assert.equal(log.counts().overruns, 1);
  });
});
