import { type Address, type Family, familyOf, formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import type { RawObject } from "../../apiserver/storage.ts";

/** The parts of a pod that its endpoints are made of. */
export interface EndpointPod {
  readonly name: string;
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly nodeName: string;
  /** Empty until it is attached: then the pod is not an endpoint. */
  readonly addresses: readonly Address[];
  readonly isTerminating: boolean;
}

/** A Service with a selector, as far as its endpoints go. */
export interface SelectingService {
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly spec: {
    readonly selector?: Readonly<Record<string, string>>;
    readonly ports: readonly {
      readonly name?: string;
      readonly protocol?: string;
      readonly port: number;
      readonly targetPort?: number;
    }[];
  };
}

/**
 * Returns the EndpointSlices of a Service as their controller writes them: one for each family, with terminating pods
 * as still serving; none for a Service without a selector, whose slices another program makes.
 */
export function slicesOf({ metadata, spec }: SelectingService, pods: readonly EndpointPod[]): readonly RawObject[] {
  const { selector } = spec;
  if (selector === undefined || Object.keys(selector).length === 0) return [];
  const wanted = Object.entries(selector);
  const selected = pods.filter(
    ({ namespace, labels }) =>
      namespace === metadata.namespace && wanted.every(([key, value]) => labels[key] === value),
  );
  const ports = spec.ports.map(({ name = "", protocol = "TCP", port, targetPort = port }) => ({
    name,
    protocol,
    port: targetPort,
  }));
  return FAMILIES.map((family) => ({
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      name: `${metadata.name}-ipv${family}`,
      namespace: metadata.namespace,
      labels: {
        "kubernetes.io/service-name": metadata.name,
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
      },
    },
    addressType: `IPv${family}`,
    ports,
    endpoints: selected.flatMap((pod) => endpointOf(pod, family)),
  }));
}

function endpointOf(
  { name, namespace, nodeName, addresses, isTerminating }: EndpointPod,
  family: Family,
): readonly unknown[] {
  const address = addresses.find((one) => familyOf(one) === family);
  if (address === undefined) return [];
  return [
    {
      addresses: [formatAddress(address)],
      conditions: { ready: !isTerminating, serving: true, terminating: isTerminating },
      nodeName,
      targetRef: { kind: "Pod", namespace, name },
    },
  ];
}
