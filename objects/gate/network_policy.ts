import { attempt, DrawbridgeError } from "../../kernel/error.ts";
import { cidrContains } from "../../kernel/ip/cidr.ts";
import type {
  IpBlockPeer,
  Labels,
  NetworkPolicy,
  PolicyPeer,
  PolicyPort,
  PolicyRule,
  PolicyType,
  Protocol,
} from "../model.ts";
import { expectPort, expectPortOrName, readAnnotations } from "../name.ts";
import { expectInteger, invalid, type Reader, expectNetwork } from "./reader.ts";
import { readGeneration, readNamespacedMetadata, readUid } from "./metadata.ts";
import { PROTOCOLS } from "../protocol.ts";
import { readSelector } from "./selector.ts";
import { sourcesKey } from "./sources_key.ts";
import { expectDomainPattern } from "../domain_name.ts";

/** The API server's own limit; it accepts the same type twice. */
const MOST_POLICY_TYPES = 2;
const BOTH: readonly PolicyType[] = Object.freeze(["Egress", "Ingress"]);
/** Sixteen times the size that a policy may have (POL-73); the API server accepts what fits into an object. */
const MOST_RULES = 65_536;

/**
 * Reads a networking.k8s.io/v1 NetworkPolicy with the API server's defaults.
 *
 * An invalid peer, port or rule is omitted and reported: the policy still isolates the pods that it selects, and
 * allows less than intended, never more. The same holds for rules that are not a list. If the policy types cannot be
 * read, it isolates in both directions. The pod selector must be readable.
 *
 * @throws DrawbridgeError ERR_OBJECT
 */
export function readNetworkPolicy(object: Reader): NetworkPolicy {
  const { reader, namespace, name, key } = readNamespacedMetadata(object);
  const spec = object.object("spec");
  const annotations = readAnnotations(reader);
  const policyTypes = readPolicyTypes(spec);
  const egress = readRules(spec, "egress", (rule, index) => readRule(rule, index, "to"));
  const given = spec.get("egress");
  const named = readNameRules(annotations, spec, Array.isArray(given) ? given.length : 0);
  if (named.length > 0 && !policyTypes.includes("Egress")) {
    spec.tell(`annotation ${NAMES_ANNOTATION}: policyTypes has no Egress: the policy does not restrict egress`);
  }
  return Object.freeze({
    kind: "NetworkPolicy",
    key,
    name,
    namespace,
    uid: readUid(reader),
    generation: readGeneration(reader),
    annotations,
    podSelector: readSelector(spec.object("podSelector")),
    policyTypes,
    ingress: readRules(spec, "ingress", (rule, index) => readRule(rule, index, sourcesKey(rule))),
    egress: named.length === 0 ? egress : Object.freeze([...egress, ...named]),
  });
}

/** Returns the policy types. Without the field: Ingress always, Egress if there is an egress rule. */
function readPolicyTypes(spec: Reader): readonly PolicyType[] {
  const decode = (value: unknown, field: string): PolicyType => {
    if (value === "Ingress" || value === "Egress") return value;
    throw invalid(field, value, "Ingress or Egress");
  };
  const given = orClosed(spec, () => spec.all("policyTypes", decode, MOST_POLICY_TYPES), {
    value: BOTH,
    consequence: "it isolates in both directions",
  });
  if (given.length > 0) return Object.freeze([...new Set(given)].sort());
  return hasRules(spec, "egress") ? BOTH : Object.freeze(["Ingress"]);
}

/** Whether a direction's field is not empty, readable or not. */
function hasRules(spec: Reader, key: "ingress" | "egress"): boolean {
  const rules = spec.get(key);
  return rules !== undefined && !(Array.isArray(rules) && rules.length === 0);
}

/** Returns the result of `read`, or reports its error and returns a value that allows nothing. */
function orClosed<T>(spec: Reader, read: () => T, closed: { readonly value: T; readonly consequence: string }): T {
  return attempt(read, ({ message }) => {
    spec.tell(`${message} (${closed.consequence})`);
    return closed.value;
  });
}

/** Reads the rules of a direction; none if there are too many. Refusing the policy would open what it isolates. */
function readRules(
  spec: Reader,
  key: "ingress" | "egress",
  decode: (rule: Reader, index: number) => PolicyRule,
): readonly PolicyRule[] {
  return orClosed(
    spec,
    () => {
      const count = spec.optionalList(key, Number.POSITIVE_INFINITY)?.length ?? 0;
      if (count > MOST_RULES) {
        throw new DrawbridgeError("ERR_OBJECT", `${spec.path(key)}: ${count} rules; expected at most ${MOST_RULES}`);
      }
      return spec.eachObject(key, decode);
    },
    { value: Object.freeze([]), consequence: "none of them allows anything" },
  );
}

function readRule(rule: Reader, index: number, peers: "from" | "_from" | "to"): PolicyRule {
  return Object.freeze({
    index,
    peers: isEmpty(rule, peers) ? undefined : rule.eachObject(peers, readPeer),
    ports: isEmpty(rule, "ports") ? undefined : rule.eachObject("ports", readPort),
  });
}

/** Whether a list does not restrict anything: absent, null and empty are the same for the API. */
function isEmpty(rule: Reader, key: string): boolean {
  return (rule.optionalList(key) ?? []).length === 0;
}

function readPeer(peer: Reader, index: number): PolicyPeer {
  const ipBlock = peer.optionalObject("ipBlock");
  const podSelector = peer.optionalObject("podSelector");
  const namespaceSelector = peer.optionalObject("namespaceSelector");
  const hasSelector = podSelector !== undefined || namespaceSelector !== undefined;
  if (hasSelector === (ipBlock !== undefined)) {
    throw invalid(
      peer.field,
      hasSelector ? "ipBlock beside a selector" : "neither a selector nor ipBlock",
      "podSelector, namespaceSelector or both, or only ipBlock",
    );
  }
  if (ipBlock !== undefined) return readIpBlock(ipBlock, index);
  return Object.freeze({
    type: "pods",
    index,
    podSelector: podSelector === undefined ? undefined : readSelector(podSelector),
    namespaceSelector: namespaceSelector === undefined ? undefined : readSelector(namespaceSelector),
  });
}

/** @throws DrawbridgeError ERR_OBJECT also for one invalid exception: without it the block would allow more */
function readIpBlock(ipBlock: Reader, index: number): IpBlockPeer {
  const cidr = expectNetwork(ipBlock.get("cidr"), ipBlock.path("cidr"));
  const except = ipBlock.all("except", (value, field) => {
    const inner = expectNetwork(value, field);
    const isInside = cidrContains(cidr, inner.address) && inner.prefixLength > cidr.prefixLength;
    if (!isInside) throw invalid(field, value, `a smaller range inside ${ipBlock.path("cidr")}`);
    return inner;
  });
  return Object.freeze({ type: "ipBlock", index, cidr, except });
}

function readPort(entry: Reader, index: number): PolicyPort {
  const given = entry.get("port");
  const port = given === undefined ? undefined : expectPortOrName(given, entry.path("port"));
  const last = entry.get("endPort");
  const protocol = entry.oneOf("protocol", PROTOCOLS, "TCP");
  if (last === undefined) return Object.freeze({ index, protocol, port, endPort: undefined });
  if (typeof port !== "number") throw invalid(entry.path("endPort"), last, "a port given as a number beside it");
  expectPort(last, entry.path("endPort"));
  return Object.freeze({ index, protocol, port, endPort: expectInteger(last, entry.path("endPort"), port, 65_535) });
}

/** The annotation of a NetworkPolicy with domain names that it allows for egress: `api.example.com:443/TCP`, by spaces. */
export const NAMES_ANNOTATION = "drawbridge.dev/egress-domain-names";

/**
 * Returns the rules that the annotation adds to a policy's egress, one for each port; none without the annotation. An
 * entry that cannot be kept is reported and allows nothing.
 *
 * @param first the index of the first of them
 */
function readNameRules(annotations: Labels, spec: Reader, first: number): readonly PolicyRule[] {
  const entries = (annotations[NAMES_ANNOTATION] ?? "").split(/[\s,]+/).filter((entry) => entry !== "");
  const read = entries.flatMap((entry) => spec.attempt(() => readEntry(entry)) ?? []);
  return [...Map.groupBy(read, ({ port }) => JSON.stringify(port)).values()].map((all, i) =>
    Object.freeze({
      index: first + i,
      peers: [Object.freeze({ type: "names", index: 0, names: all.map(({ name }) => name) } as const)],
      ports: all[0]?.port === undefined ? undefined : [all[0].port],
    }),
  );
}

/** @throws DrawbridgeError ERR_OBJECT */
function readEntry(entry: string): { readonly name: string; readonly port: PolicyPort | undefined } {
  const field = `annotation ${NAMES_ANNOTATION}`;
  const [, name = "", number, protocol = "TCP"] = /^([^:]+)(?::(\d+)(?:\/(\w+))?)?$/.exec(entry) ?? [];
  if (name === "") throw invalid(field, entry, 'a name with a port such as "api.example.com:443/TCP"');
  if (!isProtocol(protocol)) throw invalid(field, entry, `one of ${PROTOCOLS.join(", ")} after "/"`);
  const port = number === undefined ? undefined : expectPort(Number(number), field);
  return {
    name: expectDomainPattern(name, field),
    port: port === undefined ? undefined : Object.freeze({ index: 0, protocol, port, endPort: undefined }),
  };
}

function isProtocol(text: string): text is Protocol {
  return PROTOCOLS.some((protocol) => protocol === text);
}
