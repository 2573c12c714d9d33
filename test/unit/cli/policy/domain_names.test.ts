import assert from "node:assert/strict";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { rowLine } from "../../../../policyd/flows/journal.ts";
import { memoryFiles, runCli } from "../../../support/cli/cli.ts";
import { ask as run, namespace, networkPolicy, pod } from "../../../support/cli/objects.ts";

/** Returns a policy by which pods reach names at port 443, and nothing else. */
function policy(names: string): string {
  return `
apiVersion: policy.networking.k8s.io/v1beta1
kind: ClusterNetworkPolicy
metadata: { name: names }
spec:
  tier: Admin
  priority: 1
  subject: { namespaces: {} }
  egress:
    - action: Accept
      to: [{ domainNames: [${names}] }]
      protocols: [{ tcp: { destinationPort: { number: 443 } } }]
    - action: Deny
      to: [{ networks: [0.0.0.0/0, "::/0"] }]
`;
}

const POD = namespace("shop") + pod("shop/web", "10.244.1.5");

/** Returns the exit code and all output of a command about policies. */
async function ask(text: string, ...args: readonly string[]): Promise<string> {
  const { code, out, err } = await run(`${POD}${text}`, "policy", ...args);
  return `${code} ${out}${err}`;
}

const explain = (text: string, to: string, port = "443") =>
  ask(text, "explain", "--from", "shop/web", "--to", to, "--port", port);

describe("domain names on the command line", () => {
  const NAMES = policy('api.example.com, "*.example.org"');
  /** Without the rule that denies all other addresses. */
  const NAMES_ONLY = NAMES.replace(/ {4}- action: Deny[^]*/, "---\n");
  /** Before the rule that denies all other addresses, also those of DNS servers. */
  const NAMES_AND_DNS = NAMES.replace(
    "    - action: Deny",
    `    - action: Accept
      to: [{ namespaces: {} }]
      protocols: [{ udp: { destinationPort: { number: 53 } } }]
    - action: Deny`,
  );

  it("NAME-14: explain answers for a name as the destination, at the rule's port", async () => {
    assert.match(
      await explain(NAMES, "api.example.com"),
      /^0 shop\/web to api\.example\.com, port 443\/TCP.*: allowed/,
    );
    assert.match(await explain(NAMES, "A.B.example.org."), /^0 /);
    assert.match(await explain(NAMES, "api.example.com", "80"), /^1 .*: denied/);
    assert.match(await explain(NAMES, "example.org"), /^1 .*: denied/);
  });

  it("NAME-14: explain notes that a pod may not ask the cluster's DNS for a name that it may reach", async () => {
    const closed = (rules: string): string =>
      networkPolicy("shop/web", `podSelector: {}, policyTypes: [Egress], egress: [${rules}]`);
    const note = /^Note: policies do not let shop\/web ask the cluster's DNS/m;
    const dns = pod("kube-system/dns", "10.244.1.53", { labels: "k8s-app: kube-dns" });
    const rule = "{ to: [{ namespaceSelector: {} }], ports: [{ port: 53, protocol: UDP }] }";
    for (const more of ["", dns]) {
      assert.match(await explain(NAMES_ONLY + closed("") + more, "api.example.com"), note);
      assert.doesNotMatch(await explain(NAMES_ONLY + closed(rule) + more, "api.example.com"), note);
      assert.doesNotMatch(await explain(NAMES_ONLY + closed("") + more, "203.0.113.7", "80"), note);
    }
  });

  it("NAME-14: explain says that an address depends on names, on which, and ends with exit code 3", async () => {
    const answer = await explain(NAMES, "203.0.113.7");
    assert.match(answer, /^3 .*: depends on DNS/);
    assert.match(answer, /ClusterNetworkPolicy names egress\[0\].*for api\.example\.com, \*\.example\.org/);
    assert.match(await explain(NAMES, "203.0.113.7", "80"), /^1 .*: denied/);
    assert.match(await explain(NAMES, "outside"), /^3 .*: depends on DNS/);
  });

  it("NAME-13 NAME-14: a rule that the annotation adds is named by the annotation and its line, and written rules by their index", async () => {
    const annotation = "drawbridge.dev/egress-domain-names";
    const annotated = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: out
  namespace: shop
  annotations:
    ${annotation}: "api.example.com:443 api.example.com"
spec:
  podSelector: {}
  policyTypes: [Egress]
  egress:
    - to: [{ ipBlock: { cidr: 192.0.2.0/24 } }]
      ports: [{ port: 5432 }]
`;
    const lineOf = (text: string): number =>
      `${POD}${annotated}`.split("\n").findIndex((one) => one.includes(text)) + 1;
    const added = `shop/out metadata.annotations["${annotation}"] (a.yaml:${lineOf(annotation)})`;
    assert.ok((await explain(annotated, "api.example.com")).includes(`by NetworkPolicy ${added}`));
    const answer = await explain(annotated, "203.0.113.7");
    assert.ok(answer.includes(`NetworkPolicy ${added} allows addresses that DNS`), answer);
    const written = `shop/out egress[0].to[0], ports[0] (a.yaml:${lineOf("ipBlock")})`;
    assert.ok((await explain(annotated, "192.0.2.7", "5432")).includes(written));
    const files = memoryFiles({
      "a.yaml": POD + annotated,
      "b.yaml": POD + annotated.replace("api.example.com", "x.y"),
    });
    const { out } = await runCli(["policy", "diff", "b.yaml", "a.yaml", "-o", "json"], files);
    assert.ok(out.includes(`"line": ${lineOf(annotation)}`), out);
    assert.ok(!out.includes("egress[1]"), out);
    assert.ok((await ask(annotated, "lint")).includes(added.replace("shop/out ", "")));
  });

  it("NAME-14: matrix and describe have each name of the policies, and --to any other, with what its rules allow", async () => {
    const deny = "  egress:\n    - { action: Deny, to: [{ networks: [203.0.113.0/24] }] }";
    const more = policy('"*.example.com"').replace("name: names", "name: more").replace("priority: 1", "priority: 2");
    const all = `${NAMES.replace("  egress:", deny)}---${more.replace("number: 443", "number: 80")}`;
    const { out } = await run(`${POD}${all}`, "policy", "matrix", "-o", "json", "--from", "shop/web");
    const cells = JSON.parse(out) as { readonly [K in "to" | "connections" | "always"]: unknown }[];
    assert.deepEqual(
      cells.slice(-3).map(({ to, connections, always }) => [to, connections, always]),
      [
        ["*.example.com", [], []],
        ["*.example.org", ["443/TCP"], []],
        ["api.example.com", ["443/TCP"], []],
      ],
    );
    const to = (name: string) => ask(NAMES, "matrix", "--to", name);
    assert.match(await to("deep.in.example.org"), /^0 [^]*443\/TCP +shop\/web$/m);
    assert.match(await to("example.org"), /^0 [^]* - +shop\/web$/m);
    assert.match(await ask(NAMES, "describe", "shop/web"), /^0 [^]*443\/TCP +\*\.example\.org, api\.example\.com$/m);
    assert.match(await ask(NAMES, "matrix", "-o", "html"), /shop\/web to api\.example\.com: 443\/TCP[^"]*: allowed/);
  });

  it("NAME-14: diff and dry-run name the names that pods reach no longer, and from now on, with their rules", async () => {
    const old = namespace("shop") + pod("shop/web", "10.244.1.5 fd00::5") + NAMES;
    const files = { "old.yaml": old, "new.yaml": policy('other.example.com, "*.example.org"') };
    const asked = [
      ["diff", "old.yaml", "whole.yaml"],
      ["dry-run", "-f", "new.yaml", "--against", "old.yaml"],
    ];
    for (const args of asked) {
      const whole = old.replace(NAMES, files["new.yaml"]);
      const { code, out } = await runCli(["policy", ...args], memoryFiles({ ...files, "whole.yaml": whole }));
      assert.equal(code, 1);
      const lines = out.split("\n").filter((line) => /^(closes|opens|  \d)/.test(line));
      assert.deepEqual(lines, [
        "closes new pod in any other namespace, shop/web -> api.example.com: 443/TCP",
        "  6 of 6 pairs, such as new pod in any other namespace -> api.example.com at 203.0.113.1 443/TCP",
        "opens new pod in any other namespace, shop/web -> other.example.com: 443/TCP",
        "  6 of 6 pairs, such as new pod in any other namespace -> other.example.com at 203.0.113.1 443/TCP",
      ]);
    }
  });

  it("NAME-14: dry-run on a ledger cuts what is reached by a name that goes, and otherwise exits with 3, since rows may lack names", async () => {
    const seen = { firstSeen: 0, lastSeen: 1, count: 1, open: 1, bytes: 0, reason: undefined };
    const row = rowLine({
      ...seen,
      from: { type: "workload", name: "shop/web" },
      to: { type: "outside", range: parseCidr("203.0.113.7/32"), name: "api.example.com" },
      protocol: "TCP",
      port: 443,
      verdict: "allowed",
      observedAt: "from",
    });
    for (const [names, expected] of [
      ["other.example.com", /^1 /],
      [
        'api.example.com, "*.example.org", more.example.com',
        /^3 [^]*left out: .*names \*\.example\.org, api\.example\.com/,
      ],
    ] as const) {
      const files = memoryFiles({ "old.yaml": POD + NAMES, "new.yaml": policy(names), "flows.jsonl": row });
      const args = ["policy", "dry-run", "-f", "new.yaml", "--against", "old.yaml", "--ledger", "flows.jsonl"];
      const { code, out, err } = await runCli(args, files);
      assert.match(`${code} ${out}${err}`, expected);
    }
  });

  it("NAME-14: lint does not call a policy unneeded that only allows names", async () => {
    const more = policy("other.example.com").replace("name: names", "name: more").replace("priority: 1", "priority: 0");
    const allow = more.slice(0, more.indexOf("    - action: Deny"));
    assert.match(await ask(`${NAMES_AND_DNS}---${allow}`, "lint"), /^0 /);
  });

  it("LINT-10 NAME-02: lint warns of names for pods that may ask DNS neither by labels nor by address, and refuses a wildcard of a top-level domain", async () => {
    const closed = NAMES.replace(/to: \[\{ networks: .*/, "to: [{ namespaces: {} }]");
    const warning = /^1 [^]*dns-forgotten +ClusterNetworkPolicy names: has domain names .*shop\/web$/m;
    assert.match(await ask(closed, "lint"), warning);
    assert.match(await ask(NAMES, "lint"), warning);
    const byAddress = `${closed}---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: node-local-dns, namespace: shop }
spec:
  podSelector: {}
  policyTypes: [Egress]
  egress: [{ to: [{ ipBlock: { cidr: 169.254.20.10/32 } }], ports: [{ port: 53, protocol: UDP }] }]
`;
    assert.doesNotMatch(await ask(byAddress, "lint"), /has domain names/);
    assert.match(await ask(NAMES_AND_DNS, "lint"), /^0 /);
    assert.match(await ask(policy('"*.com"'), "lint"), /^1 [^]*"\*\.com"; expected a domain name of two labels/);
  });
});
