import assert from "node:assert/strict";
import { memoryFiles, runCli } from "../../../../support/cli/cli.ts";

const pod = (name: string, address: string): string => `apiVersion: v1
kind: Pod
metadata: { name: ${name}, labels: { app: ${name} } }
spec: { nodeName: n1, containers: [{ name: c }] }
status: { phase: Running, podIPs: [{ ip: ${address} }] }
`;

const SERVICE = `apiVersion: v1
kind: Service
metadata: { name: web }
spec: { clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10], selector: { app: server }, ports: [{ port: 80, targetPort: 8080 }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: web-1, labels: { kubernetes.io/service-name: web } }
addressType: IPv4
ports: [{ name: "", protocol: TCP, port: 8080 }]
endpoints: [{ addresses: [10.1.0.2], nodeName: n1, targetRef: { kind: Pod, name: server, namespace: default } }]
`;

/** Returns a policy of the client with one egress rule that allows this address at this port. */
const egress = (cidr: string, port: number): string => `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: client }
spec:
  podSelector: { matchLabels: { app: client } }
  policyTypes: [Egress]
  egress: [{ to: [{ ipBlock: { cidr: ${cidr} } }], ports: [{ port: ${port} }] }]
`;

describe("cli/policy/explain: behind Services", () => {
  const isAllowed = async (policy: string): Promise<unknown> => {
    const text = [pod("client", "10.1.0.1"), pod("server", "10.1.0.2"), SERVICE, policy].join("---\n");
    const args = ["policy", "explain", "-f", "a.yaml", "--from", "default/client", "--to", "service/default/web"];
    const { out, err, code } = await runCli([...args, "--port", "80", "-o", "json"], memoryFiles({ "a.yaml": text }));
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
    const shared = (name: string, port: number): string => `apiVersion: v1
kind: Service
metadata: { name: ${name} }
spec: { clusterIP: 10.96.0.${port}, selector: { app: server }, externalIPs: [198.51.100.9], ports: [{ port: ${port} }] }
`;
    const objects = [pod("client", "10.1.0.1"), pod("server", "10.1.0.2"), shared("one", 80), shared("two", 81)];
    const files = memoryFiles({ "a.yaml": objects.join("---\n") });
    const ask = async (...args: readonly string[]) => {
      const question = ["--from", "default/client", "--to", "198.51.100.9", ...args];
      return (await runCli(["policy", "explain", "-f", "a.yaml", ...question], files)).out;
    };
    assert.match(await ask(), /^default\/client to 198\.51\.100\.9: 80\/TCP, 81\/TCP$/m);
    const second = await ask("--port", "81");
    assert.match(second, /^Service default\/two: external IP 198\.51\.100\.9:81, TCP$/m);
    assert.doesNotMatch(second, /no other port/);
    assert.match(await ask("--port", "82"), /Service default\/one has 80\/TCP, and no other port/);
  });

  it("EXPLAIN-04: the head of a Service names the kind of its address, whatever the type of the Service is", async () => {
    const balanced = SERVICE.replace(/clusterIP: .*?\], /, "type: LoadBalancer, ");
    const text = [pod("client", "10.1.0.1"), pod("server", "10.1.0.2"), balanced].join("---\n");
    const question = ["--from", "default/client", "--to", "service/default/web", "--port", "80"];
    const { out } = await runCli(["policy", "explain", "-f", "a.yaml", ...question], memoryFiles({ "a.yaml": text }));
    assert.match(out, /^Service default\/web: cluster IP that is not in the input, port 80, TCP$/m);
  });
});
