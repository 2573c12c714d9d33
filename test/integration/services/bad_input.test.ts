import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { add } from "../../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../../lab/lab.ts";
import { type Flow, Prober } from "../../lab/probe/prober.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import type { DaemonProcess } from "../../support/daemon/policyd.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { requireKernel } from "../../support/privilege.ts";
import { SERVICE_PORT, serviceManifest, TARGET_PORT } from "../../support/services/manifest.ts";

/** A broken field: where it is, its value, and what the log must say about it, with object and field. */
interface Breakage {
  readonly of: "Service" | "EndpointSlice" | "Node";
  /** The path of the field as people write it; missing objects on the way are made. */
  readonly field: string;
  readonly value: unknown;
  readonly says?: string;
  /** The part of the Service that stops; by default all of it goes on. */
  readonly without?: "IPv6";
}

const VICTIM = { of: "Service" } as const;
const SLICE = { of: "EndpointSlice" } as const;

const breakages: readonly Breakage[] = [
  { ...VICTIM, field: "spec.clusterIPs[1]", value: "fd00:96::zz", without: "IPv6" },
  { ...VICTIM, field: "spec.clusterIPs[2]", value: "127.0.0.1", says: "spec.clusterIPs: 127.0.0.1" },
  { ...VICTIM, field: "spec.externalIPs[0]", value: "10.0.0.256" },
  { ...VICTIM, field: "spec.externalIPs[1]", value: "224.0.0.9", says: "spec.externalIPs: 224.0.0.9" },
  { ...VICTIM, field: "spec.ports[3].port", value: 70_000 },
  { ...VICTIM, field: "spec.ports[3].protocol", value: "ICMP" },
  { ...VICTIM, field: "spec.ports[3].name", value: "Not A Name" },
  { ...VICTIM, field: "spec.ports[3].nodePort", value: -1 },
  { ...VICTIM, field: "spec.ports[3].targetPort", value: "no port at all" },
  { ...VICTIM, field: "spec.type", value: "Magic" },
  { ...VICTIM, field: "spec.externalTrafficPolicy", value: "Global" },
  { ...VICTIM, field: "spec.internalTrafficPolicy", value: 7 },
  { ...VICTIM, field: "spec.sessionAffinity", value: "Always" },
  { ...VICTIM, field: "spec.healthCheckNodePort", value: 99_999 },
  { ...VICTIM, field: "spec.loadBalancerSourceRanges[0]", value: "10.0.0.0/33" },
  { ...VICTIM, field: "status.loadBalancer.ingress[0].ip", value: "203.0.113" },
  { ...VICTIM, field: "status.loadBalancer.ingress[0].ipMode", value: "Both" },
  {
    ...VICTIM,
    field: "metadata.annotations",
    value: { "drawbridge.dev/enforce-source-ranges": "perhaps" },
    says: `metadata.annotations[\\"drawbridge.dev/enforce-source-ranges\\"]`,
  },
  { ...VICTIM, field: "metadata.labels", value: { "service.kubernetes.io/service-proxy-name": 1 } },
  { ...SLICE, field: "addressType", value: "IPv5" },
  { ...SLICE, field: "ports[0].port", value: 0 },
  { ...SLICE, field: "ports[0].protocol", value: "tcp" },
  { ...SLICE, field: "ports[0].name", value: "Not A Name" },
  { ...SLICE, field: "endpoints[0].addresses[0]", value: "10.244.1" },
  { ...SLICE, field: "endpoints[1].addresses[0]", value: "127.0.0.1", says: "endpoints' addresses: 127.0.0.1" },
  { ...SLICE, field: "endpoints[0].conditions.ready", value: "yes" },
  { ...SLICE, field: "endpoints[0].nodeName", value: "no node" },
  { ...SLICE, field: "endpoints[0].targetRef", value: { kind: "Pod", name: "no_pod" } },
  { ...SLICE, field: "endpoints[0].hints.forZones[0].name", value: {} },
  { ...SLICE, field: "metadata.labels", value: { "kubernetes.io/service-name": "vic tim" } },
  { of: "Node", field: "spec.podCIDRs[1]", value: "10.244.0.0/40" },
  { of: "Node", field: "status.addresses[1].address", value: "localhost" },
];

/** Fields that make a Service of every kind, all valid. */
const EVERYTHING = {
  externalIPs: ["198.51.100.7", "198.51.100.8"],
  type: "LoadBalancer",
  loadBalancerSourceRanges: ["192.0.2.0/24", "2001:db8::/32"],
  status: { loadBalancer: { ingress: [{ ip: "203.0.113.5" }] } },
};
const NODE = {
  apiVersion: "v1",
  kind: "Node",
  metadata: { name: "node7" },
  spec: { podCIDRs: ["10.244.7.0/24"] },
  status: { addresses: ["192.0.2.58", "2001:db8::58"].map((address) => ({ type: "InternalIP", address })) },
};
const NAMES = {
  Service: "Service default/victim",
  EndpointSlice: "EndpointSlice default/victim-more",
  Node: "Node node7",
};

/** Returns an object with one field replaced. */
function broken(object: unknown, field: string, value: unknown): unknown {
  const keys = field.split(/[.[\]]+/).filter((key) => key !== "");
  return replaced(object, keys, value);
}

function replaced(within: unknown, [key, ...rest]: readonly string[], value: unknown): unknown {
  if (key === undefined) return value;
  if (/^\d+$/.test(key)) {
    const list: unknown[] = Array.isArray(within) ? within.map((one: unknown) => one) : [];
    list[Number(key)] = replaced(list[Number(key)], rest, value);
    return list;
  }
  const members = typeof within === "object" && within !== null ? { ...within } : {};
  return { ...members, [key]: replaced(new Map(Object.entries(members)).get(key), rest, value) };
}

describe("Services with a broken field", function () {
  this.timeout(120_000);
  let lab: Lab;
  let wired: WiredNode;
  let policyd: PolicydNode;
  let daemon: DaemonProcess;
  let prober: Prober;
  let client: LabPod;

  before(async function () {
    requireKernel(this);
    lab = createLab("bad-input");
    ({ node1: wired } = twoNodes(lab));
    policyd = new PolicydNode(lab, wired);
    await policyd.start();
    prober = new Prober(lab.calls);
    client = attach("client");
    const server = attach("server");
    await policyd.kill();
    for (const address of ENDPOINTS) prober.listen("tcp", { namespace: server, address, port: TARGET_PORT });
  });

  // Each test has its own daemon, since one logs twenty warnings of a kind a minute, and then only their number.
  beforeEach(async () => {
    daemon = await policyd.start(["--min-sync-period=0s"]);
  });

  afterEach(() => policyd?.kill());

  after(() => {
    prober?.close();
    lab?.destroy();
  });

  const ENDPOINTS = ["10.244.1.3", "fd00:244:1::3"].map((text) => parseAddress(text));
  const endpoints = ENDPOINTS.map((address) => ({ address, nodeName: "node1" }));

  function attach(name: string): LabPod {
    const pod = lab.pod(name);
    assert.equal(add(wired, pod, policyd.overrides).exitCode, 0);
    return pod;
  }

  const objectsOf = (name: string, addresses: readonly string[], spec = {}): readonly unknown[] =>
    serviceManifest(name, addresses, endpoints, spec)
      .split("---")
      .filter((one) => one.trim() !== "")
      .map((one): unknown => JSON.parse(one));

  /** Returns a Service with a bit of everything, its slices and one more, and a node, with one field broken. */
  const victims = ({ of, field, value }: Breakage): readonly unknown[] => {
    const [plain, ...slices] = objectsOf("victim", ["10.96.0.20", "fd00:96::20"], EVERYTHING);
    const objects = {
      Service: broken(plain, "spec.ports[3]", { name: "more", protocol: "TCP", port: 81 }),
      EndpointSlice: broken(slices[0], "metadata.name", "victim-more"),
      Node: NODE,
    };
    return [...slices, ...Object.values({ ...objects, [of]: broken(objects[of], field, value) })];
  };

  const flow = (text: string): Flow => ({
    protocol: "tcp",
    from: client,
    to: { address: parseAddress(text), port: SERVICE_PORT },
  });

  const count = (words: string): number =>
    [...daemon.log().matchAll(new RegExp(`${RegExp.escape(words)}(?!\\w)`, "g"))].length;

  async function until(holds: () => boolean | Promise<boolean>, what: string): Promise<void> {
    for (let left = 500; !(await holds()); left--) {
      assert.ok(left > 0, `${what} does not hold; log:\n${daemon.log().split("\n").slice(-8).join("\n")}`);
      await pause(10);
    }
  }

  for (const kind of ["Service", "EndpointSlice", "Node"] as const) {
    it(`BAD-01: a broken field of a ${kind} disables only what it belongs to, is logged once with object and field, and stops no batch`, async () => {
      policyd.put("steady.yaml", manifestsOf(objectsOf("steady", ["10.96.0.10", "fd00:96::10"])));
      const reported: string[] = [];
      const list = breakages.filter((one) => one.of === kind);
      for (const [i, one] of list.entries()) {
        const witness = `10.96.1.${i + 1}`;
        // The witness is in one file with the broken object, so that they are one change.
        policyd.put("victim.yaml", manifestsOf([...victims(one), ...objectsOf("witness", [witness])]));
        const object = NAMES[one.says === undefined ? one.of : "Service"];
        const message = `${object}: ${one.says ?? one.field}`;
        await until(() => count(message) > 0, `"${message}" in the log`);
        const reached = [
          witness,
          "10.96.0.10",
          "fd00:96::10",
          "10.96.0.20",
          ...(one.without === "IPv6" ? [] : ["fd00:96::20"]),
        ];
        await until(async () => {
          const results = await prober.run(reached.map(flow), { timeoutMilliseconds: 200 });
          return results.every((result) => result.reached);
        }, `all served with ${message}`);
        reported.push(message);
      }
      // A problem that comes up again with another change of the file is not logged again.
      const last = list.at(-1);
      assert.ok(last !== undefined);
      policyd.put("victim.yaml", manifestsOf([...victims(last), ...objectsOf("witness", ["10.96.2.1"])]));
      await until(
        async () => (await prober.run([flow("10.96.2.1")], { timeoutMilliseconds: 200 }))[0]?.reached === true,
        "the last",
      );
      assert.deepEqual(
        reported.filter((message) => count(message) !== 1).map((message) => `${message}: ${count(message)} times`),
        [],
      );
      assert.doesNotMatch(daemon.log(), / error /);
      policyd.put("victim.yaml", "");
      assert.deepEqual(
        daemon.status().problems.filter((problem) => problem.startsWith("ruleset")),
        [],
      );
    });
  }
});

function manifestsOf(objects: readonly unknown[]): string {
  return objects.map((object) => `---\n${JSON.stringify(object)}\n`).join("");
}
