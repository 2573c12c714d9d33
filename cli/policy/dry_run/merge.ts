import { isObject } from "../../../objects/gate/reader.ts";
import { at, listAt, membersAt, textAt } from "../../input/raw.ts";

/** Where `kubectl apply` keeps what it was given before. */
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";
/** Fields that the API server sets and keeps where nobody gives them. */
const SERVER_SET = [
  "policyTypes",
  "clusterIP",
  "clusterIPs",
  "healthCheckNodePort",
  "ipFamilies",
  "ipFamilyPolicy",
  "ingressClassName",
];

/**
 * Returns an object as `kubectl apply` leaves it: what the given one says, and what the live one has beyond the one that
 * was applied before. Lists are replaced as a whole, except for the node ports of a Service.
 *
 * @param live the source of an object with what only the server has set
 */
export function mergedSource(live: unknown, source: unknown, given: unknown): unknown {
  const result = merged(live, lastApplied(source), given);
  if (!isObject(result) || textAt(given, "kind") !== "Service") return result;
  // The API server gives up the addresses and ports of another type, or allocates new ones.
  if (typeOf(live) !== typeOf(given)) return { ...result, spec: at(given, "spec") };
  const keyOf = (port: unknown): string => `${String(at(port, "port"))}/${textAt(port, "protocol") ?? "TCP"}`;
  const nodePorts = new Map(listAt(live, "spec", "ports").map((port) => [keyOf(port), at(port, "nodePort")]));
  const ports = listAt(given, "spec", "ports").map((port) =>
    isObject(port) ? { ...port, nodePort: at(port, "nodePort") ?? nodePorts.get(keyOf(port)) } : port,
  );
  return { ...result, spec: { ...Object.fromEntries(membersAt(result, "spec")), ports } };
}

function typeOf(service: unknown): string {
  return textAt(service, "spec", "type") || "ClusterIP";
}

/**
 * Returns what was applied before: for an object of a file, the object. Where a cluster's object does not say it, its
 * spec counts as applied, so that no change is missed, and its labels and annotations do not: others may set these.
 */
function lastApplied(live: unknown): unknown {
  const text = textAt(live, "metadata", "annotations", LAST_APPLIED);
  if (text !== undefined) {
    try {
      return JSON.parse(text);
    } catch {
      // Somebody has edited it.
    }
  }
  const spec = at(live, "spec");
  if (textAt(live, "metadata", "uid") === undefined) return { metadata: at(live, "metadata"), spec };
  return {
    spec: isObject(spec) ? Object.fromEntries(Object.entries(spec).filter(([key]) => !SERVER_SET.includes(key))) : spec,
  };
}

function merged(live: unknown, last: unknown, given: unknown): unknown {
  if (!isObject(live) || !isObject(given)) return given;
  const kept = Object.entries(live).filter(([key]) => at(last, key) === undefined);
  const said = Object.entries(given).map(([key, value]) => [key, merged(live[key], at(last, key), value)] as const);
  return { ...Object.fromEntries(kept), ...Object.fromEntries(said) };
}
