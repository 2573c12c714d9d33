import assert from "node:assert/strict";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import type { Element, SetDefinition } from "../../../../kernel/nftables/model/object.ts";
import { portKey } from "../../../../objects/socket_refusal.ts";
import type { Service } from "../../../../objects/model.ts";
import { serviceProxy } from "../../../support/services/proxy.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { INET_TABLE } from "../../../../policyd/ruleset/table_part.ts";
import { frontendsInForce } from "../../../../policyd/services/open.ts";
import { holderOf, type NodeSocket, YieldedFrontends } from "../../../../policyd/services/yielded_frontends.ts";
import { readScenario } from "../../../support/services/scenario.ts";

const OWN = parseAddress("192.0.2.1");
const OWN6 = parseAddress("2001:db8::1");
const OTHER = parseAddress("192.0.2.2");
const context = { nodeName: "n1", zone: undefined, primaryAddresses: [], refuseExternalIps: false };

const socket = (address: NodeSocket["address"], protocol: NodeSocket["protocol"] = "TCP"): NodeSocket => ({
  protocol,
  port: 22,
  address,
  owner: "sshd",
});

function nodeWith(...sockets: readonly NodeSocket[]) {
  const byPort = Map.groupBy(sockets, ({ protocol, port }) => portKey(protocol, port));
  return { addresses: new Set([OWN, OWN6]), sockets: byPort };
}

function service(externalIPs: readonly string[]): Service {
  const spec = { clusterIP: "10.96.0.1", externalIPs, ports: [{ port: 22 }, { port: 22, protocol: "UDP", name: "u" }] };
  const [object] = readScenario(JSON.stringify({ apiVersion: "v1", kind: "Service", metadata: { name: "s" }, spec }));
  assert.ok(object?.kind === "Service");
  return object;
}

describe("policyd/services/yielded_frontends", () => {
  it("CLAIM-06: a socket holds a port only at the addresses at which it receives, and only for its protocol", () => {
    const rows: readonly (readonly [NodeSocket, has4: boolean, has6: boolean])[] = [
      [socket(undefined), true, true],
      [socket("IPv4"), true, false],
      [socket(OWN), true, false],
      [socket(OWN6), false, true],
      [socket(OTHER), false, false],
      [socket(parseAddress("127.0.0.1")), false, false],
      [socket(undefined, "UDP"), false, false],
      [{ ...socket(undefined), port: 23 }, false, false],
    ];
    for (const [one, ...expected] of rows) {
      const has = [OWN, OWN6].map((address) => holderOf(address, "TCP", 22, nodeWith(one)) === "sshd");
      assert.deepEqual(has, expected, String(one.address));
      assert.equal(holderOf(OTHER, "TCP", 22, nodeWith(one)), undefined);
    }
  });

  it("CLAIM-06: a daemon that starts finds the frontends that a Service has, also without endpoints, and none where no Services were served", () => {
    const address = parseAddress("192.0.2.1");
    const frontend = (port: number) => [{ key: [address, "tcp", port] }];
    const inForce = (sets: Readonly<Record<string, readonly Element[]>>): readonly string[] => {
      const kernel = {
        sets: () => Object.keys(sets).map((name) => ({ name })),
        elements: (_table: typeof INET_TABLE, { name }: SetDefinition) => sets[name] ?? assert.fail(`ENOENT ${name}`),
      };
      return [...frontendsInForce(kernel)];
    };
    assert.deepEqual(inForce({ service4: frontend(1), unserved_service4: frontend(2), service6: [] }), [
      "4 3221225985 tcp 1",
      "4 3221225985 tcp 2",
    ]);
    assert.deepEqual(inForce({ localpods4: [] }), []);
  });

  it("CLAIM-06: a decision holds while the Service claims the frontend, whatever comes or goes on the node", () => {
    let node = nodeWith(socket("IPv4"));
    const inForce = new Set(["4 3221225985 udp 22"]);
    let reads = 0;
    const read = (): typeof node => {
      reads++;
      return node;
    };
    const yielded = new YieldedFrontends({ node: read, inForce: () => inForce });
    const refusals = yielded.beside(undefined);
    const served = new Set<string>();
    const decide = (object: Service | undefined): string => {
      yielded.decide([["default/s", object]], context, (_, id) => served.has(id));
      const refused = (["TCP", "UDP"] as const).filter((protocol) =>
        refusals.refusalOf({ key: "default/s" }, { type: "external", address: OWN, port: 22 }, protocol),
      );
      served.clear();
      if (object !== undefined && !refused.includes("TCP")) served.add("4 3221225985 tcp 22");
      if (object !== undefined && !refused.includes("UDP")) served.add("4 3221225985 udp 22");
      return refused.join();
    };
    const claiming = service(["192.0.2.1", "192.0.2.2"]);
    assert.equal(decide(claiming), "TCP");
    node = nodeWith(socket("IPv4", "UDP"));
    assert.equal(decide(claiming), "TCP");
    const own = service(["192.0.2.1"]);
    assert.equal(decide(own), "TCP");
    reads = 0;
    assert.equal(decide(own), "TCP");
    assert.equal(reads, 0, "the sockets of the node are read for a new decision only");
    assert.equal(decide(service(["192.0.2.2"])), "");
    served.clear();
    // An earlier daemon gave it the port of UDP, and now it is free to be decided again but for that.
    assert.equal(decide(claiming), "");
    assert.equal(decide(undefined), "");
    yielded.synced();
    assert.equal(decide(claiming), "UDP");
    const { type } =
      refusals.refusalOf({ key: "default/s" }, { type: "external", address: OWN, port: 22 }, "UDP") ?? {};
    assert.equal(type, "taken port");
    assert.equal(
      refusals.refusalOf({ key: "default/s" }, { type: "load balancer", address: OWN, port: 22 }, "UDP"),
      undefined,
    );
  });

  it("DAEMON-10 CLAIM-06: while the node's sockets cannot be read, a Service keeps its external IPs and gets no new one before they are read again", () => {
    let [reads, isReadable] = [0, false];
    const node = () => {
      reads++;
      if (!isReadable) throw new DrawbridgeError("ERR_SYSCALL", "EMFILE");
      return nodeWith(socket("IPv4"));
    };
    const clock = new FakeClock();
    const served = new Map<string, number>();
    const component = serviceProxy({
      clock,
      followers: [{ compiled: ({ name }, { served: all }) => void served.set(name, all.length) }],
      yielded: new YieldedFrontends({ node, inForce: () => new Set() }),
    });
    const set = (object: Service) => component.apply([{ type: "set", kind: "Service", key: object.key, object }]);
    const servedPorts = (): number | undefined => served.get("s");
    set(service(["192.0.2.1", "192.0.2.2"]));
    assert.deepEqual([servedPorts(), reads], [2, 1], "only its own address");
    assert.match(component.problems().join(), /external.* 192\.0\.2\.1 TCP 22 .* could not be read yet/);
    clock.pass(1000);
    assert.deepEqual([servedPorts(), reads], [2, 2]);
    isReadable = true;
    clock.pass(1000);
    assert.deepEqual([servedPorts(), reads], [5, 3], "all but TCP at the address of the node");
    isReadable = false;
    set(service(["192.0.2.1", "192.0.2.2", "192.0.2.3"]));
    assert.deepEqual([servedPorts(), reads], [5, 4], "it keeps what it has");
    isReadable = true;
    clock.pass(1000);
    clock.pass(10_000);
    assert.deepEqual([servedPorts(), reads], [7, 5], "nothing is read without need");
  });
});
