import assert from "node:assert/strict";
import { memoryFiles, runCli } from "../../../support/cli/cli.ts";
import { manifest, named, networkPolicy, pod } from "../../../support/cli/objects.ts";

const POD = pod("shop/db", "10.1.0.1") + networkPolicy("shop/db", "podSelector: { matchLabels: { app: db } }");
const SPEC = "clusterIP: 10.96.0.9, ports: [{ port: 80, targetPort: 8080 }]";
const service = (selector: string): string => manifest("Service", named("shop/s"), `spec: { ${selector}${SPEC} }`);
const endpoints = (subsets: string, metadata = ""): string =>
  manifest("Endpoints", named("shop/s", metadata), `subsets: [${subsets}]`);
const subset = (addresses: string, key = "addresses"): string => `{ ${key}: [${addresses}], ports: [{ port: 8080 }] }`;

/** Returns the hosts to which a Service leads from outside, and the exit code. */
async function ask(text: string): Promise<readonly unknown[]> {
  const args = ["policy", "explain", "-f", "a.yaml", "--from", "203.0.113.9", "--to", "service/shop/s", "--port", "80"];
  const { code, out } = await runCli([...args, "-o", "json"], memoryFiles({ "a.yaml": text }));
  return [code, ...(JSON.parse(out) as { to: { hosts: string[] } }).to.hosts];
}

describe("cli/input: Endpoints", () => {
  it("READ-23: Endpoints count as the control plane mirrors them: only for a Service without a selector, by readiness and family", async () => {
    const db = "{ ip: 10.1.0.1, targetRef: { kind: Pod, name: db, namespace: shop } }";
    const other = endpoints(subset("{ ip: 192.0.2.7 }"));
    for (const [text, ...expected] of [
      [service("") + other, 0, "192.0.2.7"],
      [service("") + endpoints(subset(db)), 1, "shop/db"],
      [
        service("") + endpoints(`${subset("{ ip: 192.0.2.7 }")}, ${subset("{ ip: 192.0.2.8 }")}`),
        0,
        "192.0.2.7",
        "192.0.2.8",
      ],
      [service("") + endpoints(subset('{ ip: 192.0.2.7 }, { ip: "2001:db8::7" }')), 0, "192.0.2.7"],
      // The Service's own pods are its endpoints.
      [service("selector: { app: db }, ") + other, 1, "shop/db"],
      [service("") + endpoints(subset("{ ip: 192.0.2.7 }", "notReadyAddresses")), 1],
      [
        service("") +
          endpoints(subset("{ ip: 192.0.2.7 }"), "labels: { endpointslice.kubernetes.io/skip-mirror: 'true' }"),
        3,
      ],
      [
        service("") +
          endpoints(subset("{ ip: 192.0.2.7 }"), "annotations: { control-plane.alpha.kubernetes.io/leader: '{}' }"),
        3,
      ],
      // Nothing in the files says who the endpoints are.
      [service("") + other.replace("name: s", "name: another"), 3],
    ] as const)
      assert.deepEqual(await ask(POD + text), expected, text);
  });

  it("READ-23: an address that the API server would refuse in Endpoints is reported at their line", async () => {
    const { code, err } = await runCli(
      ["policy", "matrix", "-f", "a.yaml"],
      memoryFiles({ "a.yaml": service("") + endpoints(subset("{ ip: 10.0.0.300 }")) }),
    );
    assert.equal(code, 3);
    assert.match(err, /^a\.yaml:\d+: EndpointSlice shop\/s-mirror-0-ipv4: .*10\.0\.0\.300/m);
  });
});
