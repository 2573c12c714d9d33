import assert from "node:assert/strict";
import { memoryFiles, type Outcome, runCli } from "../../../../support/cli/cli.ts";
import { networkPolicy, pod, service } from "../../../../support/cli/objects.ts";
import { FROM_EDGE, ingress, NGINX, pathTo, waysInOf, WEB } from "../../../../support/cli/ways_in.ts";

const INGRESS = ingress("web", `ingressClassName: nginx, rules: [${pathTo("web", "name: http")}]`);
const BASE = NGINX + WEB + INGRESS;
const WITHOUT_ADDRESSES = BASE.replaceAll(/, podIPs: \[.*?\]/g, "");
const FOR_INGRESS = "asked for by Ingress shop/web, through IngressClass nginx";

/** Returns a line of conntrack for a connection of TCP. */
const entry = (source: string, destination: string, port: number): string =>
  `tcp 6 100 ESTABLISHED src=${source} dst=${destination} sport=40001 dport=${port} src=${destination} dst=${source} sport=${port} dport=40001 [ASSURED] use=1\n`;

const suggest = (text: string, namespace: string, table = "", ...args: readonly string[]): Promise<Outcome> =>
  runCli(
    ["policy", "suggest", "-f", "a.yaml", "-n", namespace, "--conntrack", "table.txt", ...args],
    memoryFiles({ "a.yaml": text, "table.txt": table }),
  );

/** Returns whether policies let an address or a pod reach another one. */
async function isAllowed(text: string, from: string, to: string, port: string): Promise<boolean> {
  const args = ["policy", "explain", "-f", "a.yaml", "--from", from, "--to", to, "--port", port];
  return (await runCli(args, memoryFiles({ "a.yaml": text }))).code === 0;
}

describe("cli/policy/suggest: ways in", () => {
  it("SUGGEST-09: a backend stays open for its controller's pods without any connection seen, and for nobody else", async () => {
    // Pods of templates have no addresses.
    for (const base of [BASE, WITHOUT_ADDRESSES]) {
      for (const namespace of ["shop", "edge"]) {
        const { code, out } = await suggest(base, namespace);
        assert.equal(code, 0);
        assert.equal(out.split(`# ${FOR_INGRESS}\n`).length, 2, out);
        const text = `${base}${out}`;
        assert.deepEqual((await waysInOf(text)).open, ["IngressClass nginx > shop/web: 8080/TCP"], namespace);
        const files = memoryFiles({ "a.yaml": base, "b.yaml": text });
        const diff = await runCli(["policy", "diff", "a.yaml", "b.yaml", "-o", "json"], files);
        assert.deepEqual((JSON.parse(diff.out) as { readonly waysIn: readonly unknown[] }).waysIn, []);
      }
    }
    const { out, err } = await suggest(BASE, "shop");
    assert.match(
      err,
      /^note: shop\/web: no connection was seen that needs a rule, so only what objects ask for is allowed by one$/m,
    );
    const after = `${BASE}${out}---\n${pod("edge/other", "10.244.0.9")}`;
    assert.equal(await isAllowed(after, "edge/other", "shop/web", "8080"), false);
    assert.equal(await isAllowed(after, "edge/nginx", "shop/web", "9090"), false);
    assert.equal(await isAllowed(after, "203.0.113.7", "shop/web", "8080"), false);
  });

  it("SUGGEST-09: node ports, balancers and external addresses keep their pods open for every address in each protocol", async () => {
    const dns =
      pod("shop/dns", "10.244.0.9", { ports: "{ name: dns, containerPort: 5353, protocol: UDP }" }) +
      service("shop/dns", "dns", "{ port: 53, protocol: UDP, targetPort: 5353 }", "type: NodePort");
    const { out } = await suggest(dns, "shop", entry("203.0.113.9", "10.244.0.9", 9000));
    assert.match(out, /^ +# asked for by Service shop\/dns \(NodePort\)\n +- ipBlock:\n +cidr: 0\.0\.0\.0\/0$/m);
    assert.equal(await isAllowed(dns + out, "203.0.113.7", "shop/dns", "5353/UDP"), true);
    assert.equal(await isAllowed(dns + out, "203.0.113.7", "shop/dns", "5353/TCP"), false);
    assert.equal(await isAllowed(dns + out, "203.0.113.9", "shop/dns", "9000/TCP"), true);
    for (const base of [BASE, WITHOUT_ADDRESSES]) {
      const balancer = await suggest(base, "edge");
      assert.match(
        balancer.out,
        /# asked for by IngressClass nginx\n +# asked for by Service edge\/nginx \(LoadBalancer\)$/m,
      );
    }
    const external = await suggest(dns.replace("type: NodePort", "externalIPs: [198.51.100.7]"), "shop");
    assert.match(external.out, /# asked for by Service shop\/dns \(external addresses\)$/m);
    const inside = await suggest(dns.replace("type: NodePort", "type: ClusterIP"), "shop");
    assert.deepEqual([inside.code, inside.out], [3, ""], "nothing asks and nothing was seen");
  });

  it("SUGGEST-09: where a rule allows a port from every address, addresses from which it was seen get no rule of their own", async () => {
    const web = WEB.replace("targetPort: admin }]", "targetPort: admin }], type: LoadBalancer");
    const { out, err } = await suggest(web, "shop", entry("203.0.113.9", "10.244.0.3", 8080));
    assert.doesNotMatch(out, /203\.0\.113\.9/);
    assert.doesNotMatch(err, /such addresses change/);
    assert.equal(await isAllowed(web + out, "203.0.113.9", "shop/web", "8080"), true);
  });

  it("SUGGEST-09: policy suggest names a way into the namespace if its controller is unknown, unless --ingress-controller names the pods", async () => {
    const text = WEB + INGRESS.replace("ClassName: nginx", "ClassName: x") + pod("edge/mine", "10.244.0.6");
    const { out, err } = await suggest(text, "shop");
    assert.equal(out, "");
    assert.match(
      err,
      /^note: no way in is judged by Ingress shop\/web \(a\.yaml:\d+\): the IngressClass x was not read; .*; what was not seen of it is not allowed$/m,
    );
    assert.doesNotMatch((await suggest(text, "edge")).err, /no way in/);
    const given = await suggest(text, "shop", "", "--ingress-controller", "edge/mine");
    assert.doesNotMatch(given.err, /no way in/);
    assert.equal(await isAllowed(text + given.out, "edge/mine", "shop/web", "8080"), true);
  });

  it("SUGGEST-09: a way to or from a pod in its node's network whose address is not known is named as not allowed", async () => {
    const onNode = (text: string): string =>
      text.replace(/, podIPs: \[.*?\]/, "").replace("containers:", "hostNetwork: true, containers:");
    const unknown = (key: string): string =>
      `not allowed: Ingress shop/web, through IngressClass nginx: the address of ${key}, in its node's network, is not in the input\n`;
    for (const [key, namespace, text] of [
      ["edge/nginx", "shop", onNode(NGINX) + WEB],
      ["shop/web", "edge", NGINX + onNode(WEB)],
    ] as const) {
      const table = entry("10.244.0.2", "10.244.0.3", 9000);
      const { code, err } = await suggest(text + INGRESS, namespace, table);
      assert.equal(code, 1);
      assert.ok(err.includes(unknown(key)), err);
      const other = await suggest(text + INGRESS, key.split("/")[0] ?? "");
      assert.doesNotMatch(other.err, /^not allowed/m);
    }
  });

  it("SUGGEST-09: a way that an existing policy allows gets no rule, and one that policies close is named and stays closed", async () => {
    const policy = networkPolicy("shop/web", `podSelector: {}, ingress: [{ from: [${FROM_EDGE}] }]`);
    const allowed = await suggest(BASE + policy, "shop");
    assert.doesNotMatch(allowed.out, /asked for by/);
    assert.doesNotMatch(allowed.err, /close it/);
    const shut = networkPolicy("edge/shut", "podSelector: {}, policyTypes: [Egress]");
    const closed = await suggest(BASE + shut, "shop");
    assert.match(closed.out, /^ {2}ingress: \[\]$/m);
    assert.match(
      closed.err,
      /^note: Ingress shop\/web, through IngressClass nginx: policies that are there close it$/m,
    );
  });
});
