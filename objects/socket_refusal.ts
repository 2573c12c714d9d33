import { type Address, parseAddress } from "../kernel/ip/address.ts";
import type { Protocol } from "./model.ts";

/** A port that nodes depend on, on all addresses of nodes. */
export interface ProtectedPort {
  readonly protocol: Protocol;
  readonly port: number;
  /** The program or configuration field that owns it, for messages. */
  readonly owner: string;
}

/** A port of one address that nodes depend on. */
export interface ProtectedSocket extends ProtectedPort {
  readonly address: Address;
}

/** Ports and sockets that the configuration protects, independent of objects. */
export interface ConfiguredSockets {
  /** Protected on all addresses of nodes. */
  readonly ports: readonly ProtectedPort[];
  readonly sockets: readonly ProtectedSocket[];
}

/** An address and port, or a node port, by which clients reach a port of a Service. */
export type Frontend =
  | { readonly type: "cluster" | "load balancer" | "external"; readonly address: Address; readonly port: number }
  | { readonly type: "node port"; readonly port: number };

/** A claim of a Service: a frontend, or the port at which nodes themselves answer load balancers' health checks. */
export type PortClaim = Frontend | { readonly type: "health check"; readonly port: number };

/** Why a Service or a Pod does not get an address and port. */
export type Refusal =
  /** Nodes depend on the program that listens there. */
  | { readonly type: "protected socket"; readonly owner: string }
  /** The address belongs to the cluster itself or to a cloud's metadata, so no claim on it is legitimate. */
  | { readonly type: "cluster address"; readonly owner: string }
  /** Somebody else had the port of the node when the Service appeared (CLAIM-06). */
  | { readonly type: "taken port"; readonly owner: string };

/** The Service of the API server within the cluster: the only one that may have the API server's sockets. */
export const KUBERNETES_SERVICE = { namespace: "default", name: "kubernetes", key: "default/kubernetes" } as const;

/** The API server's name in refusals. */
export const API_SERVER = "the API server";

/** The names of the cluster's own addresses in refusals. */
export const CLUSTER_OWNERS = {
  pods: "the pods' networks",
  services: "the ranges of Services",
  metadata: "a cloud's metadata",
} as const;

/**
 * Addresses at which clouds give a node its credentials: Azure, Alibaba, and over IPv6 AWS and Google. 169.254.169.254
 * is missing, since no frontend can have it.
 */
export const METADATA_ADDRESSES: ReadonlySet<Address> = new Set(
  ["168.63.129.16", "100.100.100.200", "fd00:ec2::254", "fd20:ce::254"].map((text) => parseAddress(text)),
);

/** Returns a refusal in words: the end of a sentence that begins with the address and port. */
export function refusalText({ type, owner }: Refusal): string {
  if (type === "taken port") return `was in use by ${owner} when the Service came (externalIPsTakePorts ignores that)`;
  return type === "protected socket" ? `is protected for ${owner}` : `is an address of ${owner}`;
}

/** Returns a map key for a protocol and port. */
export function portKey(protocol: Protocol, port: number): string {
  return [protocol, port].join(" ");
}
