import assert from "node:assert/strict";
import { ask, networkPolicy, object, pod, service } from "../../../support/cli/objects.ts";
import { backend, ingress, NGINX, NGINX_LABELS, pathTo, waysInOf, WEB } from "../../../support/cli/ways_in.ts";

const GATEWAY_API = "gateway.networking.k8s.io/v1";

const gatewayClass = object(
  GATEWAY_API,
  "GatewayClass",
  "name: envoy",
  "spec: { controllerName: example.org/gateways }",
);
const gateway = (listeners: string): string =>
  object(
    GATEWAY_API,
    "Gateway",
    "name: public, namespace: edge",
    `spec: { gatewayClassName: envoy, listeners: [${listeners}] }`,
  );
const ENVOY = pod("edge/envoy", "10.244.0.5", { labels: "gateway.networking.k8s.io/gateway-name: public" });
const ANY = "{ name: http, port: 80, protocol: HTTP, allowedRoutes: { namespaces: { from: All } } }";
const route = (rules: string, { kind = "HTTPRoute", parent = "", apiVersion = GATEWAY_API } = {}): string =>
  object(
    apiVersion,
    kind,
    "name: web, namespace: shop",
    `spec: { parentRefs: [{ name: public, namespace: edge${parent} }], rules: [${rules}] }`,
  );
const TO_WEB = "{ backendRefs: [{ name: web, port: 80 }] }";
const grant = (from: string, to: string): string =>
  object(
    "gateway.networking.k8s.io/v1beta1",
    "ReferenceGrant",
    "name: g, namespace: data",
    `spec: { from: [${from}], to: [${to}] }`,
  );

describe("ways in: Ingresses, routes and the controllers' pods", () => {
  it("INGRESS-01: an Ingress leads to the pods of each path and of the default backend, at their own port", async () => {
    const other = pod("shop/api", "10.244.0.4") + service("shop/api", "api", "{ port: 80, targetPort: 7000 }");
    for (const [spec, ...expected] of [
      [`ingressClassName: nginx, rules: [${pathTo("web", "number: 80")}]`, "shop/web: 8080/TCP"],
      [`ingressClassName: nginx, rules: [${pathTo("web", "name: admin")}]`, "shop/web: 9090/TCP"],
      [`ingressClassName: nginx, defaultBackend: ${backend("api", "number: 80")}`, "shop/api: 7000/TCP"],
      [
        `ingressClassName: nginx, defaultBackend: ${backend("api", "number: 80")}, rules: [${pathTo("web", "name: http")}, ${pathTo("web", "number: 81")}]`,
        "shop/api: 7000/TCP",
        "shop/web: 8080/TCP,9090/TCP",
      ],
    ] as const) {
      const { open, err } = await waysInOf(NGINX + WEB + other + ingress("web", spec));
      assert.deepEqual([open, err], [expected.map((one) => `IngressClass nginx > ${one}`), ""], spec);
    }
  });

  it("INGRESS-01 EPS-01: an Ingress leads to the pods that its Service selects beside those of EndpointSlices of others, and only to those of slices of the controller where it wrote some", async () => {
    const all =
      NGINX +
      WEB +
      pod("shop/other", "10.244.0.4") +
      ingress("web", `rules: [${pathTo("web", "number: 80")}], ingressClassName: nginx`);
    const slice = (labels: string): string =>
      object(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        `name: s, namespace: shop, labels: { kubernetes.io/service-name: web${labels} }`,
        "addressType: IPv4, ports: [{ name: http, port: 1 }], endpoints: [{ addresses: [10.244.0.4] }]",
      );
    const other = "IngressClass nginx > shop/other: 1/TCP";
    for (const manager of ["", "cluster-admins"]) {
      const { open } = await waysInOf(all + slice(`, endpointslice.kubernetes.io/managed-by: "${manager}"`));
      assert.deepEqual(open, [other, "IngressClass nginx > shop/web: 8080/TCP"]);
    }
    const label = ", endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io";
    assert.deepEqual((await waysInOf(all + slice(label))).open, [other]);
  });

  it("INGRESS-01: the class comes from the field, the older annotation or the default, or else is a controller's usual name", async () => {
    const rules = `rules: [${pathTo("web", "number: 80")}]`;
    const ofClass = object(
      "networking.k8s.io/v1",
      "IngressClass",
      "name: main",
      "spec: { controller: k8s.io/ingress-nginx }",
    );
    const byDefault = ofClass.replace(
      "name: main",
      'name: main, annotations: { ingressclass.kubernetes.io/is-default-class: "true" }',
    );
    const annotated = { metadata: ", annotations: { kubernetes.io/ingress.class: main }" };
    const pods = pod("edge/nginx", "10.244.0.2", { labels: NGINX_LABELS }) + WEB;
    for (const [text, through] of [
      [ofClass + ingress("web", `ingressClassName: main, ${rules}`), "main"],
      [ofClass + ingress("web", rules, annotated), "main"],
      [byDefault + ingress("web", rules), "main"],
      [ingress("web", `ingressClassName: nginx, ${rules}`), "nginx"],
    ] as const) {
      assert.deepEqual((await waysInOf(pods + text)).open, [`IngressClass ${through} > shop/web: 8080/TCP`], text);
    }
    for (const text of [ofClass + ingress("web", rules), ingress("web", `ingressClassName: main, ${rules}`)]) {
      assert.deepEqual((await waysInOf(pods + text)).open, [], text);
    }
  });

  it("INGRESS-03: a route uses the Gateways with a listener that accepts it by name, port, protocol, namespace and kind", async () => {
    const all = ENVOY + WEB + gatewayClass;
    const labelled = object("v1", "Namespace", "name: shop, labels: { team: a }");
    const of = (from: string): string => `{ name: http, port: 80, protocol: HTTP${from} }`;
    const selecting = (team: string): string =>
      of(`, allowedRoutes: { namespaces: { from: Selector, selector: { matchLabels: { team: ${team} } } } }`);
    const ofKinds = (kinds: string): string => of(`, allowedRoutes: { namespaces: { from: All }, kinds: [${kinds}] }`);
    for (const [listeners, options, isTaken] of [
      [ANY, {}, true],
      [ANY, { kind: "GRPCRoute" }, true],
      [ANY, { apiVersion: "gateway.networking.k8s.io/v1beta1" }, true],
      [ANY, { parent: ", sectionName: http" }, true],
      [ANY, { parent: ", sectionName: https" }, false],
      [ANY, { parent: ", port: 80" }, true],
      [ANY, { parent: ", port: 443" }, false],
      [ANY, { parent: ", kind: Service, group: ''" }, false],
      [of(""), {}, false],
      [of(", allowedRoutes: { namespaces: { from: None } }"), {}, false],
      [selecting("a"), {}, true],
      [selecting("b"), {}, false],
      [ANY.replace("protocol: HTTP", "protocol: TLS"), {}, false],
      [ofKinds("{ kind: HTTPRoute }"), {}, true],
      [ofKinds("{ kind: GRPCRoute }"), {}, false],
      [ofKinds("{ kind: TCPRoute }, { kind: GRPCRoute }"), { kind: "GRPCRoute" }, true],
      [ofKinds("{ kind: HTTPRoute, group: example.org }"), {}, false],
      [ofKinds("{ kind: HTTPRoute, group: gateway.networking.k8s.io }"), {}, true],
    ] as const) {
      const { open } = await waysInOf(all + labelled + gateway(listeners) + route(TO_WEB, options));
      const expected = isTaken ? ["Gateway edge/public > shop/web: 8080/TCP"] : [];
      assert.deepEqual(open, expected, `${listeners} ${JSON.stringify(options)}`);
    }
  });

  it("INGRESS-03: a route leads to the Services with a weight, and to those that get copies", async () => {
    const all = ENVOY + WEB + gatewayClass + gateway(ANY);
    const open = async (rules: string): Promise<readonly string[]> => (await waysInOf(all + route(rules))).open;
    assert.deepEqual(await open("{ backendRefs: [{ name: web, port: 80, weight: 0 }] }"), []);
    const mirror = "{ type: RequestMirror, requestMirror: { backendRef: { name: web, port: 81 } } }";
    assert.deepEqual(await open(`{ filters: [${mirror}] }`), ["Gateway edge/public > shop/web: 9090/TCP"]);
  });

  it("INGRESS-03: a Service of another namespace counts only with a ReferenceGrant for it", async () => {
    const data = pod("data/db", "10.244.0.6") + service("data/db", "db", "{ port: 80, targetPort: 5432 }");
    const all =
      ENVOY + gatewayClass + gateway(ANY) + data + route("{ backendRefs: [{ name: db, namespace: data, port: 80 }] }");
    const from = "{ group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: shop }";
    const to = "{ group: '', kind: Service }";
    for (const [text, isOpen] of [
      ["", false],
      [grant(from, to), true],
      [grant(from, to.replace("}", ", name: db }")), true],
      [grant(from, to.replace("}", ", name: other }")), false],
      [grant(from.replace("shop", "blog"), to), false],
      [grant(from.replace("HTTPRoute", "GRPCRoute"), to), false],
      [grant(from, "{ group: '', kind: Secret }"), false],
      [grant(from, to).replace("namespace: data", "namespace: shop"), false],
    ] as const) {
      const { open, err } = await waysInOf(all + text);
      assert.deepEqual(open, isOpen ? ["Gateway edge/public > data/db: 5432/TCP"] : [], text);
      if (!isOpen) assert.match(err, /HTTPRoute shop\/web \(a\.yaml:\d+\): no ReferenceGrant of data lets/, text);
    }
  });

  it("INGRESS-05: a controller's pods are recognized by the labels of its charts, and a Gateway's by its own labels", async () => {
    const rules = `rules: [${pathTo("web", "number: 80")}]`;
    for (const [controller, labels] of [
      ["k8s.io/ingress-nginx", NGINX_LABELS],
      ["traefik.io/ingress-controller", "app.kubernetes.io/name: traefik"],
      ["haproxy.org/ingress-controller/haproxy", "app.kubernetes.io/name: kubernetes-ingress"],
      ["projectcontour.io/ingress-controller", "app.kubernetes.io/name: contour, app.kubernetes.io/component: envoy"],
      ["nginx.org/ingress-controller", "app.kubernetes.io/name: nginx-ingress"],
      ["istio.io/ingress-controller", "istio: ingressgateway"],
      ["ingress-controllers.konghq.com/kong", "app.kubernetes.io/name: kong"],
      ["cilium.io/ingress-controller", "k8s-app: cilium-envoy"],
    ] as const) {
      const ofClass = object("networking.k8s.io/v1", "IngressClass", "name: c", `spec: { controller: ${controller} }`);
      const text = WEB + ofClass + ingress("web", `ingressClassName: c, ${rules}`);
      const open = async (more: string): Promise<readonly string[]> => (await waysInOf(text + more)).open;
      assert.deepEqual(
        await open(pod("edge/c", "10.244.0.2", { labels })),
        ["IngressClass c > shop/web: 8080/TCP"],
        controller,
      );
      assert.deepEqual(await open(pod("edge/c", "10.244.0.2", { labels: "x: z" })), [], controller);
    }
    const ofEnvoyGateway =
      "gateway.envoyproxy.io/owning-gateway-name: public, gateway.envoyproxy.io/owning-gateway-namespace: edge";
    const text = WEB + gatewayClass + gateway(ANY) + route(TO_WEB);
    for (const [key, labels, isIts] of [
      ["edge/e", "gateway.networking.k8s.io/gateway-name: public", true],
      ["edge/e", "gateway.networking.k8s.io/gateway-name: other", false],
      ["blog/e", "gateway.networking.k8s.io/gateway-name: public", false],
      ["envoy-gateway-system/e", ofEnvoyGateway, true],
      ["envoy-gateway-system/e", ofEnvoyGateway.replace(": edge", ": blog"), false],
    ] as const) {
      const { open } = await waysInOf(text + pod(key, "10.244.0.7", { labels }));
      assert.deepEqual(open, isIts ? ["Gateway edge/public > shop/web: 8080/TCP"] : [], `${key} ${labels}`);
    }
  });

  it("INGRESS-05: --ingress-controller names the pods of unknown controllers, or those of one class", async () => {
    const rules = `rules: [${pathTo("web", "number: 80")}]`;
    const ofClass = object(
      "networking.k8s.io/v1",
      "IngressClass",
      "name: own",
      "spec: { controller: example.org/own }",
    );
    const mine = pod("edge/mine", "10.244.0.8");
    const closed = networkPolicy(
      "shop/web",
      "podSelector: {}, ingress: [{ from: [{ namespaceSelector: {}, podSelector: { matchLabels: { app: mine } } }] }]",
    );
    const all = NGINX + WEB + mine + ofClass + closed + ingress("own", `ingressClassName: own, ${rules}`);
    const given = (name: string): readonly string[] => ["--ingress-controller", name];
    const opened = ["IngressClass own > shop/web: 8080/TCP"];
    assert.deepEqual((await waysInOf(all)).open, []);
    assert.deepEqual((await waysInOf(all, ...given("edge/mine"))).open, opened);
    assert.deepEqual((await waysInOf(all, ...given("own=edge/mine"))).open, opened);
    assert.deepEqual((await waysInOf(all, ...given("nginx=edge/mine"))).open, []);
    const known = all + ingress("web", `ingressClassName: nginx, ${rules}`);
    assert.deepEqual((await waysInOf(known, ...given("edge/mine"))).open, opened, "known by its labels");
    const both = await waysInOf(known, ...given("edge/mine"), ...given("nginx=edge/mine"));
    assert.deepEqual(both.open, ["IngressClass nginx > shop/web: 8080/TCP", ...opened]);
    const missing = await ask(all, "policy", "matrix", ...given("edge/nobody"));
    assert.deepEqual([missing.code, missing.out], [3, ""]);
    assert.match(missing.err, /--ingress-controller "edge\/nobody": no running pod has this name/);
    assert.equal((await ask(all, "policy", "matrix", ...given("Edge mine"))).code, 2);
  });

  it("INGRESS-06: a way that cannot be evaluated is reported with the objects, the reason and the way out", async () => {
    const to = `rules: [${pathTo("web", "number: 80")}]`;
    const spec = `ingressClassName: c, ${to}`;
    const ofClass = (controller: string): string =>
      object("networking.k8s.io/v1", "IngressClass", "name: c", `spec: { controller: ${controller} }`);
    const wayOut = "--ingress-controller NAMESPACE/NAME names the controller's pods";
    for (const [text, reason] of [
      [WEB + ingress("web", to), `no class is named, and no IngressClass is the default; ${wayOut}`],
      [WEB + ingress("web", spec), `the IngressClass c was not read; ${wayOut}`],
      [WEB + ofClass("x.org/y") + ingress("web", spec), `the pods of the controller x.org/y are not known; ${wayOut}`],
      [
        WEB + ofClass("k8s.io/ingress-nginx") + ingress("web", spec),
        `no pod of the controller k8s.io/ingress-nginx was read; ${wayOut}`,
      ],
      [
        WEB + ofClass("ingress.k8s.aws/alb") + ingress("web", spec),
        "the controller ingress.k8s.aws/alb sends from outside of the cluster; the outside stands for it",
      ],
      [NGINX + ingress("web", `ingressClassName: nginx, ${to}`), "the Service shop/web was not read"],
      [
        NGINX + WEB + ingress("web", `ingressClassName: nginx, rules: [${pathTo("web", "number: 82")}]`),
        "the Service shop/web has no port 82",
      ],
      [
        NGINX + service("shop/web", "web", "{ port: 80 }") + ingress("web", `ingressClassName: nginx, ${to}`),
        "the Service shop/web has no endpoint among the pods that were read",
      ],
      [
        WEB + gateway(ANY).replace("name: public", "name: other") + route(TO_WEB),
        "the Gateway edge/public was not read",
      ],
      [WEB + gateway(ANY) + route(TO_WEB), `the GatewayClass envoy was not read; ${wayOut}`],
      [WEB + gateway("") + route(TO_WEB), "no listener of the Gateway edge/public takes HTTPRoutes of shop"],
    ] as const) {
      const kind = text.includes("HTTPRoute") ? "HTTPRoute" : "Ingress";
      for (const command of [["matrix"], ["lint"], ["explain", "--from", "203.0.113.7", "--to", "shop/web"]]) {
        const asked = text.includes('"10.244.0.3"')
          ? text
          : text + pod("shop/web", "10.244.1.3").replace("app: web", "app: x");
        const { err } = await ask(asked, "policy", ...command);
        const lines = err.split("\n").filter((line) => line.startsWith("no way in"));
        const [line = "", ...more] = lines;
        assert.match(
          line,
          new RegExp(String.raw`^no way in is judged by ${kind} shop/web \(a\.yaml:\d+\): `),
          `${command[0]} ${reason}: ${err}`,
        );
        assert.deepEqual([line.slice(line.indexOf("): ") + 3), more], [reason, []], command.join(" "));
      }
    }
    const two = NGINX + ingress("a", `ingressClassName: c, ${to}`) + ingress("b", `ingressClassName: c, ${to}`) + WEB;
    assert.match(
      (await waysInOf(two)).err,
      /^no way in is judged by Ingress shop\/a \(a\.yaml:\d+\), Ingress shop\/b \(a\.yaml:\d+\): /,
    );
    const inside = await ask(two, "policy", "explain", "--from", "edge/nginx", "--to", "shop/web");
    assert.equal(inside.err, "", "a question from within the cluster does not report ways in");
  });
});
