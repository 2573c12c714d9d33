import type { Labels, Pod } from "../../objects/model.ts";

/** A program that forwards requests for Ingresses and Gateways. */
interface Controller {
  /** The controller names in classes; a longer name that continues after a slash counts, too. */
  readonly names: readonly string[];
  /** The class name that the controller's documentation uses, for files without the class itself. */
  readonly className?: string;
  /** Sets of labels from its charts and manifests, one of which its pods have; none for one outside of the cluster. */
  readonly labels: readonly Labels[];
}

const NAME = "app.kubernetes.io/name";
const COMPONENT = "app.kubernetes.io/component";

/** The known controllers, with the labels of the pods that forward requests. */
const CONTROLLERS: readonly Controller[] = [
  {
    names: ["k8s.io/ingress-nginx"],
    className: "nginx",
    labels: [{ [NAME]: "ingress-nginx", [COMPONENT]: "controller" }],
  },
  {
    names: ["traefik.io/ingress-controller", "traefik.io/gateway-controller"],
    className: "traefik",
    labels: [{ [NAME]: "traefik" }],
  },
  { names: ["haproxy.org/ingress-controller"], className: "haproxy", labels: [{ [NAME]: "kubernetes-ingress" }] },
  { names: ["haproxy-ingress.github.io/controller"], labels: [{ [NAME]: "haproxy-ingress" }] },
  {
    names: ["projectcontour.io/ingress-controller", "projectcontour.io/gateway-controller"],
    className: "contour",
    labels: [{ app: "envoy" }, { [NAME]: "contour", [COMPONENT]: "envoy" }],
  },
  { names: ["nginx.org/ingress-controller"], labels: [{ [NAME]: "nginx-ingress" }, { app: "nginx-ingress" }] },
  { names: ["gateway.nginx.org/nginx-gateway-controller"], labels: [{ [NAME]: "nginx-gateway-fabric" }] },
  {
    names: ["istio.io/ingress-controller", "istio.io/gateway-controller"],
    className: "istio",
    labels: [{ istio: "ingressgateway" }],
  },
  {
    names: ["ingress-controllers.konghq.com/kong", "konghq.com/kic-gateway-controller"],
    className: "kong",
    labels: [{ [NAME]: "kong" }, { [NAME]: "gateway", [COMPONENT]: "app" }],
  },
  {
    names: ["cilium.io/ingress-controller", "io.cilium/gateway-controller"],
    className: "cilium",
    labels: [{ "k8s-app": "cilium-envoy" }, { "k8s-app": "cilium" }],
  },
  { names: ["gateway.envoyproxy.io/gatewayclass-controller"], labels: [{ [NAME]: "envoy", [COMPONENT]: "proxy" }] },
  { names: ["ingress.k8s.aws/alb", "gateway.k8s.aws/alb"], className: "alb", labels: [] },
  { names: ["networking.gke.io/gateway", "k8s.io/ingress-gce"], className: "gce", labels: [] },
  { names: ["azure/application-gateway", "alb.networking.azure.io/alb-controller"], labels: [] },
];

/** Labels by which the pods that were made for one Gateway name it, and its namespace where they do. */
const GATEWAY_LABELS: readonly { readonly name: string; readonly namespace?: string }[] = [
  { name: "gateway.networking.k8s.io/gateway-name" },
  {
    name: "gateway.envoyproxy.io/owning-gateway-name",
    namespace: "gateway.envoyproxy.io/owning-gateway-namespace",
  },
];

/** The pods of a controller, where they are known. */
export type ControllerPods =
  | { readonly type: "pods"; readonly pods: readonly Pod[] }
  /** A cloud load balancer, which sends from outside. */
  | { readonly type: "outside" }
  /** A controller that is not in the table. */
  | { readonly type: "unknown" };

/** Returns the pods of a controller, given by its name. */
export function podsOfController(name: string, pods: readonly Pod[]): ControllerPods {
  const known = CONTROLLERS.find(({ names }) => names.some((one) => name === one || name.startsWith(`${one}/`)));
  if (known === undefined) return { type: "unknown" };
  if (known.labels.length === 0) return { type: "outside" };
  // Only the first set of labels with pods counts: the others are for other ways to install the controller.
  const found = known.labels
    .map((labels) => pods.filter((pod) => hasLabels(pod, labels)))
    .find((all) => all.length > 0);
  return { type: "pods", pods: found ?? [] };
}

/** Returns the controller that usually owns a class of this name; undefined for other names. */
export function usualController(className: string): string | undefined {
  return CONTROLLERS.find((one) => one.className === className)?.names[0];
}

/** Returns the pods that a controller has made for one Gateway. */
export function podsOfGateway(
  { namespace, name }: { readonly namespace: string; readonly name: string },
  pods: readonly Pod[],
): readonly Pod[] {
  return pods.filter((pod) =>
    GATEWAY_LABELS.some((label) => {
      const of = label.namespace === undefined ? pod.namespace : pod.labels[label.namespace];
      return pod.labels[label.name] === name && of === namespace;
    }),
  );
}

function hasLabels(pod: Pod, labels: Labels): boolean {
  return Object.entries(labels).every(([key, value]) => pod.labels[key] === value);
}
