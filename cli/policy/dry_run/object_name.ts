import { DrawbridgeError } from "../../../kernel/error.ts";

/** The words for kinds on the command line. */
const KINDS: ReadonlyMap<string, { readonly kind: string; readonly isNamespaced: boolean }> = new Map(
  [
    { names: ["networkpolicy", "networkpolicies", "netpol"], kind: "NetworkPolicy", isNamespaced: true },
    {
      names: ["clusternetworkpolicy", "clusternetworkpolicies", "cnp"],
      kind: "ClusterNetworkPolicy",
      isNamespaced: false,
    },
    { names: ["pod", "pods", "po"], kind: "Pod", isNamespaced: true },
    { names: ["service", "services", "svc"], kind: "Service", isNamespaced: true },
    { names: ["ingress", "ingresses", "ing"], kind: "Ingress", isNamespaced: true },
    { names: ["httproute", "httproutes"], kind: "HTTPRoute", isNamespaced: true },
    { names: ["grpcroute", "grpcroutes"], kind: "GRPCRoute", isNamespaced: true },
  ].flatMap(({ names, ...kind }) => names.map((name) => [name, kind] as const)),
);

/**
 * Returns the name in messages of an object on the command line: `networkpolicy/shop/web` is `NetworkPolicy shop/web`.
 *
 * @throws DrawbridgeError ERR_INPUT for any other text
 */
export function objectName(text: string): string {
  const [first = "", ...rest] = text.split("/");
  const known = KINDS.get(first.toLowerCase());
  if (known !== undefined && rest.length === (known.isNamespaced ? 2 : 1) && !rest.includes("")) {
    return `${known.kind} ${rest.join("/")}`;
  }
  throw new DrawbridgeError(
    "ERR_INPUT",
    `--delete: ${JSON.stringify(text)}; expected networkpolicy/NS/NAME, clusternetworkpolicy/NAME, or pod, service, ingress, httproute or grpcroute/NS/NAME`,
  );
}
