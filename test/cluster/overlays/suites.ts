import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { stringify } from "yaml";
import { installAddOn } from "../addon.ts";
import type { Materials } from "../cluster.ts";
import { PROJECT, STATE } from "../place.ts";
import type { Settings } from "../settings.ts";
import type { RunningCluster } from "../state.ts";
import type { Suite } from "../suites/suites.ts";
import { startKubeProxies } from "./kube_proxy.ts";
import { checkOwnNodeStatus, makeNetworkUnavailable } from "./own_node_status.ts";

/** The installation of the add-on for a suite, besides the settings of its cluster. */
export interface Configuration {
  readonly name: string;
  readonly settings: Settings;
  /** Directories below manifests/: the overlay or base, then components. */
  readonly manifests: readonly [string, ...(readonly string[])];
  /** Runs before the add-on is installed. */
  readonly prepare?: (cluster: RunningCluster, materials: Materials) => Promise<void> | void;
  /** Runs afterwards: throws if the configuration is not in force, so that no suite passes without it. */
  readonly check?: (cluster: RunningCluster, materials: Materials) => Promise<void> | void;
}

const DUAL_STACK: Settings = { nodes: 2, firstFamily: 4, isDualStack: true, containerd: 1 };

/** The overlays and components that meet something of a real cluster which no lab has, and containerd 2. */
export const CONFIGURATIONS: readonly Configuration[] = [
  {
    name: "kube-proxy-nftables",
    settings: DUAL_STACK,
    manifests: ["overlays/kube-proxy-kept"],
    prepare: (cluster, materials) => startKubeProxies(cluster, materials, "nftables"),
  },
  {
    name: "single-stack-6",
    settings: { ...DUAL_STACK, firstFamily: 6, isDualStack: false },
    manifests: ["overlays/single-stack-ipv6"],
  },
  { name: "containerd-2", settings: { ...DUAL_STACK, containerd: 2 }, manifests: ["base"] },
  {
    name: "own-node-status",
    settings: DUAL_STACK,
    manifests: ["overlays/network-unavailable", "components/own-node-status"],
    prepare: makeNetworkUnavailable,
    check: checkOwnNodeStatus,
  },
  {
    name: "kube-proxy-iptables",
    settings: DUAL_STACK,
    manifests: ["overlays/kube-proxy-kept"],
    prepare: (cluster, materials) => startKubeProxies(cluster, materials, "iptables"),
  },
];

/** A few tests of each kind: Services, node ports, affinity, policies, DNS. */
const SHORT = [
  String.raw`\[sig-network\] Services should serve a basic endpoint from pods`,
  String.raw`\[sig-network\] Services should be able to create a functioning NodePort service`,
  String.raw`\[sig-network\] Services should have session affinity work for NodePort service`,
  String.raw`\[sig-network\] Netpol NetworkPolicy between server and client should (support a 'default-deny-ingress' policy|enforce policy to allow traffic only from a different namespace, based on NamespaceSelector)`,
  String.raw`\[sig-network\] DNS should provide DNS for services`,
  String.raw`\[sig-network\] HostPort`,
] as const;

/** A suite for each configuration; `--suite overlays` runs all of them. */
export const OVERLAY_SUITES: readonly Suite[] = CONFIGURATIONS.map((configuration) => ({
  runner: "ginkgo",
  name: configuration.name,
  group: "overlays",
  settings: configuration.settings,
  focus: SHORT,
  omitted: {},
  processes: 4,
  install: (cluster, materials, say) => install(configuration, cluster, materials, say),
}));

async function install(
  { manifests, prepare, check }: Configuration,
  cluster: RunningCluster,
  materials: Materials,
  say: (line: string) => void,
): Promise<void> {
  await prepare?.(cluster, materials);
  installAddOn(cluster, materials, say, writeKustomization(manifests));
  await check?.(cluster, materials);
}

/**
 * Writes a kustomization for the cluster, which combines manifests as manifests/README.md says.
 *
 * @param manifests directories below manifests/: the overlay or base, then components
 * @returns its directory
 */
function writeKustomization([base, ...components]: readonly [string, ...(readonly string[])]): string {
  if (components.length === 0) return path.join(PROJECT, "manifests", base);
  const directory = path.join(STATE, "kustomization");
  mkdirSync(directory, { recursive: true });
  // kustomize does not accept absolute paths.
  const place = (name: string): string => path.relative(directory, path.join(PROJECT, "manifests", name));
  writeFileSync(
    path.join(directory, "kustomization.yaml"),
    stringify({
      apiVersion: "kustomize.config.k8s.io/v1beta1",
      kind: "Kustomization",
      resources: [place(base)],
      components: components.map(place),
    }),
  );
  return directory;
}
