import assert from "node:assert/strict";
import { formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { add } from "../../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../../lab/lab.ts";
import { type Flow, Prober } from "../../lab/probe/prober.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import type { DaemonProcess } from "../../support/daemon/policyd.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { requireKernel } from "../../support/privilege.ts";
import { SERVICE_PORT, serviceManifest, TARGET_PORT } from "../../support/services/manifest.ts";
import { valueWhen } from "../../support/until.ts";

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
    says: `metadata.annotations["drawbridge.dev/enforce-source-ranges"]`,
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

/** Returns fields that make a Service of every kind, all valid. @param number below 60 */
function everything(number: number): object {
  return {
    externalIPs: [number + 100, number + 160].map((last) => `198.51.100.${last}`),
    type: "LoadBalancer",
    loadBalancerSourceRanges: ["192.0.2.0/24", "2001:db8::/32"],
    status: { loadBalancer: { ingress: [{ ip: `203.0.113.${number + 1}` }] } },
  };
}

/** The number of broken objects at once: the daemon's status names twenty problems. */
const AT_ONCE = 12;
/** Returns a Node with addresses of its own. @param number below 60 */
function nodeOf(number: number): object {
  const addresses = [`192.0.2.${60 + number}`, `2001:db8::${60 + number}`];
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: `node7${number}` },
    spec: { podCIDRs: [`10.244.${100 + number}.0/24`] },
    status: { addresses: addresses.map((address) => ({ type: "InternalIP", address })) },
  };
}

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
  this.timeout(300_000);
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
    daemon = await policyd.start();
    prober = new Prober(lab.calls);
    client = attach("client");
    const server = attach("server");
    for (const address of ENDPOINTS) prober.listen("tcp", { namespace: server, address, port: TARGET_PORT });
  });

  after(async () => {
    prober?.close();
    await policyd?.kill();
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

  /** Waits until connections to all addresses are answered. */
  async function untilServed(addresses: readonly string[]): Promise<void> {
    const flows = addresses.map((text): Flow => ({
      protocol: "tcp",
      from: client,
      to: { address: parseAddress(text), port: SERVICE_PORT },
    }));
    await valueWhen(
      async () => (await prober.run(flows, { timeoutMilliseconds: 2000 })).filter(({ reached }) => !reached),
      (lost) => lost.length === 0,
      (lost) => `not served: ${lost.map(({ flow }) => formatAddress(flow.to.address)).join(", ")}`,
    );
  }

  const addressesOf = (number: number): readonly string[] => [`10.96.1.${number}`, `fd00:96::1:${number}`];

  /** Returns a Service with a bit of everything, its slices and one more, and a node, whole or with one field broken. */
  const victims = ({ of, field, value }: Breakage, number: number, isWhole: boolean): readonly unknown[] => {
    const [plain, ...slices] = objectsOf(`victim${number}`, addressesOf(number), everything(number));
    const objects = {
      Service: broken(plain, "spec.ports[3]", { name: "more", protocol: "TCP", port: 81 }),
      EndpointSlice: broken(slices[0], "metadata.name", `victim${number}-more`),
      Node: nodeOf(number),
    };
    if (isWhole) return [...slices, ...Object.values(objects)];
    return [...slices, ...Object.values({ ...objects, [of]: broken(objects[of], field, value) })];
  };

  const messageOf = ({ of, field, says }: Breakage, number: number): string => {
    const names = {
      Service: `Service default/victim${number}`,
      EndpointSlice: `EndpointSlice default/victim${number}-more`,
      Node: `Node node7${number}`,
    };
    return `${names[says === undefined ? of : "Service"]}: ${says ?? field}`;
  };

  it("BAD-01: a broken field of a Service, an EndpointSlice or a Node disables only what it belongs to, is reported with object and field, and stops no batch", async () => {
    for (let first = 0; first < breakages.length; first += AT_ONCE) {
      const group = [...breakages.entries()].slice(first, first + AT_ONCE);
      const served = group.flatMap(([number, { without }]) => addressesOf(number).slice(0, without ? 1 : 2));
      policyd.put("all.yaml", manifestsOf(group.flatMap(([number, one]) => victims(one, number, true))));
      await untilServed(served);
      // All are one change, so that a batch that fails stops the witness, too.
      const objects = group.flatMap(([number, one]) => victims(one, number, false));
      policyd.put("all.yaml", manifestsOf([...objects, ...objectsOf("witness", [`10.96.2.${first}`])]));
      const expected = group.map(([number, one]) => messageOf(one, number));
      const timesIn = (reports: readonly string[], message: string): number =>
        reports.filter((report) => report.includes(message)).length;
      // The log names endpoints that are ignored, and the status does not.
      const reportsOf = (problems: readonly string[]): readonly string[] => [
        ...problems,
        ...daemon
          .log()
          .split("\n")
          .filter((line) => line.includes("endpoints' addresses")),
      ];
      const areReported = ({ problems }: { readonly problems: readonly string[] }): boolean =>
        expected.every((message) => timesIn(reportsOf(problems), message) > 0);
      const { problems } = await daemon.statusWhen(areReported, `reported: ${expected.join("; ")}`, 60);
      for (const message of expected)
        assert.equal(timesIn(reportsOf(problems), message), 1, `${message}: ${problems.join("\n")}`);
      await untilServed([`10.96.2.${first}`, ...served]);
    }
    assert.doesNotMatch(daemon.log(), / error /);
    policyd.put("all.yaml", "");
    await daemon.statusWhen(({ problemCount }) => problemCount === 0, "no problem is left", 60);
  });
});

function manifestsOf(objects: readonly unknown[]): string {
  return objects.map((object) => `---\n${JSON.stringify(object)}\n`).join("");
}
