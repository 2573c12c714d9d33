import assert from "node:assert/strict";
import { atOnce } from "../../../../../policyd/lib/sliced_work.ts";
import type { EndpointSlice, ObjectChange, Service } from "../../../../../objects/model.ts";
import { MOST_PROBLEMS } from "../../../../../objects/problem_list.ts";
import { FrontendHolders, frontendId } from "../../../../../policyd/services/elements/arbitration.ts";
import type { CompileContext } from "../../../../../policyd/services/rules/context.ts";
import { MOST_FRONTENDS, servedPart } from "../../../../../policyd/services/elements/service_size.ts";
import { NodeJudge } from "../../../../../objects/nodes/node_judge.ts";
import { ProtectedSocketIndex } from "../../../../../policyd/protection/socket_index.ts";
import { YieldedFrontends } from "../../../../../policyd/services/yielded_frontends.ts";
import { serviceProxy } from "../../../../support/services/proxy.ts";
import { servedFrontends } from "../../../../../policyd/services/stale_flows/served_frontends.ts";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { compileAlone, readScenario } from "../../../../support/services/scenario.ts";

const context: CompileContext = { nodeName: "n1", zone: undefined, primaryAddresses: [], refuseExternalIps: false };

/** The size of a Service; the smallest has one port and only its own address. */
interface Size {
  readonly name?: string;
  readonly ports?: number;
  /** The number of ports that have node ports. */
  readonly nodePorts?: number;
  readonly externalIps?: number;
  readonly balancers?: number;
  readonly ranges?: number;
  readonly isEnforced?: boolean;
}

function service(size: Size): Service {
  const { name = "web", ports = 1, nodePorts = 0, externalIps = 0, balancers = 0, ranges = 0 } = size;
  const annotations = size.isEnforced === true ? { "drawbridge.dev/enforce-source-ranges": "true" } : {};
  const [object] = readScenario(
    JSON.stringify({
      apiVersion: "v1",
      kind: "Service",
      metadata: { name, annotations },
      spec: {
        type: "LoadBalancer",
        clusterIP: name === "web" ? "10.96.0.1" : "10.96.0.2",
        ports: numbered(ports, (i) => ({
          name: `p${i}`,
          protocol: "UDP",
          port: i + 1,
          ...(i < nodePorts ? { nodePort: 30_000 + i } : {}),
        })),
        externalIPs: numbered(externalIps, (i) => `203.0.${i >> 8}.${i & 255}`),
        loadBalancerSourceRanges: numbered(ranges, (i) => `10.1.${(i >> 7) & 255}.${(2 * i) & 255}/32`),
      },
      status: { loadBalancer: { ingress: numbered(balancers, (i) => ({ ip: `198.51.100.${i}` })) } },
    }),
  );
  assert.ok(object?.kind === "Service");
  return object;
}

/** A slice with all ports of a Service. */
function sliceOf({ name, ports }: Service, endpoints: number): EndpointSlice {
  const [object] = readScenario(
    JSON.stringify({
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: { name, labels: { "kubernetes.io/service-name": name } },
      addressType: "IPv4",
      ports: ports.map((port) => ({ name: port.name, protocol: port.protocol, port: port.port })),
      endpoints: numbered(endpoints, (i) => ({ addresses: [`10.0.${i >> 8}.${i & 255}`] })),
    }),
  );
  assert.ok(object?.kind === "EndpointSlice");
  return object;
}

/** Protection of nothing, which counts the frontends that are compared with it. */
class WatchedProtection extends ProtectedSocketIndex {
  asked = 0;

  constructor() {
    super({ ports: [], sockets: [] }, new NodeJudge({ nodeName: "n1" }));
  }

  override refusalOf(...frontend: Parameters<ProtectedSocketIndex["refusalOf"]>) {
    this.asked++;
    return super.refusalOf(...frontend);
  }
}

function numbered<T>(count: number, of: (i: number) => T): readonly T[] {
  return Array.from({ length: count }, (_, i) => of(i));
}

/** The number of served frontends, and the problems. */
function compiled(size: Size, overrides: Partial<CompileContext> = {}): readonly [number, readonly string[]] {
  const { served, problems } = compileAlone(service(size), [], { ...context, ...overrides });
  return [served.length, problems];
}

function reported(count: number, what = "only its cluster IPs are"): readonly string[] {
  return [
    `Service default/web: ${count} pairs of a port and an address, source ranges counted; ` +
      `expected at most ${MOST_FRONTENDS}: ${what} served`,
  ];
}

describe("services/compile: Services of many ports and addresses", () => {
  it("BAD-01: external IPs count once per port, unless they are refused", () => {
    assert.deepEqual(compiled({ ports: 128, externalIps: 127 }), [MOST_FRONTENDS, []]);
    assert.deepEqual(compiled({ ports: 128, externalIps: 128 }), [128, reported(128 * 129)]);
    assert.deepEqual(compiled({ ports: 128, externalIps: 128 }, { refuseExternalIps: true }), [128, []]);
  });

  it("BAD-01: node ports count in each family, and addresses of load balancers count once per port", () => {
    assert.deepEqual(compiled({ ports: 8192, nodePorts: 8192 }), [MOST_FRONTENDS, []]);
    assert.deepEqual(compiled({ ports: 8193, nodePorts: 8192 }), [8193, reported(8193 + 8192)]);
    assert.deepEqual(compiled({ ports: 100, balancers: 200 }), [100, reported(100 * 201)]);
  });

  it("BAD-01: source ranges count once per frontend that they restrict", () => {
    const ranges = { ports: 4, balancers: 1, ranges: 4094 };
    assert.deepEqual(compiled(ranges), [8, []]);
    assert.deepEqual(compiled({ ...ranges, ranges: 4095 }), [4, reported(4 * (1 + 4096))]);
    const external = { ports: 4, externalIps: 1, nodePorts: 4, ranges: 4095 };
    assert.deepEqual(compiled(external), [12, []]);
    assert.deepEqual(compiled({ ...external, isEnforced: true }), [4, reported(4 * (1 + 2 * 4095))]);
  });

  it("BAD-01: a Service with too many ports serves none of them, and its address refuses them", () => {
    const most = compileAlone(service({ ports: MOST_FRONTENDS }), [], context);
    assert.deepEqual([most.served.length, most.problems], [MOST_FRONTENDS, []]);
    const { claims, problems } = compileAlone(service({ ports: MOST_FRONTENDS + 1 }), [], context);
    assert.deepEqual(problems, reported(MOST_FRONTENDS + 1, "nothing of it is"));
    assert.deepEqual(
      claims.map(({ element }) => element.key),
      [[parseAddress("10.96.0.1")]],
    );
  });

  it("BAD-01 MODE-03: frontends of a Service that is too large are free for others and cost nothing", () => {
    const holders = new FrontendHolders();
    const large = service({ ports: 1000, externalIps: 1000 });
    const other = service({ name: "web2", externalIps: 1 });
    for (const one of [large, other]) holders.replace(one.key, servedPart(one, context).service, context);
    const external = { type: "external", address: parseAddress("203.0.0.0"), port: 1 } as const;
    const own = { type: "cluster", address: parseAddress("10.96.0.1"), port: 1000 } as const;
    assert.equal(holders.holder(frontendId(external, "UDP", 4)), other.key);
    assert.equal(holders.holder(frontendId({ ...external, port: 2 }, "UDP", 4)), undefined);
    assert.equal(holders.holder(frontendId(own, "UDP", 4)), large.key);
    assert.deepEqual(compileAlone(other, [], context, holders).problems, []);
    assert.equal(atOnce(servedFrontends({ service: large, slices: [], context, holders }, "UDP")).size, 1000);
  });

  it("BAD-01: of a Service that is too large nothing but its cluster IPs is compared with sockets, of the node or protected ones", () => {
    const protection = new WatchedProtection();
    const node = () => assert.fail("the Service has no external IPs");
    const component = serviceProxy({
      protection,
      yielded: new YieldedFrontends({ node, inForce: () => new Set() }),
    });
    const large = service({ ports: 200, externalIps: 200, balancers: 1 });
    component.apply([{ type: "set", kind: "Service", key: large.key, object: large }]);
    assert.match(component.problems().join(), /pairs of a port and an address.*only its cluster IPs are served/);
    for (const address of ["192.0.2.7", "192.0.2.8"]) {
      protection.setAsked([{ address: parseAddress(address), protocol: "TCP", port: 6443, owner: "the API server" }]);
    }
    assert.ok(protection.asked <= 4 * 200, String(protection.asked));
  });

  it("SHARE-09: endpoints count once per frontend of their family, whatever the source ranges", () => {
    const sizes: readonly (readonly [size: Size, endpoints: number, pairs: number])[] = [
      [{ ports: 8, externalIps: 7 }, 9, 8 * 8 * 9],
      [{ ports: 2, nodePorts: 2, balancers: 1, ranges: 500 }, 1000, 6 * 1000],
    ];
    for (const [size, endpoints, pairs] of sizes) {
      const object = service(size);
      const slices = [sliceOf(object, endpoints)];
      const problemsWith = (room: number) => compileAlone(object, slices, { ...context, room }).problems;
      assert.deepEqual(problemsWith(pairs), []);
      assert.match(problemsWith(pairs - 1).join(), new RegExp(`${pairs} pairs.*only some endpoints`));
    }
  });

  it("BAD-01: of very many problems a hundred are reported, and the number of the others", () => {
    const object = { ...service({}), externalIps: numbered(500, (i) => parseAddress(`127.0.${i >> 8}.${i & 255}`)) };
    const { problems } = compileAlone(object, [], context);
    assert.equal(problems.length, MOST_PROBLEMS + 1);
    assert.match(
      problems[0] ?? "",
      /^Service default\/web: .*127\.0\.0\.0; expected an address that a machine can have$/,
    );
    assert.equal(problems.at(-1), `Service default/web: ${500 - MOST_PROBLEMS} more problems`);
  });

  it("SHARE-09: Services of one tenant stop at its room, another tenant has its share, and one that grows in a full pool uses some endpoints of each port until there is room", () => {
    const sizes = new Map<string, number>();
    const component = serviceProxy({
      ruleset: { claim: (owner, claims) => void sizes.set(owner, claims.length) },
      bounds: { share: 100, pool: 1000 },
    });
    const apply = (namespace: string, name: string, size: Size, endpoints: number): number => {
      const parts = [service(size), sliceOf(service(size), endpoints)];
      const clusterIps = [parseAddress(`10.96.${sizes.size}.1`)];
      const changes = parts.map((part): ObjectChange => {
        const own = part.kind === "Service" ? { name, clusterIps } : { serviceName: name };
        const object = { ...part, namespace, key: `${namespace}/${name}`, ...own };
        return { type: "set", kind: part.kind, key: object.key, object };
      });
      component.apply(changes);
      return sizes.get(`Service ${namespace}/${name}`) ?? 0;
    };
    const most = numbered(8, (number) => apply("a", `s${number}`, { ports: 20 }, 10));
    // Without the bounds 2,080; the Service that comes to the end has some elements beside those of its pairs.
    assert.ok(most.reduce((sum, one) => sum + one) < 1200, String(most));
    assert.match(component.problems().join(), /Service a\/s4: 200 pairs .* no room on a node: only some endpoints/);
    assert.match(component.problems().join(), /Service a\/s7: 20 pairs .* no room on a node: nothing of it is served/);
    const own = apply("b", "web", { ports: 2 }, 10);
    assert.ok(own > 20, String(own));
    const grown = apply("b", "web", { ports: 2 }, 200);
    assert.ok(grown >= own && grown < 200, String(grown));
    for (const name of ["s0", "s1", "s2", "s3", "s4"]) {
      component.apply([{ type: "delete", kind: "Service", key: `a/${name}` }]);
    }
    assert.deepEqual(component.problems(), [], "the others are served wholly when there is room");
  });

  it("SHARE-09: what Services claim is bounded by the room of their namespace, and external IPs that one cannot claim for lack of room are free for others", () => {
    const frontends = new Map<string, number>();
    const protection = new WatchedProtection();
    const component = serviceProxy({
      protection,
      bounds: { share: 100, pool: 300 },
      followers: [
        {
          compiled: ({ key }, { served }) => void frontends.set(key, served.length),
          removed: (key) => frontends.delete(key),
        },
      ],
    });
    /** A Service of five ports, with an external IP of its own and one that all have. */
    const of = (namespace: string, number: number, ips: readonly string[]): ObjectChange => {
      const [name, key] = [`s${number}`, `${namespace}/s${number}`];
      const addresses = {
        clusterIps: [parseAddress(`10.96.0.${number}`)],
        externalIps: ips.map((ip) => parseAddress(ip)),
      };
      const object = { ...service({ ports: 5 }), key, namespace, name, createdAt: number, ...addresses };
      return { type: "set", kind: "Service", key, object };
    };
    const shared = numbered(19, (i) => `203.0.113.${i}`);
    component.apply(numbered(10, (i) => of("a", i, [...shared, `198.51.100.${i}`])));
    // Each is asked about when it is claimed, recorded, checked and compiled; the others are not read at all.
    assert.ok(protection.asked <= 4 * (3 * 105 + 7 * 5), String(protection.asked));
    // All want the shared ones, so the first one has most of them, and only three have room to want any.
    assert.deepEqual(
      numbered(10, (i) => frontends.get(`a/s${i}`)),
      [105, 10, 10, 5, 5, 5, 5, 5, 5, 5],
    );
    const lacking = /Service a\/s9: 105 pairs .* no room on a node: only its cluster IPs are served/;
    assert.match(component.problems().join(), lacking);
    component.apply([of("b", 20, ["198.51.100.9", "198.51.100.0"])]);
    assert.equal(frontends.get("b/s20"), 10, "one is free, and an older Service has the other");
    for (const i of [0, 1, 3, 4, 5, 6, 7, 8]) component.apply([{ type: "delete", kind: "Service", key: `a/s${i}` }]);
    assert.deepEqual([frontends.get("a/s2"), frontends.get("a/s9"), frontends.get("b/s20")], [105, 10, 10]);
    assert.doesNotMatch(component.problems().join(), /no room/);
  });
});
