import assert from "node:assert/strict";
import { DIFF_FORMATS } from "../../../../cli/policy/diff/command.ts";
import { memoryFiles, type Outcome, runCli } from "../../../support/cli/cli.ts";
import { networkPolicy, object, pod, service } from "../../../support/cli/objects.ts";
import { FROM_EDGE, ingress, NGINX, WEB } from "../../../support/cli/ways_in.ts";

const rule = (host: string, path: string, name: string, port: string): string =>
  `{ host: ${host}, http: { paths: [{ path: ${path}, pathType: Prefix, backend: { service: { name: ${name}, port: { ${port} } } } }] } }`;
const CART = rule("shop.example", "/cart", "web", "name: http");
const INGRESS = ingress("web", `ingressClassName: nginx, rules: [${CART}]`);
const OBJECTS = NGINX + WEB;
const BASE = OBJECTS + INGRESS;
const SHOP = networkPolicy("shop/web", `podSelector: {}, ingress: [{ from: [${FROM_EDGE}], ports: [{ port: 8080 }] }]`);
const CLOSED = SHOP.replace("port: 8080", "port: 9090");

interface Change {
  readonly change: string;
  readonly name: string;
  readonly file: string;
  readonly through: string | null;
  readonly service: string | null;
  readonly port: string | number | null;
  readonly to: readonly string[];
  readonly connections: readonly string[];
  readonly partly: boolean;
  readonly notJudged?: string;
}

/** Runs `policy diff` from a.yaml to b.yaml. */
const diff = (a: string, b: string, ...args: readonly string[]): Promise<Outcome> =>
  runCli(["policy", "diff", "a.yaml", "b.yaml", ...args], memoryFiles({ "a.yaml": a, "b.yaml": b }));

/** Runs `policy dry-run` of change.yaml against a.yaml. */
const dryRun = (a: string, change: string, ...args: readonly string[]): Promise<Outcome> => {
  const given = change === "" ? [] : ["-f", "change.yaml"];
  const files = memoryFiles({ "a.yaml": a, "change.yaml": change });
  return runCli(["policy", "dry-run", ...given, "--against", "a.yaml", ...args], files);
};

const waysOf = ({ out }: Outcome): readonly Change[] =>
  (JSON.parse(out) as { readonly waysIn: readonly Change[] }).waysIn;

/** Returns each change of a way as `added Ingress shop/web > shop/web: 8080/TCP`. */
async function changes(a: string, b: string, ...args: readonly string[]): Promise<readonly string[]> {
  const outcome = await diff(a, b, "-o", "json", ...args);
  const found = waysOf(outcome);
  if (found.length > 0) assert.equal(outcome.code, 1);
  return found.map(({ change, name, to, service: of, connections, partly, notJudged }) => {
    const effect = connections.join() || (notJudged === undefined ? "closed" : "not judged");
    return `${change} ${name} > ${to.join() || of}: ${effect}${partly ? " (some)" : ""}`;
  });
}

describe("ways in: changes", () => {
  it("INGRESS-15: policy diff names a way that a policy closes, with its object, class, Service and pods", async () => {
    const outcome = await diff(BASE + SHOP, BASE + CLOSED, "-o", "json");
    assert.deepEqual([outcome.code, outcome.err], [1, ""]);
    assert.deepEqual(waysOf(outcome), [
      {
        change: "removed",
        name: "Ingress shop/web",
        file: "b.yaml",
        line: BASE.split("\n").findIndex((line) => line.includes("kind: Ingress,")) + 1,
        through: "IngressClass nginx",
        service: "shop/web",
        port: "http",
        to: ["shop/web"],
        connections: ["8080/TCP"],
        partly: false,
      },
    ]);
    assert.deepEqual(await changes(BASE + CLOSED, BASE + SHOP), ["added Ingress shop/web > shop/web: 8080/TCP"]);
  });

  it("INGRESS-15: policy diff names each workload to which a way opens or closes, with the word some where only some of its pods differ, and with -n and -l only the chosen workloads", async () => {
    const form = { labels: "tier: x", ports: "{ name: http, containerPort: 8080 }" };
    const other = pod("shop/other", "10.244.0.8", form);
    const more = pod("shop/other", "10.244.0.8", { ...form, app: "web" });
    const metadata =
      "ownerReferences: [{ apiVersion: apps/v1, kind: StatefulSet, name: set, uid: u, controller: true }]";
    const owned = pod("shop/set-0", "10.244.0.8", { ...form, app: "web", metadata });
    const two =
      OBJECTS + INGRESS + owned + pod("shop/set-1", "10.244.0.9", { ...form, labels: "", app: "web", metadata });
    const [all, moved] = [BASE + more, BASE.replace("selector: { app: web }", "selector: { tier: x }") + other];
    const forOne = all + SHOP.replace("podSelector: {}", "podSelector: { matchLabels: { tier: x } }");
    const closed = all + CLOSED.replace("podSelector: {}", "podSelector: { matchLabels: { tier: x } }");
    const unknown = (text: string): string => text.replace("ingressClassName: nginx", "ingressClassName: x");
    for (const [before, after, ...expected] of [
      [forOne, closed, "removed > shop/other: 8080/TCP"],
      [closed, forOne, "added > shop/other: 8080/TCP"],
      [all + CLOSED, closed, "added > shop/web: 8080/TCP"],
      [closed, OBJECTS + more, "removed > shop/web: 8080/TCP"],
      [all, OBJECTS + more, "removed > shop/other,shop/web: 8080/TCP"],
      [two, two + closed.slice(all.length), "removed > shop/statefulset/set: 8080/TCP (some)"],
      [BASE + other, moved, "added > shop/other: 8080/TCP", "removed > shop/web: 8080/TCP"],
      [BASE + other + CLOSED, moved + CLOSED],
      [BASE + other, all, "added > shop/other: 8080/TCP"],
      [unknown(BASE) + other, unknown(moved), "added > shop/other: not judged", "removed > shop/web: not judged"],
    ] as const) {
      const found = await changes(before, after);
      assert.deepEqual(
        found.map((text) => text.replace(" Ingress shop/web", "")),
        expected,
      );
    }
    const inNamespace = await changes(BASE + other, moved, "--by", "namespace");
    assert.deepEqual(
      inNamespace.map((text) => text.split(" ").at(-2)),
      ["shop:", "shop:"],
    );
    for (const [args, code] of [
      [["-n", "blog"], 0],
      [["-l", "app=web"], 1],
      [["-n", "shop"], 2],
    ] as const) {
      const shown = await diff(BASE + other, moved, "-o", "json", ...args);
      assert.deepEqual([shown.code, waysOf(shown).length], [1, code], args.join(" "));
      assert.equal(shown.err.includes(`not shown: ${2 - code} change`), code < 2);
    }
    const applied = await dryRun(BASE + other, service("shop/web", "x", "{ name: http, port: 80, targetPort: http }"));
    assert.equal(applied.code, 1);
  });

  it("INGRESS-15: policy diff names what added, removed and changed rules of Ingresses and routes open and close", async () => {
    const api =
      pod("shop/api", "10.244.0.9", { ports: "{ name: http, containerPort: 7000 }" }) +
      service("shop/api", "api", "{ port: 80, targetPort: 7000 }");
    const two = (name: string, port: string): string =>
      ingress("web", `ingressClassName: nginx, rules: [${CART}, ${rule("shop.example", "/api", name, port)}]`);
    const all = OBJECTS + api;
    assert.deepEqual(await changes(OBJECTS, BASE), ["added Ingress shop/web > shop/web: 8080/TCP"]);
    assert.deepEqual(await changes(BASE, OBJECTS), ["removed Ingress shop/web > shop/web: 8080/TCP"]);
    assert.deepEqual(await changes(all + INGRESS, all + two("api", "number: 80")), [
      "added Ingress shop/web > shop/api: 7000/TCP",
    ]);
    assert.deepEqual(await changes(all + two("web", "name: http"), all + INGRESS), []);
    const moved = all.replace("targetPort: 7000", "targetPort: 7001");
    assert.deepEqual(await changes(all + two("api", "number: 80"), moved + two("api", "number: 80")), [
      "added Ingress shop/web > shop/api: 7001/TCP",
      "removed Ingress shop/web > shop/api: 7000/TCP",
    ]);
    const gateway =
      object("gateway.networking.k8s.io/v1", "GatewayClass", "name: g", "spec: { controllerName: x.org/g }") +
      object(
        "gateway.networking.k8s.io/v1",
        "Gateway",
        "name: public, namespace: shop",
        "spec: { gatewayClassName: g, listeners: [{ name: http, port: 80, protocol: HTTP }] }",
      ) +
      pod("shop/envoy", "10.244.0.7", { labels: "gateway.networking.k8s.io/gateway-name: public" });
    for (const kind of ["HTTPRoute", "GRPCRoute"]) {
      // Each of two listeners of one Gateway takes the route.
      const parents = "parentRefs: [{ name: public }, { name: public, sectionName: http }]";
      const spec = `spec: { ${parents}, rules: [{ backendRefs: [{ name: web, port: 80 }] }] }`;
      const route = object("gateway.networking.k8s.io/v1", kind, "name: r, namespace: shop", spec);
      assert.deepEqual(await changes(OBJECTS + gateway, OBJECTS + gateway + route), [
        `added ${kind} shop/r > shop/web: 8080/TCP`,
      ]);
      assert.deepEqual(await changes(OBJECTS + gateway + route, OBJECTS + gateway + route + CLOSED), [
        `removed ${kind} shop/r > shop/web: 8080/TCP`,
      ]);
    }
  });

  it("INGRESS-15: policy diff names a way that only one side has, judged or not, or that only one side judges, and none that policies close", async () => {
    assert.deepEqual(await changes(OBJECTS + CLOSED, BASE + CLOSED), []);
    const unknown = INGRESS.replace("ingressClassName: nginx", "ingressClassName: x");
    assert.deepEqual(await changes(WEB, WEB + unknown), ["added Ingress shop/web > shop/web: not judged"]);
    assert.deepEqual(await changes(WEB + unknown, WEB), ["removed Ingress shop/web > shop/web: not judged"]);
    assert.deepEqual(await changes(WEB + unknown, WEB + unknown), []);
    assert.deepEqual(await changes(NGINX + INGRESS, BASE), ["added Ingress shop/web > shop/web: 8080/TCP"]);
    const [lost] = waysOf(await diff(BASE, NGINX + INGRESS, "-o", "json"));
    assert.deepEqual([lost?.change, lost?.through, lost?.connections], ["removed", "IngressClass nginx", ["8080/TCP"]]);
    assert.equal(lost?.notJudged, "the Service shop/web was not read");
    assert.deepEqual(await changes(BASE + CLOSED, NGINX + INGRESS + CLOSED), []);
    const text = await diff(WEB, WEB + unknown);
    assert.match(text.out, /^added way in by Ingress shop\/web \(b\.yaml:\d+\) -> shop\/web: not judged$/m);
    assert.match(
      text.err,
      /^new: no way in is judged by Ingress shop\/web \(b\.yaml:\d+\): the IngressClass x was not/m,
    );
    const mine = pod("edge/mine", "10.244.0.6");
    const given = ["--ingress-controller", "edge/mine"];
    for (const before of [WEB + mine, WEB]) {
      assert.deepEqual(await changes(before, WEB + mine + unknown, ...given), [
        "added Ingress shop/web > shop/web: 8080/TCP",
      ]);
    }
  });

  it("INGRESS-06: policy diff names a way through another parent than a Gateway, or to another backend than a Service, as not judged, and none without weight or for traffic that pods send", async () => {
    const route = (parent: string, backend: string): string =>
      object(
        "gateway.networking.k8s.io/v1",
        "HTTPRoute",
        "name: web, namespace: shop",
        `spec: { parentRefs: [{ name: p, ${parent} }], rules: [{ backendRefs: [{ name: web, port: 80, ${backend} }] }] }`,
      );
    const pool = "group: inference.networking.k8s.io, kind: InferencePool";
    const toPool = "where the InferencePool shop/web leads is not known";
    for (const [way, ...expected] of [
      [route("kind: ListenerSet", ""), "Service", "through which pods the ListenerSet shop/p leads is not known"],
      [
        route("kind: Gateway, group: x.org", ""),
        "Service",
        "through which pods the Gateway of x.org shop/p leads is not known",
      ],
      [route("kind: Gateway", pool), null, toPool],
      [route("kind: Gateway", `${pool}, weight: 0`)],
      [route("kind: Service, group: ''", pool)],
      [route("kind: ServiceEntry, group: networking.istio.io", "")],
      [route("kind: EgressNetwork, group: policy.linkerd.io", "group: policy.linkerd.io, kind: EgressNetwork")],
      [
        ingress("web", "ingressClassName: nginx, defaultBackend: { resource: { kind: Bucket, name: b } }"),
        null,
        "where the Bucket shop/b leads is not known",
      ],
    ] as const) {
      const outcome = await diff(OBJECTS, OBJECTS + way, "-o", "json");
      const [kind, why] = expected;
      assert.deepEqual(
        waysOf(outcome).map(({ service: of, connections, notJudged }) => [of && "Service", connections, notJudged]),
        why === undefined ? [] : [[kind, [], why]],
        way,
      );
      assert.deepEqual(
        [outcome.code, outcome.err.includes(why ?? "no way")],
        why === undefined ? [0, false] : [1, true],
      );
    }
    const text = await diff(OBJECTS, OBJECTS + route("kind: Gateway", pool));
    assert.match(
      text.out,
      /^added way in by HTTPRoute shop\/web \(b\.yaml:\d+\) -> InferencePool shop\/web port 80: not/m,
    );
  });

  it("INGRESS-15: every output format of policy diff and dry-run has the ways that differ", async () => {
    const patterns: Readonly<Record<(typeof DIFF_FORMATS)[number], RegExp>> = {
      table:
        /^closes way in by Ingress shop\/web \(\w+\.yaml:\d+\) -> shop\/web: 8080\/TCP\n {2}through IngressClass nginx to Service shop\/web port http$/m,
      json: /"waysIn": \[\n {4}\{\n {6}"change": "removed"/,
      md: /^\| closes \| `Ingress shop\/web` \| `shop\/web` \| `8080\/TCP` \|  \|$/m,
      html: /<b>closes<\/b> way in by Ingress shop\/web/,
    };
    for (const format of DIFF_FORMATS) {
      const compared = await diff(BASE + SHOP, BASE + CLOSED, "-o", format);
      const tried = await dryRun(BASE + SHOP, CLOSED, "-o", format);
      assert.deepEqual([compared.code, tried.code], [1, 1], format);
      for (const { out } of [compared, tried]) assert.match(out, patterns[format], format);
    }
    const { out: page } = await diff(OBJECTS, BASE, "-o", "html");
    assert.match(page, /Traffic changes: of ways in 1 opens\./);
    assert.match(page, /outside through IngressClass nginx/);
  });

  it("INGRESS-15: policy dry-run applies and deletes Ingresses and routes, and names what opens and closes by them", async () => {
    const added = await dryRun(OBJECTS, INGRESS);
    assert.equal(added.code, 1);
    assert.match(added.out, /^added Ingress shop\/web$/m);
    assert.match(added.out, /^opens way in by Ingress shop\/web \(change\.yaml:1\) -> shop\/web/m);
    const closed = await dryRun(OBJECTS + CLOSED, INGRESS);
    assert.deepEqual([closed.code, closed.out], [0, "added Ingress shop/web\nno difference in what may be sent\n"]);
    const unchanged = await dryRun(BASE, INGRESS);
    assert.deepEqual(
      [unchanged.code, unchanged.out],
      [0, "unchanged Ingress shop/web\nno difference in what may be sent\n"],
    );
    const namespace = object("v1", "Namespace", "name: shop");
    for (const [against, change, args] of [
      [BASE, INGRESS, ["--delete"]],
      [BASE, "", ["--delete", "ingress/shop/web"]],
      [BASE, "", ["--delete", "service/shop/web"]],
      [BASE + namespace, namespace, ["--delete"]],
    ] as const) {
      const { code, out } = await dryRun(against, change, ...args);
      assert.equal(code, 1, out);
      assert.match(out, /^closes way in by Ingress shop\/web \(a\.yaml:\d+\) -> shop\/web/m);
    }
    const missing = await dryRun(BASE, "", "--delete", "ingress/shop/wed");
    assert.deepEqual([missing.code, missing.err.includes("did you mean Ingress shop/web?")], [3, true]);
    const nowhere = await dryRun(OBJECTS, INGRESS, "--delete");
    assert.match(nowhere.out, /^warning: Ingress shop\/web is not among the objects: nothing to delete$/m);
  });

  it("INGRESS-15: after a change of a Service or of pods its old EndpointSlices do not count", async () => {
    const slice = object(
      "discovery.k8s.io/v1",
      "EndpointSlice",
      "name: web-1, namespace: shop, labels: { kubernetes.io/service-name: web }",
      "addressType: IPv4, ports: [{ name: http, protocol: TCP, port: 8080 }], endpoints: [{ addresses: [10.244.0.3], conditions: { ready: true } }]",
    );
    const other = WEB.split("---\n")
      .find((text) => text.includes("kind: Service"))
      ?.replace("app: web", "app: gone");
    const relabelled = WEB.split("---\n")[0]?.replace("app: web", "app: other");
    for (const change of [other, relabelled]) {
      const { code, out } = await dryRun(BASE + slice, `${change}---\n`);
      assert.equal(code, 1, out);
      assert.match(out, /^changed /m);
      assert.match(out, /^closes way in by Ingress shop\/web/m);
      assert.match(out, /^ +the Service shop\/web has no endpoint among the pods that were read$/m);
    }
    const still = await dryRun(BASE + slice, object("v1", "ConfigMap", "name: c, namespace: shop") + INGRESS);
    assert.equal(still.code, 0, still.out);
  });
});
