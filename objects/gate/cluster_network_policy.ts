import { PROTOCOL_OF } from "../protocol.ts";
import { TRANSPORTS } from "../../kernel/ip/protocol.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type {
  ClusterNetworkPolicy,
  ClusterPolicyAction,
  ClusterPolicyPeer,
  ClusterPolicyPort,
  ClusterPolicyRule,
  ClusterPolicyTier,
  NamespacedPods,
} from "../model.ts";
import { expectDomainPattern } from "../domain_name.ts";
import { expectPort } from "../name.ts";
import { expectInteger, expectString, invalid, Reader, expectNetwork } from "./reader.ts";
import { readGeneration, readMetadata, readUid } from "./metadata.ts";
import { readSelector } from "./selector.ts";
import { sourcesKey } from "./sources_key.ts";

/** The CRD's own limits; that on elements applies to the rules of a direction, to peers, protocols and networks. */
const MOST_ELEMENTS = 25;
const LONGEST_RULE_NAME = 100;
const HIGHEST_PRIORITY = 1000;

type PeersKey = "from" | "_from" | "to";

/**
 * Reads a policy.networking.k8s.io ClusterNetworkPolicy of v1beta1 or v1alpha2, which have the same schema, and checks
 * it as its CRD does.
 *
 * A rule that cannot be read as a whole, as one of a later API, is reported and fails closed as the API requires: an
 * Accept accepts nobody, the others deny everyone. Subject, tier and priority must be readable.
 *
 * @throws DrawbridgeError ERR_OBJECT
 */
export function readClusterNetworkPolicy(object: Reader): ClusterNetworkPolicy {
  const { reader, name } = readMetadata(object);
  const spec = object.object("spec");
  const tier = readTier(spec);
  return Object.freeze({
    kind: "ClusterNetworkPolicy",
    key: name,
    name,
    uid: readUid(reader),
    generation: readGeneration(reader),
    tier,
    priority: spec.integer("priority", 0, HIGHEST_PRIORITY),
    subject: readSubject(spec.object("subject")),
    ingress: readRules(spec, tier, "ingress"),
    egress: readRules(spec, tier, "egress"),
  });
}

function readTier(spec: Reader): ClusterPolicyTier {
  const tier = spec.get("tier");
  if (tier === "Admin" || tier === "Baseline") return tier;
  throw invalid(spec.path("tier"), tier, "Admin or Baseline");
}

function readSubject(subject: Reader): NamespacedPods {
  const member = onlyMember(subject, ["namespaces", "pods"]);
  return readPods(subject.object(member), member, 0);
}

function readRules(
  spec: Reader,
  tier: ClusterPolicyTier,
  direction: "ingress" | "egress",
): readonly ClusterPolicyRule[] {
  return spec.all(
    direction,
    (value, field, index) => readRule(spec, { value, field, index, tier, direction }),
    MOST_ELEMENTS,
  );
}

interface RawRule {
  readonly value: unknown;
  readonly field: string;
  readonly index: number;
  readonly tier: ClusterPolicyTier;
  readonly direction: "ingress" | "egress";
}

function readRule(spec: Reader, { value, field, index, tier, direction }: RawRule): ClusterPolicyRule {
  let action: ClusterPolicyAction = "Deny";
  let name: string | undefined;
  try {
    const rule = new Reader(value, field);
    action = readAction(rule);
    name = spec.attempt(() => rule.optionalString("name", LONGEST_RULE_NAME));
    const key = direction === "egress" ? "to" : sourcesKey(rule);
    const [peers, ports] = [readPeers(rule, key), readPorts(rule)];
    if (key === "to") expectPodsForNames(rule, peers, ports);
    if (peers.some(({ type }) => type === "names") && (tier !== "Admin" || action !== "Accept")) {
      throw invalid(rule.path(key), "domainNames", "them only in Accept rules of the Admin tier");
    }
    return Object.freeze({ index, name, action, peers, ports, unreadable: undefined });
  } catch (error) {
    if (!(error instanceof DrawbridgeError)) throw error;
    spec.tell(`${error.message} (the rule ${action === "Accept" ? "accepts nobody" : "denies everyone"})`);
    return unreadableRule(index, action, name, error.message);
  }
}

function unreadableRule(
  index: number,
  action: ClusterPolicyAction,
  name: string | undefined,
  unreadable: string,
): ClusterPolicyRule {
  const isAccept = action === "Accept";
  return Object.freeze({
    index,
    name,
    action: isAccept ? action : "Deny",
    peers: isAccept ? Object.freeze([]) : undefined,
    ports: undefined,
    unreadable,
  });
}

function readAction(rule: Reader): ClusterPolicyAction {
  const action = rule.get("action");
  if (action === "Accept" || action === "Deny" || action === "Pass") return action;
  throw invalid(rule.path("action"), action, "Accept, Deny or Pass");
}

function readPeers(rule: Reader, key: PeersKey): readonly ClusterPolicyPeer[] {
  const decode = (value: unknown, field: string, index: number): ClusterPolicyPeer =>
    readPeer(new Reader(value, field), index, key);
  const peers = rule.all(key, decode, MOST_ELEMENTS);
  if (peers.length === 0) throw invalid(rule.path(key), "no peers", "at least one");
  return peers;
}

function readPeer(peer: Reader, index: number, key: PeersKey): ClusterPolicyPeer {
  if (key !== "to") {
    const member = onlyMember(peer, ["namespaces", "pods"]);
    return readPods(peer.object(member), member, index);
  }
  const member = onlyMember(peer, ["namespaces", "pods", "nodes", "networks", "domainNames"]);
  if (member === "nodes") return Object.freeze({ type: "nodes", index, selector: readSelector(peer.object(member)) });
  if (member === "domainNames") return readNames(peer, index);
  if (member !== "networks") return readPods(peer.object(member), member, index);
  const cidrs = peer.all(member, expectNetwork, MOST_ELEMENTS);
  if (cidrs.length === 0) throw invalid(peer.path(member), "no networks", "at least one");
  return Object.freeze({ type: "networks", index, cidrs });
}

function readNames(peer: Reader, index: number): ClusterPolicyPeer {
  const names = peer.all("domainNames", expectDomainPattern, MOST_ELEMENTS);
  if (names.length === 0) throw invalid(peer.path("domainNames"), "no names", "at least one");
  return Object.freeze({ type: "names", index, names });
}

/** Reads a selection of pods. `namespaces` is a selector; `pods` has two, and its namespaceSelector defaults to all. */
function readPods(reader: Reader, member: "namespaces" | "pods", index: number): NamespacedPods {
  const isPods = member === "pods";
  if (isPods && reader.get("podSelector") === undefined) {
    throw invalid(reader.path("podSelector"), undefined, "a selector ({} for all pods)");
  }
  return Object.freeze({
    type: "pods",
    index,
    namespaceSelector: readSelector(isPods ? reader.object("namespaceSelector") : reader),
    podSelector: isPods ? readSelector(reader.object("podSelector")) : undefined,
  });
}

function readPorts(rule: Reader): readonly ClusterPolicyPort[] | undefined {
  if (rule.get("protocols") === undefined) return undefined;
  const decode = (value: unknown, field: string, index: number): ClusterPolicyPort =>
    readPort(new Reader(value, field), index);
  const ports = rule.all("protocols", decode, MOST_ELEMENTS);
  if (ports.length === 0) throw invalid(rule.path("protocols"), "no protocols", "at least one, or no list at all");
  return ports;
}

function readPort(entry: Reader, index: number): ClusterPolicyPort {
  const member = onlyMember(entry, [...TRANSPORTS, "destinationNamedPort"]);
  if (member === "destinationNamedPort") {
    const name = expectString(entry.get(member), entry.path(member));
    if (name === "") throw invalid(entry.path(member), name, "the name of a container's port");
    return Object.freeze({ index, protocol: undefined, port: name, endPort: undefined });
  }
  const protocol = PROTOCOL_OF[member];
  const attributes = entry.object(member);
  const destination = attributes.object(onlyMember(attributes, ["destinationPort"]));
  if (onlyMember(destination, ["number", "range"]) === "number") {
    const port = expectPort(destination.get("number"), destination.path("number"));
    return Object.freeze({ index, protocol, port, endPort: undefined });
  }
  const range = destination.object("range");
  const port = expectPort(range.get("start"), range.path("start"));
  const endPort = expectInteger(range.get("end"), range.path("end"), port + 1, 65_535);
  return Object.freeze({ index, protocol, port, endPort });
}

/** Refuses port names beside peers that are not pods: only pods have names for their ports. */
function expectPodsForNames(
  rule: Reader,
  peers: readonly ClusterPolicyPeer[],
  ports: readonly ClusterPolicyPort[] | undefined,
): void {
  const hasName = ports?.some(({ port }) => typeof port === "string") ?? false;
  if (hasName && peers.some(({ type }) => type !== "pods")) {
    throw invalid(rule.path("protocols"), "destinationNamedPort", "numbers beside nodes, networks and names");
  }
}

/**
 * Returns the name of an object's only member, which must be one of the given names. A second member is of a later API,
 * and what it means for the known one is not ours to guess.
 *
 * @throws DrawbridgeError ERR_OBJECT
 */
function onlyMember<const T extends string>(reader: Reader, names: readonly T[]): T {
  const members = reader.entries().flatMap(([member, value]) => (value === null ? [] : [member]));
  const name = names.find((candidate) => members.includes(candidate));
  if (name !== undefined && members.length === 1) return name;
  const found = members.length === 0 ? "nothing" : members.slice(0, 5).join(", ");
  throw invalid(reader.field, found, `exactly one of ${names.join(", ")}`);
}
