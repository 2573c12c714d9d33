/** The settings of a cluster. */
export interface Settings {
  readonly nodes: number;
  /** The family of a node's first address, and of Services that name none. */
  readonly firstFamily: 4 | 6;
  /** Whether it has both families, or only the first. */
  readonly isDualStack: boolean;
  /** containerd's major version: 1 is Debian's, 2 is built. */
  readonly containerd: 1 | 2;
}

/** A machine of the cluster and its addresses on the shared link. */
export interface NodePlan {
  readonly name: string;
  readonly addresses: { readonly 4: string; readonly 6: string };
  /** The value of topology.kubernetes.io/zone. */
  readonly zone: string;
}

/** The prefixes of docs/guides/kubeadm.md. */
export const PREFIXES = {
  pods: { 4: "10.244.0.0/16", 6: "fd00:244::/56" },
  services: { 4: "10.96.0.0/16", 6: "fd00:96::/112" },
} as const;

/** The address of the machine that runs the tests, on the nodes' link. */
export const MACHINE_ADDRESSES = { 4: "192.0.2.1/24", 6: "2001:db8:107::1/64" } as const;

/**
 * Addresses on the Internet that upstream's tests connect to from pods: the machine has them in place of the Internet.
 */
export const INTERNET_ADDRESSES = { 4: "8.8.8.8/32", 6: "2001:4860:4860::8888/128" } as const;

/** Returns the address in prefix notation without the prefix's length. */
export function withoutLength(prefix: string): string {
  return prefix.replace(/\/\d+$/, "");
}

/** Returns the nodes of a cluster. The first one also runs the control plane. */
export function planNodes({ nodes }: Settings): readonly NodePlan[] {
  return Array.from({ length: nodes }, (_, index) => ({
    name: `node${index + 1}`,
    addresses: { 4: `192.0.2.${11 + index}`, 6: `2001:db8:107::${11 + index}` },
    zone: `zone${index + 1}`,
  }));
}

/** Returns the values of both families, first family first, or only that of the first. */
export function inOrder<T>({ firstFamily, isDualStack }: Settings, by: { readonly 4: T; readonly 6: T }): readonly T[] {
  const first = by[firstFamily];
  return isDualStack ? [first, by[firstFamily === 4 ? 6 : 4]] : [first];
}
