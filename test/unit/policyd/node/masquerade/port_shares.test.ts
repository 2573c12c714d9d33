import assert from "node:assert/strict";
import { DrawbridgeError } from "../../../../../kernel/error.ts";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import type { Chain } from "../../../../../kernel/nftables/model/object.ts";
import { FakeClock } from "../../../../support/fake_clock.ts";
import type { DesiredElement } from "../../../../../policyd/ruleset/desired/desired_element.ts";
import { readScenario } from "../../../../support/services/scenario.ts";
import { ServicePorts } from "../../../../../policyd/node/masquerade/service_ports.ts";
import { recordingLogger } from "../../../../support/recording_logger.ts";
import { PortShares, type SharingAttachment } from "../../../../../policyd/node/masquerade/port_shares.ts";
import { type NodePorts, sizeOf } from "../../../../../policyd/node/masquerade/port_ranges.ts";
import type { PortRange } from "../../../../../kernel/ip/port_range.ts";

/** Ports that a test sets. */
class FakeNodePorts {
  ports: NodePorts = { local: { first: 32_768, last: 60_999 }, taken: [] };
  error: DrawbridgeError | undefined;

  read(): NodePorts {
    if (this.error !== undefined) throw this.error;
    return this.ports;
  }
}

function setUp() {
  const present = new Map<string, SharingAttachment>();
  const claimed = new Map<string, readonly DesiredElement[]>();
  const services = new ServicePorts();
  const [ports, clock, logger] = [new FakeNodePorts(), new FakeClock(), recordingLogger()];
  let chains: readonly Chain[] = [];
  let provisions = 0;
  const own = new PortShares({
    ruleset: {
      claim: (owner, claims) => void claimed.set(owner, claims),
      provide: (_owner, objects) => {
        provisions++;
        chains = objects.chains;
      },
    },
    services,
    ports: () => ({ ...ports.read(), served: services.at(new Set([parseAddress("192.0.2.1")])) }),
    attachments: () => present.values(),
    isNeeded: () => true,
    clock,
    logger,
  });
  own.begin();
  const serve = (name: string, namespace: string, spec: object, status = {}): void => {
    const service = { apiVersion: "v1", kind: "Service", metadata: { name, namespace }, status };
    const text = JSON.stringify({ ...service, spec: { clusterIPs: ["10.96.0.1"], ...spec } });
    own.apply(readScenario(text).map((object) => ({ type: "set", kind: object.kind, key: object.key, object })));
    clock.pass(5000);
  };
  const attach = (number: number, ...hostPorts: readonly number[]): void => {
    const attachment: SharingAttachment = {
      network: "drawbridge",
      containerId: `c${number}`,
      ifname: "eth0",
      addresses: [`10.244.${1 + (number >> 8)}.${number & 255}`, `fd00:244:1::${number.toString(16)}`].map((text) => ({
        address: parseAddress(text),
        prefixLength: text.includes(":") ? 128 : 32,
      })),
      portMappings: hostPorts.map((hostPort) => ({ hostPort, containerPort: 80, protocol: "tcp" })),
    };
    present.set(attachment.containerId, attachment);
    own.attached(attachment);
  };
  /** The first port of each address's share. */
  const shares = (): ReadonlyMap<string, unknown> => {
    const all = [...claimed.values()].flat().filter(({ set }) => set.startsWith("pod_ports"));
    return new Map(all.map(({ element: { key, data } }) => [textOf(key), textOf(data)]));
  };
  /** The ranges of each share. */
  const ranges = (): readonly (readonly PortRange[])[] =>
    chains.map(({ rules }) =>
      rules
        .flatMap(({ statements }) => statements)
        .flatMap((one) => (one.kind === "masquerade" && one.ports !== undefined ? [one.ports] : [])),
    );
  return {
    own,
    ports,
    clock,
    logger,
    present,
    attach,
    serve,
    shares,
    ranges,
    holds: (port: number): boolean =>
      ranges()
        .flat()
        .some(({ first, last }) => first <= port && port <= last),
    chains: () => chains,
    provisions: () => provisions,
  };
}

function textOf(values: unknown): string {
  return JSON.stringify(values, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value));
}

describe("policyd/node: shares of ports", () => {
  it("POD-25: each pod has its own share for both families, and the number of shares is a power of two", () => {
    const { attach, shares, chains, provisions } = setUp();
    for (let number = 1; number <= 16; number++) attach(number);
    assert.equal(chains().length, 16);
    assert.equal(provisions(), 1, "a further pod changes no rules");
    assert.equal(shares().size, 32);
    assert.equal(new Set(shares().values()).size, 16);
    attach(17);
    assert.equal(chains().length, 32);
    assert.equal(new Set(shares().values()).size, 17);
  });

  it("POD-25: the next pod gets the share of one that has gone, and the others keep theirs", () => {
    const { attach, shares, present } = setUp();
    for (const number of [1, 2, 3]) attach(number);
    const before = shares();
    present.delete("c2");
    attach(9);
    const after = shares();
    assert.equal(after.size, 6);
    for (const number of [1, 3]) {
      const key = textOf([parseAddress(`10.244.1.${number}`)]);
      assert.equal(after.get(key), before.get(key));
    }
    assert.equal(after.get(textOf([parseAddress("10.244.1.9")])), before.get(textOf([parseAddress("10.244.1.2")])));
  });

  it("POD-25: no more than two of 600 pods have the same share of ports, even after some pods were replaced", () => {
    const { attach, shares, present } = setUp();
    for (let number = 1; number <= 600; number++) attach(number);
    for (let number = 1; number <= 100; number++) present.delete(`c${number}`);
    for (let number = 601; number <= 700; number++) attach(number);
    const uses = Map.groupBy(shares().values(), String);
    assert.equal(uses.size, 512);
    // Each pod has an address of either family.
    assert.equal(Math.max(...[...uses.values()].map((addresses) => addresses.length)), 4);
  });

  it("POD-25: a pod's share stays after a DEL of the same interface of another network, and goes with its own", async () => {
    const { own, attach, shares } = setUp();
    attach(1);
    const names = { containerId: "c1", ifname: "eth0" };
    await own.unregister({ network: "another", ...names });
    assert.equal(shares().size, 2);
    await own.unregister({ network: "drawbridge", ...names });
    assert.equal(shares().size, 0);
  });

  it("GUARD-12 NODE-09: ports of Services at the node's addresses leave all shares within five seconds, and all of them before the first batch", () => {
    const { own, attach, serve, holds } = setUp();
    attach(1);
    serve("a", "n", { type: "NodePort", ports: [{ port: 3000, nodePort: 2000 }] });
    serve("b", "n", { externalIPs: ["192.0.2.1"], ports: [{ port: 5000 }] });
    serve("c", "n", { externalIPs: ["198.51.100.1"], ports: [{ port: 11_000 }] });
    serve("e", "n", { clusterIPs: ["None"], externalIPs: ["192.0.2.1"], ports: [{ port: 14_000 }] });
    const status = { loadBalancer: { ingress: [{ ip: "192.0.2.1" }] } };
    serve("d", "n", { type: "LoadBalancer", ports: [{ port: 8000 }] }, status);
    assert.deepEqual([2000, 5000, 8000, 11_000, 14_000, 3000].map(holds), [false, false, false, true, true, true]);
    const later = setUp();
    later.serve("a", "n", { type: "NodePort", ports: [{ port: 3000, nodePort: 2000 }] });
    later.own.synced();
    assert.ok(!later.holds(2000) && later.holds(3000));
    assert.deepEqual(own.problems(), []);
  });

  it("GUARD-12: Services of one namespace take 1,024 ports at most from pods, and those of another namespace still take its share", () => {
    const { own, serve, holds, attach, ranges } = setUp();
    attach(1);
    const ports = Array.from({ length: 3000 }, (_, i) => ({ name: `p${i}`, port: 2000 + 2 * i }));
    // No pod leaves with these anyway, so they do not count.
    const others = Array.from({ length: 2000 }, (_, i) => ({ name: `x${i}`, port: 30_000 + i }));
    serve("many", "evil", { externalIPs: ["192.0.2.1"], ports: [...others, ...ports] });
    serve("few", "n", { externalIPs: ["192.0.2.1"], ports: [{ port: 20_000 }] });
    assert.equal(ports.filter(({ port }) => !holds(port) && port < 2000 + 2 * 1023).length, 1023);
    assert.ok(ports.some(({ port }) => holds(port)));
    assert.ok(!holds(20_000) && Math.min(...ranges().map(sizeOf)) > 0);
    assert.deepEqual(own.problems().length, 1);
  });

  it("GUARD-12 POD-25: a port is a pod's again when its Service has gone, however often it was read, unless a program had it", () => {
    const { own, serve, holds, attach, ports, clock } = setUp();
    attach(1);
    ports.ports = { ...ports.ports, taken: [{ first: 2001, last: 2001 }] };
    serve("a", "n", { externalIPs: ["192.0.2.1"], ports: [2000, 2001].map((port) => ({ name: `p${port}`, port })) });
    clock.pass(180_000);
    ports.ports = { ...ports.ports, taken: [] };
    assert.deepEqual([2000, 2001].map(holds), [false, false]);
    own.apply([{ type: "delete", kind: "Service", key: "n/a" }]);
    clock.pass(5000);
    assert.deepEqual([2000, 2001].map(holds), [true, false]);
  });

  it("GUARD-12: where pods share the ports of the node's programs, host ports and ports of Services leave all shares", () => {
    const { serve, holds, attach, ports, clock } = setUp();
    ports.ports = { local: { first: 1024, last: 65_535 }, taken: [] };
    clock.pass(60_000);
    attach(1, 40_000);
    serve("a", "n", { type: "NodePort", ports: [{ port: 80, nodePort: 40_001 }] });
    assert.deepEqual([40_000, 40_001, 40_002].map(holds), [false, false, true]);
  });

  it("POD-25: with 1,024 spread host ports of a pod each share has 200 ports, which is reported until it has gone", () => {
    const { own, attach, ranges, clock, present, chains } = setUp();
    attach(1);
    const smallest = (): number => Math.min(...ranges().map(sizeOf));
    const before = smallest();
    const all = ranges().flat();
    const step = Math.floor(sizeOf(all) / 1024);
    const free = all.flatMap(({ first, last }) =>
      Array.from({ length: last - first + 1 }, (_, index) => first + index),
    );
    for (const offset of [0, 1, 2, 3]) {
      const hostPorts = free.filter((_, index) => index % step === Math.floor((offset * step) / 4)).slice(0, 1024);
      assert.equal(hostPorts.length, 1024);
      attach(2, ...hostPorts);
      assert.ok(smallest() >= 200, `${smallest()} ports`);
      const draws = chains()[0]?.rules.map(({ statements }) =>
        statements.flatMap((one) =>
          one.kind === "match" && typeof one.left !== "string" && one.left.kind === "numgen" ? [one.left.modulus] : [],
        ),
      );
      assert.deepEqual(draws, [[8], [7], [6], [5], [4], [3], [2], []], "each range is equally likely");
      assert.match(own.problems().join(), /have only \d+ ports each/);
      assert.ok(
        !ranges()
          .flat()
          .some(({ first, last }) => hostPorts.some((port) => first <= port && port <= last)),
      );
      clock.pass(60_000);
      assert.ok(smallest() < before / 2, "while it runs, pods do not leave with its ports");
      present.delete("c2");
      clock.pass(60_000);
      assert.ok(smallest() >= before, `${smallest()} ports`);
      assert.deepEqual(own.problems(), []);
    }
  });

  it("POD-25: after 5,000 ports of programs a further one is excluded, and a known host port changes no rules", () => {
    const { attach, ranges, ports, clock, provisions } = setUp();
    const taken = Array.from({ length: 5000 }, (_, index) => ({ first: 2000 + index, last: 2000 + index }));
    ports.ports = { ...ports.ports, taken: [...taken, { first: 20_000, last: 20_000 }] };
    clock.pass(60_000);
    assert.ok(
      !ranges()
        .flat()
        .some(({ first, last }) => first <= 20_000 && 20_000 <= last),
    );
    attach(1, 20_001);
    const before = provisions();
    attach(2, 20_001);
    clock.pass(60_000);
    assert.equal(provisions(), before);
  });

  it("POD-25: an administrator's range that leaves no ports is in the log and the status until there is room", () => {
    const { own, attach, ports, clock, logger } = setUp();
    ports.ports = { local: { first: 1024, last: 65_535 }, taken: [] };
    clock.pass(60_000);
    attach(1);
    assert.match(own.problems().join(), /ip_local_port_range is 1024 65535/);
    assert.equal(logger.lines.filter(({ level }) => level === "warn").length, 1);
    ports.ports = { local: { first: 32_768, last: 60_999 }, taken: [] };
    clock.pass(60_000);
    assert.deepEqual(own.problems(), []);
  });

  it("POD-25: where the node's ports cannot be read, pods get the shares of a usual node, which is logged once", () => {
    const { own, attach, ports, clock, logger, chains } = setUp();
    ports.error = new DrawbridgeError("ERR_UNAVAILABLE", "no /proc");
    clock.pass(180_000);
    attach(1);
    assert.equal(chains().length, 16);
    assert.deepEqual(own.problems(), []);
    assert.equal(logger.lines.filter(({ level }) => level === "warn").length, 1);
  });
});
