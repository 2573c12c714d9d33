import assert from "node:assert/strict";
import { ask as run, pod, service } from "../../../../support/cli/objects.ts";

const PORTS =
  "{ name: sql, containerPort: 5432 }, { name: dns, containerPort: 53, protocol: UDP }, { name: dns, containerPort: 53 }";
const POLICY = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: db, namespace: shop }
spec:
  podSelector: { matchLabels: { app: db } }
  policyTypes: [Ingress, Egress]
  ingress:
    - ports: [{ port: sql }]
      from:
        - podSelector: { matchLabels: { app: x } }
        - ipBlock: { cidr: 192.0.2.0/24 }
        - podSelector: { matchLabels: { app: web } }
  egress:
    - to: [{ ipBlock: { cidr: 8.8.8.8/32 } }]
`;
const OBJECTS =
  pod("shop/db", "10.1.0.1", { ports: PORTS }) +
  pod("shop/web", "10.1.0.2") +
  service("shop/db", "db", "{ name: psql, port: 15432, targetPort: sql }", "clusterIP: 10.96.0.1") +
  POLICY;

const ask = (...args: readonly string[]) => run(OBJECTS, "policy", "explain", ...args);

describe("policy explain: the question", () => {
  it("EXPLAIN-13: a port name means a port of the Service, or of the pods' containers", async () => {
    const byName = await ask("--from", "shop/web", "--to", "service/shop/db", "--port", "psql");
    assert.deepEqual(byName, await ask("--from", "shop/web", "--to", "service/shop/db", "--port", "15432"));
    assert.equal(byName.code, 0, byName.out + byName.err);
    const ofPod = await ask("--from", "shop/web", "--to", "shop/db", "--port", "sql");
    assert.deepEqual(ofPod, await ask("--from", "shop/web", "--to", "shop/db", "--port", "5432"));
  });

  it("EXPLAIN-13: an unknown port name is an error with the nearest names, and an ambiguous one asks for the number", async () => {
    for (const [to, port, expected] of [
      ["service/shop/db", "psq", /service\/shop\/db has no port of this name; did you mean psql\?/],
      ["service/shop/db", "metrics", /no port of this name; expected psql/],
      ["shop/db", "dns", /shop\/db has 53\/UDP and 53\/TCP by this name; give the number/],
      ["shop/web", "http", /expected a number: its ports have no names/],
    ] as const) {
      const { code, out, err } = await ask("--from", "shop/web", "--to", to, "--port", port);
      assert.deepEqual([code, out], [3, ""]);
      assert.match(err, expected);
    }
    assert.equal((await ask("--from", "shop/web", "--to", "shop/db", "--port", "-x")).code, 2);
  });

  it("EXPLAIN-13: an address with its full prefix length is the address, and a range is an error of usage", async () => {
    const whole = await ask("--from", "shop/db", "--to", "8.8.8.8/32", "--port", "53/UDP");
    assert.deepEqual(whole, await ask("--from", "shop/db", "--to", "8.8.8.8", "--port", "53/UDP"));
    assert.equal(whole.code, 0);
    const ipv6 = await ask("--from", "2001:db8::1/128", "--to", "shop/db", "--port", "sql");
    assert.match(ipv6.out, /^2001:db8::1 to shop\/db/);
    for (const range of ["8.8.8.0/24", "2001:db8::/32", "8.8.8.8/033"]) {
      const { code, err } = await ask("--from", "shop/db", "--to", range);
      assert.equal(code, 2);
      assert.match(err, /a range: policies may tell its addresses apart; give one of them/);
    }
  });

  it("EXPLAIN-01: the answer names the line of the peer that matched", async () => {
    const lineOf = async (from: string): Promise<string | undefined> => {
      const { out } = await ask("--from", from, "--to", "shop/db", "--port", "sql");
      return /ingress\[0\]\.(from\[\d\])[^(]*\((a\.yaml:\d+)\)/.exec(out)?.slice(1).join(" ");
    };
    assert.equal(await lineOf("192.0.2.1"), "from[1] a.yaml:17");
    assert.equal(await lineOf("shop/web"), "from[2] a.yaml:18");
  });
});
