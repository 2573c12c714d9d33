import assert from "node:assert/strict";
import { ask, manifest, named, networkPolicy, node, pod, service } from "../../../../support/cli/objects.ts";

const PODS =
  pod("default/client", "10.1.0.1", { spec: "nodeName: n1" }) +
  pod("default/server", "10.1.0.2", { spec: "nodeName: n1" });

const SLICE = manifest(
  "EndpointSlice",
  named("default/web-1", "labels: { kubernetes.io/service-name: web }"),
  'addressType: IPv4, ports: [{ name: "", protocol: TCP, port: 8080 }], ' +
    "endpoints: [{ addresses: [10.1.0.2], nodeName: n1, targetRef: { kind: Pod, name: server, namespace: default } }]",
);
const web = (more: string): string => service("default/web", "server", "{ port: 80, targetPort: 8080 }", more) + SLICE;

/** Returns a policy of the client with one egress rule that allows this address at this port. */
const egress = (cidr: string, port: number): string =>
  networkPolicy(
    "default/client",
    "podSelector: { matchLabels: { app: client } }, policyTypes: [Egress], " +
      `egress: [{ to: [{ ipBlock: { cidr: ${cidr} } }], ports: [{ port: ${port} }] }]`,
  );

const explain = (text: string, to: string, ...args: readonly string[]) =>
  ask(PODS + text, "policy", "explain", "--from", "default/client", "--to", to, ...args);

describe("cli/policy/explain: behind Services", () => {
  const isAllowed = async (policy: string): Promise<unknown> => {
    const objects = web("clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10]") + policy;
    const { out, err, code } = await explain(objects, "service/default/web", "--port", "80", "-o", "json");
    const { allowed } = JSON.parse(out) as { allowed: boolean };
    assert.equal(code, allowed ? 0 : 1, err);
    return allowed;
  };

  it("POL-27 POL-34: a rule matches the pod and its port, never the Service's address or port", async () => {
    assert.equal(await isAllowed(egress("10.1.0.2/32", 8080)), true);
    assert.equal(await isAllowed(egress("10.96.0.10/32", 80)), false);
    assert.equal(await isAllowed(egress("10.96.0.10/32", 8080)), false);
    assert.equal(await isAllowed(egress("10.1.0.2/32", 80)), false);
  });

  it("EXPLAIN-04: an address of several Services is explained at the ports of all of them", async () => {
    const shared = (name: string, port: number): string =>
      service(
        `default/${name}`,
        "server",
        `{ port: ${port} }`,
        `clusterIP: 10.96.0.${port}, externalIPs: [198.51.100.9]`,
      );
    const asked = async (...args: readonly string[]): Promise<string> =>
      (await explain(shared("one", 80) + shared("two", 81), "198.51.100.9", ...args)).out;
    assert.match(await asked(), /^default\/client to 198\.51\.100\.9: 80\/TCP, 81\/TCP$/m);
    const second = await asked("--port", "81");
    assert.match(second, /^Service default\/two: external IP 198\.51\.100\.9:81, TCP$/m);
    assert.doesNotMatch(second, /no other port/);
    assert.match(await asked("--port", "82"), /Service default\/one has 80\/TCP, and no other port/);
  });

  it("EXPLAIN-04: the head of a Service names the kind of its address, whatever the type of the Service is", async () => {
    const { out } = await explain(web("type: LoadBalancer"), "service/default/web", "--port", "80");
    assert.match(out, /^Service default\/web: cluster IP that is not in the input, port 80, TCP$/m);
  });

  for (const range of ["203.0.113.0/24", "20.0.0.0/8"]) {
    it(`EXPLAIN-17: the outside is denied in part at a Service whose source range is ${range}`, async () => {
      const more = `type: LoadBalancer, clusterIP: 10.96.0.10, loadBalancerSourceRanges: [${range}]`;
      const spec = `spec: { selector: { app: x }, ports: [{ port: 80 }], ${more} }`;
      const balanced = manifest(
        "Service",
        named("s/x"),
        `${spec}, status: { loadBalancer: { ingress: [{ ip: 7.7.7.7 }] } }`,
      );
      const args = ["policy", "explain", "--from", "outside", "--to", "service/s/x", "--port", "80"];
      const { code, out } = await ask(balanced + pod("s/x", "10.0.0.5"), ...args);
      assert.equal(code, 1, out);
      assert.match(out, /^outside to service\/s\/x, port 80\/TCP: denied in part$/m);
    });
  }

  const single = (family: number): string =>
    service("s/h", "b", "{ port: 80 }", `clusterIP: None, ipFamilies: [IPv${family}], ipFamilyPolicy: SingleStack`);
  const BOTH = pod("s/a", "10.1.0.1 fd00::1") + pod("s/b", "10.1.0.2 fd00::2");
  const FOUR = node("n1", "10.9.0.1") + pod("s/a", "10.1.0.1") + pod("s/b", "10.1.0.2");
  const SIX = FOUR.replaceAll("10.9.0.", "fd01::").replaceAll("10.1.0.", "fd00::");
  const headless = service("s/h", "b", "{ port: 80 }", "clusterIP: None");
  const slice = manifest(
    "EndpointSlice",
    named("s/h-1", "labels: { kubernetes.io/service-name: h }"),
    'addressType: IPv4, ports: [{ name: "", port: 80 }], endpoints: [{ addresses: [10.1.0.2] }]',
  );
  const byOthers = manifest("Service", named("s/h"), "spec: { clusterIP: None, ports: [{ port: 80 }] }") + slice;
  const only4 = "policyTypes: [Egress], egress: [{ to: [{ ipBlock: { cidr: 0.0.0.0/0 } }] }]";
  for (const [what, text, from, to, expected] of [
    ["a headless Service of IPv4", BOTH + single(4), "s/a", "service/s/h", "allowed"],
    ["a headless Service of IPv6", BOTH + single(6), "s/a", "service/s/h", "denied"],
    ["a headless Service with the usual families", BOTH + headless, "s/a", "service/s/h", "allowed"],
    ["a headless Service with EndpointSlices of IPv4", BOTH + byOthers, "s/a", "service/s/h", "allowed"],
    [
      "a headless Service of both families",
      BOTH + headless.replace("None", "None, ipFamilyPolicy: PreferDualStack"),
      "s/a",
      "service/s/h",
      "denied in part",
    ],
    [
      "a headless Service of a family that the source lacks",
      BOTH.replace(" fd00::1", "") + single(6),
      "s/a",
      "service/s/h",
      "denied",
    ],
    ["a headless Service without addresses", pod("s/a") + pod("s/b") + single(6), "outside", "service/s/h", "allowed"],
    ["a headless Service from outside", FOUR + headless, "outside", "service/s/h", "allowed"],
    ["a node from outside", FOUR, "outside", "node/n1", "allowed"],
    ["a node of IPv6 from outside", SIX, "outside", "node/n1", "allowed"],
    ["a node's address from outside", FOUR, "outside", "10.9.0.1", "allowed"],
    ["the outside from a node", FOUR, "node/n1", "outside", "allowed"],
    ["a domain name from a node", FOUR, "node/n1", "example.org", "allowed"],
  ] as const) {
    it(`EXPLAIN-03: a connection to ${what} is ${expected}, judged in the families that both ends have`, async () => {
      const policy = networkPolicy("s/p", `podSelector: { matchLabels: { app: a } }, ${only4}`);
      const { out } = await ask(text + policy, "policy", "explain", "--from", from, "--to", to, "--port", "80");
      assert.equal(/: ([a-z ]+)$/m.exec(out)?.[1], expected, out);
    });
  }
});
