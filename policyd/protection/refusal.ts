import type { Address } from "../../kernel/ip/address.ts";
import { parseAddress } from "../../kernel/ip/address.ts";
import type { Protocol } from "../cluster/model.ts";

/** A port that nodes depend on, on all addresses of nodes. */
export interface ProtectedPort {
  readonly protocol: Protocol;
  readonly port: number;
  /** The program or the field of the configuration that has it, for people. */
  readonly owner: string;
}

/** A port of one address that nodes depend on. */
export interface ProtectedSocket extends ProtectedPort {
  readonly address: Address;
}

/** Why a Service or a Pod does not get an address and port. */
export type Refusal =
  /** Nodes depend on what listens there. */
  | { readonly type: "protected socket"; readonly owner: string }
  /** The address is one of the cluster itself, or of a cloud's metadata: nobody claims it honestly. */
  | { readonly type: "cluster address"; readonly owner: string };

/** The Service by which the API server is reached within the cluster: the only one that may have its sockets. */
export const KUBERNETES_SERVICE = { namespace: "default", name: "kubernetes", key: "default/kubernetes" } as const;

/** How refusals name the API server. */
export const API_SERVER = "the API server";

/** How refusals name the cluster's own addresses. */
export const CLUSTER_OWNERS = {
  pods: "the pods' networks",
  services: "the ranges of Services",
  metadata: "a cloud's metadata",
} as const;

/**
 * Addresses by which clouds tell a node its credentials, beside 169.254.169.254, which no frontend can have: Azure, Alibaba, and
 * over IPv6 AWS and Google.
 */
export const METADATA_ADDRESSES: ReadonlySet<Address> = new Set(
  ["168.63.129.16", "100.100.100.200", "fd00:ec2::254", "fd20:ce::254"].map((text) => parseAddress(text)),
);

/** Returns a refusal in words, the end of a sentence that begins with the address and port. */
export function refusalText({ type, owner }: Refusal): string {
  return type === "protected socket" ? `is protected for ${owner}` : `is an address of ${owner}`;
}

/** Returns a key of maps that is the same for the same protocol and port. */
export function portKey(protocol: Protocol, port: number): string {
  return [protocol, port].join(" ");
}
