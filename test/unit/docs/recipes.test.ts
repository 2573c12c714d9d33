import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { memoryFiles, runCli } from "../../support/cli/cli.ts";

const pod = (namespace: string, name: string, labels: string, host: number): string => `---
apiVersion: v1
kind: Pod
metadata: { name: ${name}, namespace: ${namespace}, labels: { ${labels} } }
spec: { containers: [{ name: c, image: i }] }
status: { phase: Running, podIPs: [{ ip: 10.244.0.${host} }, { ip: "fd00:244::${host}" }] }
`;
const PODS = [
  pod("shop", "web", "app: web", 2),
  pod("shop", "db", "app: db", 3),
  pod("kube-system", "dns", "k8s-app: kube-dns", 4),
  pod("ingress-nginx", "controller", "app.kubernetes.io/name: ingress-nginx", 5),
  pod("monitoring", "prometheus", "app: prometheus", 6),
].join("");

/** The recipes in their order, each with connections and whether it allows them. */
const CONNECTIONS: readonly (readonly (readonly [from: string, to: string, port: string, isAllowed: boolean])[])[] = [
  [
    ["shop/web", "kube-system/dns", "53/UDP", true],
    ["shop/web", "kube-system/dns", "53/TCP", true],
    ["shop/web", "kube-system/dns", "80", false],
    ["shop/web", "shop/db", "5432", false],
    ["shop/web", "8.8.8.8", "53/UDP", false],
    ["monitoring/prometheus", "shop/web", "9090", false],
  ],
  [
    ["shop/web", "shop/db", "5432", true],
    ["shop/web", "8.8.8.8", "443", true],
    ["monitoring/prometheus", "shop/db", "5432", false],
    ["outside", "shop/db", "5432", false],
  ],
  [
    ["ingress-nginx/controller", "shop/web", "8080", true],
    ["ingress-nginx/controller", "shop/web", "80", false],
    ["ingress-nginx/controller", "shop/db", "8080", true],
    ["outside", "shop/web", "8080", false],
  ],
  [
    ["shop/web", "8.8.8.8", "443", true],
    ["shop/web", "2001:db8::1", "443", true],
    ["shop/web", "8.8.8.8", "80", false],
    ["shop/web", "10.1.2.3", "443", false],
    ["shop/web", "169.254.169.254", "443", false],
    ["shop/web", "fd00::7", "443", false],
  ],
  [
    ["shop/web", "169.254.169.254", "80", false],
    ["shop/web", "8.8.8.8", "80", true],
    ["monitoring/prometheus", "shop/db", "9090", true],
  ],
];

describe("docs/guides/recipes.md", () => {
  const text = readFileSync("docs/guides/recipes.md", "utf8");
  const recipes = [...text.matchAll(/^## (.*)$[^]*?^```yaml\n([^]*?)^```$/gm)];

  it("has as many recipes as this test has lists of connections", () => {
    assert.equal(recipes.length, CONNECTIONS.length);
  });

  for (const [i, [, title = "", recipe = ""]] of recipes.entries()) {
    it(`DOCS-06: the recipe "${title}" allows what it says, and policy lint has no warning about it`, async () => {
      const files = memoryFiles({ "a.yaml": `${PODS}---\n${recipe}` });
      for (const [from, to, port, isAllowed] of CONNECTIONS[i] ?? []) {
        const { code, out } = await runCli(
          ["policy", "explain", "-f", "a.yaml", "--from", from, "--to", to, "--port", port],
          files,
        );
        assert.equal(code, isAllowed ? 0 : 1, `${from} to ${to} ${port}: ${out}`);
      }
      const { code, out } = await runCli(["policy", "lint", "-f", "a.yaml"], files);
      assert.equal(code, 0, out);
    });
  }
});
