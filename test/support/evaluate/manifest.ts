/** Services and slices in the short form in which a person writes them into a scenario. */
export interface ManifestText {
  /** Service specs by name; `labels`, `annotations` and `status` stand beside the spec's own fields. */
  readonly services?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** Slices of the Service `service`, by name; {@link endpointOf} reads their endpoints. */
  readonly slices?: Readonly<Record<string, SliceText>>;
}

interface SliceText {
  readonly service: string;
  readonly addressType?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly ports: readonly unknown[];
  readonly endpoints: readonly (string | object)[];
}

interface NodeText {
  readonly name: string;
  readonly zone: string;
  readonly internal: string;
  readonly external: string;
  readonly pods: string;
}

const CONDITIONS: Readonly<Record<string, object>> = {
  ready: { ready: true, serving: true, terminating: false },
  unready: { ready: false, serving: false, terminating: false },
  draining: { ready: false, serving: true, terminating: true },
  gone: { ready: false, serving: false, terminating: true },
};

/** Returns a Node whose external address comes first in its list. */
export function nodeManifest({ name, zone, internal, external, pods }: NodeText): object {
  const addresses = [
    { type: "ExternalIP", address: external },
    { type: "InternalIP", address: internal },
  ];
  const metadata = { name, labels: { "topology.kubernetes.io/zone": zone } };
  return { apiVersion: "v1", kind: "Node", metadata, spec: { podCIDRs: [pods] }, status: { addresses } };
}

/** Returns Services and EndpointSlices as the API has them. */
export function manifestsOf({ services = {}, slices = {} }: ManifestText, family: "IPv4" | "IPv6"): readonly object[] {
  return [
    ...Object.entries(services).map(([name, { labels, annotations, status, ...spec }]) => ({
      apiVersion: "v1",
      kind: "Service",
      metadata: { name, labels, annotations },
      spec,
      status,
    })),
    ...Object.entries(slices).map(([name, { service, labels, endpoints, ...rest }]) => ({
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: { name, labels: { "kubernetes.io/service-name": service, ...labels } },
      addressType: family,
      ...rest,
      endpoints: endpoints.map(endpointOf),
    })),
  ];
}

/** Reads an endpoint such as "10.244.1.5@n1 draining zones=a,b nodes=n1"; without a word for conditions it has none. */
function endpointOf(text: string | object): object {
  if (typeof text === "object") return text;
  const [place = "", ...words] = text.split(" ");
  const [address, nodeName] = place.split("@");
  const hint = (key: string): readonly object[] | undefined =>
    words
      .find((word) => word.startsWith(`${key}=`))
      ?.slice(key.length + 1)
      .split(",")
      .map((name) => ({ name }));
  const state = words.find((word) => CONDITIONS[word] !== undefined);
  return {
    addresses: [address],
    nodeName,
    conditions: state === undefined ? undefined : CONDITIONS[state],
    hints: { forZones: hint("zones"), forNodes: hint("nodes") },
  };
}
