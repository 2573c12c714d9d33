import { ask, object, pod, service } from "./objects.ts";

export function ingress(name: string, spec: string, { metadata = "" } = {}): string {
  return object("networking.k8s.io/v1", "Ingress", `name: ${name}, namespace: shop${metadata}`, `spec: { ${spec} }`);
}

/** Returns a rule of an Ingress with one path. */
export function pathTo(serviceName: string, port: string): string {
  return `{ http: { paths: [{ path: /, pathType: Prefix, backend: ${backend(serviceName, port)} }] } }`;
}

export function backend(serviceName: string, port: string): string {
  return `{ service: { name: ${serviceName}, port: { ${port} } } }`;
}

export const NGINX_LABELS = "app.kubernetes.io/name: ingress-nginx, app.kubernetes.io/component: controller";

/** The objects of ingress-nginx as its chart installs it. */
export const NGINX =
  pod("edge/nginx", "10.244.0.2", {
    labels: NGINX_LABELS,
    ports: "{ name: http, containerPort: 80 }, { name: metrics, containerPort: 10254 }",
  }) +
  service("edge/nginx", "nginx", "{ name: http, port: 80, targetPort: http }", "type: LoadBalancer") +
  object("networking.k8s.io/v1", "IngressClass", "name: nginx", "spec: { controller: k8s.io/ingress-nginx }");

/** A pod with two ports and its Service. */
export const WEB =
  pod("shop/web", "10.244.0.3", {
    ports: "{ name: http, containerPort: 8080 }, { name: admin, containerPort: 9090 }",
  }) +
  service(
    "shop/web",
    "web",
    "{ name: http, port: 80, targetPort: http }, { name: admin, port: 81, targetPort: admin }",
  );

/** The namespace of a controller, in a policy's peer. */
export const FROM_EDGE = "{ namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: edge } } }";

/**
 * Returns the connections through controllers that `policy matrix` prints, and stderr: `outside through Gateway a/b >
 * shop/web: 80/TCP` for each pair.
 */
export async function waysInOf(
  text: string,
  ...args: readonly string[]
): Promise<{ readonly open: readonly string[]; readonly err: string }> {
  const { out, err } = await ask(text, "policy", "matrix", "--by", "pod", "--allowed-only", "-o", "json", ...args);
  const cells = JSON.parse(out) as readonly {
    readonly from: string;
    readonly to: string;
    readonly connections: readonly string[];
    readonly always: readonly string[];
  }[];
  const open = cells
    .filter(({ from }) => from.startsWith("outside through "))
    .map(({ from, to, connections, always }) => {
      const partly = always.join() === connections.join() ? "" : " (some)";
      return `${from.slice("outside through ".length)} > ${to}: ${connections.join()}${partly}`;
    });
  return { open, err };
}
