import { type Address, familyOf, tryParseAddress } from "../../kernel/ip/address.ts";

/** An end of a connection, as people name it. */
export type EndName =
  | { readonly type: "address"; readonly address: Address }
  | { readonly type: "node"; readonly name: string }
  | { readonly type: "service"; readonly key: string }
  | { readonly type: "pod"; readonly key: string }
  /** `kind` is in lower case and not abbreviated. */
  | { readonly type: "workload"; readonly namespace: string; readonly kind: string; readonly name: string };

/** The forms that {@link parseEndName} takes, for messages and help. */
export const END_FORMS =
  "NS/POD, NS/deployment/NAME, service/NS/NAME, node/NAME or an IP address (8.8.8.8 or 8.8.8.8/32); without NS/ it is in the namespace of -n";

/** kubectl's short names. */
const KINDS: ReadonlyMap<string, string> = new Map([
  ["po", "pod"],
  ["deploy", "deployment"],
  ["sts", "statefulset"],
  ["ds", "daemonset"],
  ["rs", "replicaset"],
  ["rc", "replicationcontroller"],
  ["cj", "cronjob"],
]);

const SERVICE: ReadonlySet<string> = new Set(["service", "svc"]);
/** The kinds that may stand before a name without a namespace. */
const WORKLOADS: ReadonlySet<string> = new Set([...KINDS.values(), "job"]);

/**
 * Reads the name of an end on the command line: one of {@link END_FORMS}. A text that begins with `node/`, `service/`
 * or the kind of a workload, such as `deployment/`, means that even where a namespace has this name; a pod there is
 * `NS/pod/NAME`.
 *
 * @param namespace for names without one
 */
export function parseEndName(text: string, namespace = "default"): EndName | undefined {
  const parts = text.split("/");
  // No namespace has a dot or a colon in its name.
  const address = tryParseAddress(parts[0] ?? "");
  if (address !== undefined) return isWholeAddress(address, parts.slice(1)) ? { type: "address", address } : undefined;
  if (parts.length > 3 || parts.includes("")) return undefined;
  const [first = "", second = "", third] = parts;
  if (parts.length === 1) return isName(text) ? named("pod", namespace, text) : undefined;
  if (third !== undefined) return SERVICE.has(first) ? named(first, second, third) : named(second, first, third);
  if (first === "node") return { type: "node", name: second };
  return isKind(first) ? named(first, namespace, second) : named("pod", first, second);
}

/** Returns whether an address has no prefix length, or the full one: policies may tell a range's addresses apart. */
function isWholeAddress(address: Address, [length, ...more]: readonly string[]): boolean {
  return more.length === 0 && (length === undefined || length === (familyOf(address) === 4 ? "32" : "128"));
}

function isKind(word: string): boolean {
  return SERVICE.has(word) || WORKLOADS.has(KINDS.get(word) ?? word);
}

function named(word: string, namespace: string, name: string): EndName {
  const key = `${namespace}/${name}`;
  if (SERVICE.has(word)) return { type: "service", key };
  const kind = KINDS.get(word.toLowerCase()) ?? word.toLowerCase();
  return kind === "pod" ? { type: "pod", key } : { type: "workload", namespace, kind, name };
}

/** Returns whether a word can be a pod's name; a mistyped address cannot. */
function isName(text: string): boolean {
  return /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(text) && /[a-z]/.test(text);
}

/** Reads a name as {@link parseEndName} does. @throws RangeError for any other text */
export function endNameOf(text: string, namespace?: string): EndName {
  const name = parseEndName(text, namespace);
  if (name === undefined) throw new RangeError(`${JSON.stringify(text)}: expected ${END_FORMS}`);
  return name;
}
