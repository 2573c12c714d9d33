import { cidrContains } from "../../../kernel/ip/cidr.ts";
import type { IpBlockPeer, NetworkPolicy, PolicyPeer, PolicyPort, PolicyRule, PolicyType } from "../model.ts";
import { expectPort, expectPortOrName, readAnnotations } from "../name.ts";
import type { Reader } from "../reader.ts";
import { expectInteger, invalid } from "../reader.ts";
import { expectNetwork } from "./address.ts";
import { readNamespacedMetadata } from "./metadata.ts";
import { PROTOCOLS } from "./protocol.ts";
import { readSelector } from "./selector.ts";

/**
 * A networking.k8s.io/v1 NetworkPolicy with the API server's defaults.
 *
 * A peer, port or rule that is invalid is left out and told: the policy goes on isolating what it selects and allows
 * less than was meant, never more. What it selects, and in which directions, must be readable.
 *
 * @throws DrawbridgeError ERR_OBJECT
 */
export function readNetworkPolicy(object: Reader): NetworkPolicy {
  const { reader, namespace, name, key } = readNamespacedMetadata(object);
  const spec = object.object("spec");
  return Object.freeze({
    kind: "NetworkPolicy",
    key,
    name,
    namespace,
    annotations: readAnnotations(reader),
    podSelector: readSelector(spec.object("podSelector")),
    policyTypes: readPolicyTypes(spec),
    ingress: spec.eachObject("ingress", (rule) => readRule(rule, peersKey(rule))),
    egress: spec.eachObject("egress", (rule) => readRule(rule, "to")),
  });
}

/** Without the field: Ingress always, Egress if there is an egress rule. */
function readPolicyTypes(spec: Reader): readonly PolicyType[] {
  const given = spec.all("policyTypes", (value, field): PolicyType => {
    if (value === "Ingress" || value === "Egress") return value;
    throw invalid(field, value, "Ingress or Egress");
  });
  if (given.length > 0) return Object.freeze([...new Set(given)].sort());
  const hasEgress = (spec.optionalList("egress") ?? []).length > 0;
  return Object.freeze(hasEgress ? ["Egress", "Ingress"] : ["Ingress"]);
}

/** `from`, which client-node calls `_from` in its typed objects; read as absent it would allow everyone. */
function peersKey(rule: Reader): "from" | "_from" {
  const isRenamed = rule.get("_from") !== undefined;
  if (isRenamed && rule.get("from") !== undefined) {
    throw invalid(rule.path("_from"), "both from and _from", "one of them");
  }
  return isRenamed ? "_from" : "from";
}

function readRule(rule: Reader, peers: "from" | "_from" | "to"): PolicyRule {
  return Object.freeze({
    peers: isEmpty(rule, peers) ? undefined : rule.eachObject(peers, readPeer),
    ports: isEmpty(rule, "ports") ? undefined : rule.eachObject("ports", readPort),
  });
}

/** Absent, null and without elements are the same for the API: no restriction. */
function isEmpty(rule: Reader, key: string): boolean {
  return (rule.optionalList(key) ?? []).length === 0;
}

function readPeer(peer: Reader): PolicyPeer {
  const ipBlock = peer.optionalObject("ipBlock");
  const podSelector = peer.optionalObject("podSelector");
  const namespaceSelector = peer.optionalObject("namespaceSelector");
  const hasSelector = podSelector !== undefined || namespaceSelector !== undefined;
  if (hasSelector === (ipBlock !== undefined)) {
    throw invalid(
      peer.field,
      hasSelector ? "ipBlock beside a selector" : "neither a selector nor ipBlock",
      "podSelector, namespaceSelector or both, or ipBlock alone",
    );
  }
  if (ipBlock !== undefined) return readIpBlock(ipBlock);
  return Object.freeze({
    type: "pods",
    podSelector: podSelector === undefined ? undefined : readSelector(podSelector),
    namespaceSelector: namespaceSelector === undefined ? undefined : readSelector(namespaceSelector),
  });
}

/** @throws DrawbridgeError ERR_OBJECT also for one bad exception: without it the block would allow more */
function readIpBlock(ipBlock: Reader): IpBlockPeer {
  const cidr = expectNetwork(ipBlock.get("cidr"), ipBlock.path("cidr"));
  const except = ipBlock.all("except", (value, field) => {
    const inner = expectNetwork(value, field);
    const isInside = cidrContains(cidr, inner.address) && inner.prefixLength > cidr.prefixLength;
    if (!isInside) throw invalid(field, value, `a smaller range inside ${ipBlock.path("cidr")}`);
    return inner;
  });
  return Object.freeze({ type: "ipBlock", cidr, except });
}

function readPort(entry: Reader): PolicyPort {
  const given = entry.get("port");
  const port = given === undefined ? undefined : expectPortOrName(given, entry.path("port"));
  const last = entry.get("endPort");
  const protocol = entry.oneOf("protocol", PROTOCOLS, "TCP");
  if (last === undefined) return Object.freeze({ protocol, port, endPort: undefined });
  if (typeof port !== "number") throw invalid(entry.path("endPort"), last, "a port given as a number beside it");
  expectPort(last, entry.path("endPort"));
  return Object.freeze({ protocol, port, endPort: expectInteger(last, entry.path("endPort"), port, 65_535) });
}
