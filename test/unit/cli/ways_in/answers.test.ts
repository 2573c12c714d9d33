import assert from "node:assert/strict";
import type { Explanation, WayInReport } from "../../../../cli/policy/explain/explanation.ts";
import { memoryFiles, runCli, matrixLines } from "../../../support/cli/cli.ts";
import { ask, networkPolicy, object, pod } from "../../../support/cli/objects.ts";
import { FROM_EDGE, ingress, NGINX, NGINX_LABELS, pathTo, waysInOf, WEB } from "../../../support/cli/ways_in.ts";

const INGRESS = ingress("web", `ingressClassName: nginx, rules: [${pathTo("web", "name: http")}]`);
const BASE = NGINX + WEB + INGRESS;
/** A policy by which only the controller's namespace may send to the shop, and only to the Service's port. */
const SHOP = networkPolicy("shop/web", `podSelector: {}, ingress: [{ from: [${FROM_EDGE}], ports: [{ port: 8080 }] }]`);
const edge = (ingressRules: string): string =>
  networkPolicy("edge/nginx", `podSelector: {}, policyTypes: [Ingress], ingress: [${ingressRules}]`);

const explain = async (text: string, ...args: readonly string[]): Promise<Explanation> => {
  const { out } = await ask(text, "policy", "explain", "--from", "203.0.113.7", "-o", "json", ...args);
  return JSON.parse(out) as Explanation;
};

/** Policies, and the connections that they leave of the way as the matrix prints them; `policy explain` must agree. */
const CASES: readonly (readonly [what: string, policies: string, connections: string | undefined])[] = [
  ["no policy closes the way", "", "8080/TCP"],
  ["the backend admits the controller's namespace", SHOP, "8080/TCP"],
  ["the backend admits another port", SHOP.replace("port: 8080", "port: 9090"), undefined],
  ["the backend admits another namespace", SHOP.replace("name: edge", "name: other"), undefined],
  ["the controller may send nothing", networkPolicy("edge/out", "podSelector: {}, policyTypes: [Egress]"), undefined],
  ["nobody may reach the controller", SHOP + edge(""), undefined],
  ["the outside may reach the controller", SHOP + edge("{ ports: [{ port: 80 }] }"), "8080/TCP"],
  [
    "the outside may reach only a port that no Service leads to",
    SHOP + edge("{ ports: [{ port: 10254 }] }"),
    undefined,
  ],
  [
    "pods may reach the controller, and not the outside",
    SHOP + edge("{ from: [{ namespaceSelector: {} }] }"),
    undefined,
  ],
];

describe("ways in: answers", () => {
  it("INGRESS-07: a way counts as open only if the outside may reach the controller, and its pods the backend's port", async () => {
    for (const [what, policies, expected] of CASES) {
      const { open, err } = await waysInOf(BASE + policies);
      assert.deepEqual(open, expected === undefined ? [] : [`IngressClass nginx > shop/web: ${expected}`], what);
      assert.equal(err, "", what);
      // The controller's balancer has an address, so no node changes the source.
      const text = (BASE + policies).replace(
        "type: LoadBalancer }",
        "type: LoadBalancer, externalTrafficPolicy: Local }, status: { loadBalancer: { ingress: [{ ip: 198.51.100.9 }] } }",
      );
      for (const args of [
        ["--to", "shop/web"],
        ["--to", "shop/web", "--port", "8080"],
        ["--to", "service/shop/web", "--port", "80"],
      ]) {
        const { waysIn } = await explain(text, ...args);
        assert.deepEqual(
          waysIn.map((way) => [way.name, way.through, way.open]),
          [["Ingress shop/web", "IngressClass nginx", expected !== undefined]],
          `${what} ${args.join(" ")}`,
        );
      }
    }
  });

  it("INGRESS-07: a way through one of two controllers counts as open for some connections, whichever hop closes the other", async () => {
    const second = pod("edge/other", "10.244.0.7", {
      app: "other",
      labels: NGINX_LABELS,
      ports: "{ name: http, containerPort: 80 }",
    });
    const ofOther = "podSelector: { matchLabels: { app: other } }";
    const open = async (policies: string): Promise<readonly string[]> =>
      (await waysInOf(BASE + second + policies)).open;
    assert.deepEqual(await open(""), ["IngressClass nginx > shop/web: 8080/TCP"]);
    for (const spec of [ofOther, `${ofOther}, policyTypes: [Egress]`]) {
      const some = await open(networkPolicy("edge/other", spec));
      assert.deepEqual(some, ["IngressClass nginx > shop/web: 8080/TCP (some)"], spec);
    }
    const inside = `${ofOther}, ingress: [{ from: [{ ipBlock: { cidr: 203.0.113.0/24 } }] }]`;
    const fromSome = pod("edge/nginx", "10.244.0.2", { labels: NGINX_LABELS }).replace("app: nginx", "app: other");
    const { open: partly } = await waysInOf(WEB + INGRESS + fromSome + networkPolicy("edge/other", inside));
    assert.deepEqual(partly, ["IngressClass nginx > shop/web: 8080/TCP (some)"], "some of the outside");
  });

  it("INGRESS-07: a controller of the host's network counts as its node, and one without a Service is reached at its own ports", async () => {
    const onHost = pod("edge/nginx", "10.0.0.1", {
      labels: NGINX_LABELS,
      spec: "hostNetwork: true, nodeName: worker-1",
    });
    const text = WEB + INGRESS + onHost;
    assert.deepEqual((await waysInOf(text)).open, ["IngressClass nginx > shop/web: 8080/TCP"]);
    assert.deepEqual((await waysInOf(text + SHOP)).open, [], "a node is not a pod of its namespace");
    const ofNodes = SHOP.replace(FROM_EDGE, "{ ipBlock: { cidr: 10.0.0.0/24 } }");
    const node = object(
      "v1",
      "Node",
      "name: worker-1",
      "status: { addresses: [{ type: InternalIP, address: 10.0.0.1 }] }",
    );
    assert.deepEqual((await waysInOf(text + ofNodes + node)).open, ["IngressClass nginx > shop/web: 8080/TCP"]);
    const withHostPort = pod("edge/nginx", "10.244.0.2", {
      labels: NGINX_LABELS,
      ports: "{ name: http, containerPort: 8000, hostPort: 80 }, { name: metrics, containerPort: 10254 }",
    });
    const onlyPort = (port: number): string => edge(`{ ports: [{ port: ${port} }] }`);
    for (const [controller, port, isOpen] of [
      [withHostPort, 8000, true],
      [withHostPort, 10254, false],
      [withHostPort.replace(", hostPort: 80", ""), 10254, true],
      [withHostPort.replace(", hostPort: 80", ""), 7, false],
      [pod("edge/nginx", "10.244.0.2", { labels: NGINX_LABELS }), 7, true],
    ] as const) {
      const { open } = await waysInOf(WEB + INGRESS + controller + onlyPort(port));
      assert.equal(open.length > 0, isOpen, `${controller} ${port}`);
    }
  });

  it("INGRESS-07: every output format has rows for ways, and --to, --from and --port filter them", async () => {
    const text = BASE + SHOP;
    const matrix = async (...args: readonly string[]): Promise<string> =>
      (await ask(text, "policy", "matrix", ...args)).out;
    const name = "outside through IngressClass nginx";
    assert.match(
      await matrix("--to", "shop/web"),
      /^shop\/web +8080\/TCP +edge\/nginx, outside through IngressClass nginx, new pod in edge$/m,
    );
    assert.doesNotMatch(await matrix("--from", "shop/web"), /through/);
    assert.match(await matrix(), new RegExp(`^${name} +- +8080/TCP`, "m"));
    assert.match(matrixLines(await matrix("-o", "json")), new RegExp(`^${name},shop/web,8080/TCP,8080/TCP$`, "m"));
    assert.match(
      matrixLines(await matrix("-o", "json", "--port", "8080,9090")),
      new RegExp(`^${name},shop/web,8080,TCP,yes\n${name},shop/web,9090,TCP,no$`, "m"),
    );
    assert.match(await matrix("-o", "md"), /\["through IngressClass nginx"\]/);
    assert.match(await matrix("-o", "md"), new RegExp(`\`${name}\``));
    const wide = text + Array.from({ length: 20 }, (_, i) => pod(`n${i}/p`, `10.244.9.${i}`)).join("");
    const list = await ask(wide, "policy", "matrix");
    assert.match(list.out, new RegExp(`^${name} +8080/TCP +shop/web$`, "m"));
  });

  it("INGRESS-07: policy explain from outside shows each way with both hops, and its first line says which are open", async () => {
    const { code, out, err } = await ask(
      BASE + SHOP,
      "policy",
      "explain",
      "--from",
      "203.0.113.7",
      "--to",
      "shop/web",
      "--port",
      "8080",
    );
    assert.deepEqual([code, err], [1, ""]);
    const line = BASE.split("\n").findIndex((one) => one.includes("kind: Ingress,")) + 1;
    assert.match(out, /^203\.0\.113\.7 to shop\/web, port 8080\/TCP, IPv4: denied; open through Ingress shop\/web$/m);
    assert.match(
      out,
      new RegExp(String.raw`^Ingress shop/web \(a\.yaml:${line}\) through IngressClass nginx: open$`, "m"),
    );
    assert.match(out, /^ {2}203\.0\.113\.7 to service\/edge\/nginx, port 80\/TCP: allowed$/m);
    assert.match(out, /^ {2}edge\/nginx to shop\/web, port 8080\/TCP, IPv4: allowed$/m);
    assert.match(
      out,
      /^ {4}ingress allowed by NetworkPolicy shop\/web ingress\[0\]\.from\[0\], ports\[0\] \(a\.yaml:\d+\)$/m,
    );
    const closed = await ask(
      BASE + SHOP.replace("port: 8080", "port: 1"),
      "policy",
      "explain",
      "--from",
      "203.0.113.7",
      "--to",
      "shop/web",
    );
    assert.match(closed.out, /^203\.0\.113\.7 to shop\/web: nothing is allowed$/m);
    assert.match(closed.out, /^Ingress shop\/web .* through IngressClass nginx: closed$/m);
  });

  it("INGRESS-07: only ways to the requested port are reported, none from within the cluster, and JSON explains them", async () => {
    const [way] = (await explain(BASE + SHOP, "--to", "shop/web")).waysIn;
    const summary = ({ name, file, open, partly, entry, onward }: WayInReport) => [
      name,
      file,
      open,
      partly,
      entry.to.name,
      onward.map((hop) => [hop.from.name, hop.to.name, hop.port, hop.allowed]),
    ];
    assert.deepEqual(way === undefined ? undefined : summary(way), [
      "Ingress shop/web",
      "a.yaml",
      true,
      false,
      "service/edge/nginx",
      [["edge/nginx", "shop/web", 8080, true]],
    ]);
    for (const args of [
      ["--to", "shop/web", "--port", "9090"],
      ["--to", "shop/web", "--port", "8080/UDP"],
      ["--to", "shop/web", "--port", "icmp"],
      ["--to", "service/shop/web", "--port", "81"],
      ["--to", "edge/nginx"],
    ]) {
      assert.deepEqual((await explain(BASE + SHOP, ...args)).waysIn, [], args.join(" "));
    }
    const inside = await ask(BASE, "policy", "explain", "--from", "edge/nginx", "--to", "shop/web", "-o", "json");
    assert.deepEqual((JSON.parse(inside.out) as Explanation).waysIn, []);
  });

  it("INGRESS-07: a cell of the HTML page has both hops", async () => {
    const { out } = await ask(BASE + SHOP, "policy", "matrix", "-o", "html");
    assert.ok(out.includes("outside through IngressClass nginx"));
    assert.match(out, /Ingress shop\/web \(a\.yaml:\d+\) through IngressClass nginx:(\\n)? +open/);
    assert.match(out, /edge\/nginx to shop\/web, port 8080\/TCP/);
  });

  it("LINT-10: controller-kept-out is found at a path whose pods the controller may not reach, with the policies", async () => {
    const lint = async (text: string) => {
      const { out } = await ask(text, "policy", "lint", "--only", "controller-kept-out", "-o", "json");
      return JSON.parse(out) as readonly {
        readonly object: string;
        readonly severity: string;
        readonly line: number;
        readonly message: string;
        readonly fix: string;
      }[];
    };
    assert.deepEqual(await lint(BASE + SHOP), []);
    const closed = SHOP.replace("port: 8080", "port: 1");
    const written = BASE.replace("rules: [", "rules:\n [").replace("backend:", "\n backend:");
    const [found, ...more] = await lint(written + closed);
    const line = written.split("\n").findIndex((one) => one.includes("{ path: /")) + 1;
    assert.deepEqual([found?.object, found?.severity, found?.line, more], ["Ingress shop/web", "warning", line, []]);
    assert.match(
      found?.message ?? "",
      /^leads to Service web port http, and edge\/nginx, the pods of IngressClass nginx, may not send to shop\/web at 8080\/TCP: ingress denied: isolated by NetworkPolicy shop\/web \(a\.yaml:\d+\); nearest is shop\/web ingress\[0\] \(a\.yaml:\d+\), but it is for port 1$/,
    );
    assert.equal(found?.fix, "allow ingress from pods of namespace edge at port 8080, and egress there");
    const denied = object(
      "policy.networking.k8s.io/v1beta1",
      "ClusterNetworkPolicy",
      "name: wall",
      "spec: { tier: Admin, priority: 1, subject: { namespaces: {} }, egress: [{ action: Deny, to: [{ namespaces: { matchLabels: { kubernetes.io/metadata.name: shop } } }] }] }",
    );
    assert.match(
      (await lint(BASE + denied))[0]?.message ?? "",
      /egress denied: Deny of ClusterNetworkPolicy wall egress\[0\] \(a\.yaml:\d+\)$/,
    );
    const annotated = BASE.replace(
      "name: web, namespace: shop }, spec: { ingressClassName",
      "name: web, namespace: shop, annotations: { drawbridge.dev/lint-ignore: controller-kept-out } }, spec: { ingressClassName",
    );
    assert.deepEqual(await lint(annotated + closed), []);
    const comment = BASE.replace(
      "{ apiVersion: networking.k8s.io/v1, kind: Ingress,",
      "# drawbridge:ignore controller-kept-out it is closed for now\n{ apiVersion: networking.k8s.io/v1, kind: Ingress,",
    );
    assert.deepEqual(await lint(comment + closed), []);
  });

  it("INGRESS-07: policy test reports open ways in beside an expectation that connections from outside are denied", async () => {
    const file = (from: string, to: string, expect: string): string =>
      `apiVersion: drawbridge.dev/v1alpha1\nkind: PolicyTest\ntests: [{ name: t, from: ${from}, to: ${to}, expect: ${expect}, reason: r }]\n`;
    const run = (text: string, manifests: string) =>
      runCli(["policy", "test", "t.yaml", "-f", "a.yaml"], memoryFiles({ "t.yaml": text, "a.yaml": manifests }));
    const outside = file("203.0.113.7", "shop/web", "denied");
    const open = await run(outside, BASE + SHOP);
    assert.deepEqual(
      [open.code, open.err],
      [0, "t: connections from outside come in through Ingress shop/web all the same\n"],
    );
    const closed = SHOP.replace("name: edge", "name: other");
    // The controller is on each node, and nobody stops what a node sends to its own pods.
    const onHosts = BASE.replace("spec: { containers", "spec: { hostNetwork: true, containers");
    const without = BASE.replace("controller: k8s.io/ingress-nginx", "controller: x.org/y");
    for (const [text, manifests, err] of [
      [outside, BASE + closed, /^$/],
      [
        outside,
        onHosts + closed,
        /^t: not known: whether connections from outside come in through Ingress shop\/web\n$/,
      ],
      [file("edge/nginx", "shop/web", "denied"), BASE + closed, /^$/],
      [file("edge/nginx", "shop/web", "denied"), without + closed, /^$/],
      [outside, without + closed, /^no way in is judged by Ingress shop\/web .*\n$/],
    ] as const) {
      const outcome = await run(text, manifests);
      assert.equal(outcome.code, 0, outcome.out);
      assert.match(outcome.err, err);
    }
  });
});
