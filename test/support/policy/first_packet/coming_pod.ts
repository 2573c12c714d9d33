import assert from "node:assert/strict";
import { type Address, type Family, formatAddress, parseAddress, FAMILIES } from "../../../../kernel/ip/address.ts";
import { type MacAddress, parseMac } from "../../../../kernel/ip/mac.ts";
import { type CallOutcome, type Configuration, podCall, startPlugin } from "../../../lab/cni.ts";
import type { Lab, LabPod } from "../../../lab/lab.ts";
import type { LabNamespace } from "../../../lab/namespace.ts";
import type { WiredNode } from "../../../lab/topology.ts";

/** A party with an address of each family. */
export interface Neighbour {
  readonly namespace: LabNamespace;
  readonly addresses: Readonly<Record<Family, Address>>;
}

/** A pod of the first node before its ADD, with the addresses that it will get. */
export interface ComingPod extends Neighbour {
  readonly namespace: LabPod;
  readonly mac: MacAddress;
}

/** Returns a namespace for a pod. @param host the last number of its addresses */
export function comingPod(lab: Lab, name: string, host: number): ComingPod {
  return {
    namespace: lab.pod(name),
    addresses: addressesAt(host),
    mac: parseMac(`0a:58:0a:f4:01:${host.toString(16).padStart(2, "0")}`),
  };
}

/** Returns the addresses of a pod of the first node. @param host their last number */
function addressesAt(host: number): Neighbour["addresses"] {
  return { 4: parseAddress(`10.244.1.${host}`), 6: parseAddress(`fd00:244:1::${host.toString(16)}`) };
}

/** Calls the plugin for a pod of a namespace, and requests its addresses. */
export function startCall(
  verb: "ADD" | "DEL",
  wired: WiredNode,
  pod: ComingPod,
  podNamespace: string,
  configuration: Configuration,
): Promise<CallOutcome> {
  const ips = FAMILIES.map((family) => formatAddress(pod.addresses[family]));
  const overrides = { ...configuration, args: { cni: { ips } } };
  return startPlugin(wired.node, podCall(verb, wired, pod.namespace, overrides, { podNamespace })).outcome;
}

/** Asserts that a call succeeds. @throws AssertionError when the plugin fails */
export async function succeed(outcome: Promise<CallOutcome>): Promise<void> {
  const { exitCode, stdout } = await outcome;
  assert.equal(exitCode, 0, stdout);
}

export function byFamily([v4, v6]: readonly [Address, Address]): Readonly<Record<Family, Address>> {
  return { 4: v4, 6: v6 };
}

/**
 * Returns the objects of namespaces, each with a policy of these ingress rules for all its pods, or without one; a
 * policy has as many egress rules that allow everything.
 */
export function namespaceObjects(rules: Readonly<Record<string, readonly object[] | undefined>>): readonly object[] {
  return Object.entries(rules).flatMap(([name, all]) => [
    { apiVersion: "v1", kind: "Namespace", metadata: { name } },
    ...(all === undefined
      ? []
      : [
          {
            apiVersion: "networking.k8s.io/v1",
            kind: "NetworkPolicy",
            metadata: { name: "all", namespace: name },
            spec: { podSelector: {}, policyTypes: ["Ingress", "Egress"], ingress: all, egress: all.map(() => ({})) },
          },
        ]),
  ]);
}

/**
 * Returns a pod's object as the API server has it when the runtime calls the plugin: without an address, unless one is
 * given.
 */
export function podObject(
  namespace: string,
  name: string,
  {
    labels = {},
    addresses,
    nodeName = "node1",
  }: {
    readonly labels?: Readonly<Record<string, string>>;
    readonly addresses?: Neighbour["addresses"];
    readonly nodeName?: string;
  } = {},
): object {
  const podIPs = addresses === undefined ? [] : FAMILIES.map((family) => ({ ip: formatAddress(addresses[family]) }));
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace, uid: `uid-${name}`, labels },
    spec: { nodeName, containers: [{ name: "c" }] },
    status: { phase: addresses === undefined ? "Pending" : "Running", podIPs },
  };
}
