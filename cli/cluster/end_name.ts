import { type Address, familyOf, tryParseAddress } from "../../kernel/ip/address.ts";
import { isLoopback } from "../../kernel/ip/special.ts";
import { comparableName } from "../../objects/domain_name.ts";
import type { LabelSelector } from "../../objects/model.ts";
import { parseLabelSelector } from "../input/label_selector.ts";

/** An end of a connection, as people name it. */
export type EndName =
  | { readonly type: "address"; readonly address: Address }
  | { readonly type: "node"; readonly name: string }
  | { readonly type: "service"; readonly key: string }
  /**
   * A pod, or else the workloads of this name. A single word may also be the name of a namespace, or with dots a domain
   * name.
   */
  | { readonly type: "pod"; readonly key: string; readonly word?: string; readonly domain?: string }
  /** All pods of a namespace, or of all of them where it is undefined, or those with some labels. */
  | {
      readonly type: "pods";
      readonly namespace: string | undefined;
      readonly labels: LabelSelector | undefined;
      readonly text: string;
    }
  /** All addresses outside of the cluster. */
  | { readonly type: "outside" }
  /** All pods that are in no file and that policies would tell apart. */
  | { readonly type: "new pods" }
  /** `kind` is in lower case and not abbreviated. */
  | { readonly type: "workload"; readonly namespace: string; readonly kind: string; readonly name: string };

/** The names of pods that {@link parseEndName} takes, for messages and help. */
export const POD_FORMS =
  "NS/NAME of a pod or workload, NS/deployment/NAME, NS (a namespace), NS/app=web (labels; */app=web in all namespaces) or a pod's IP address; without NS/ it is in the namespace of -n";

/** The names of all ends that policies judge. */
export const END_FORMS = `service/NS/NAME, node/NAME, an IP address (8.8.8.8 or 8.8.8.8/32), a domain name, outside, 'any new pod', or pods: ${POD_FORMS}`;

/** The name of all pods that are in no file. */
export const NEW_PODS = "any new pod";

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
 * `NS/pod/NAME`. `outside` and `any new pod` mean these, too.
 *
 * @param namespace for names without one
 */
export function parseEndName(text: string, namespace = "default"): EndName | undefined {
  if (text === "outside" || text === NEW_PODS) return { type: text === NEW_PODS ? "new pods" : "outside" };
  if (/[=!]|\) *$|^\*\//.test(text)) return labelled(text, namespace);
  // No namespace has a dot or a colon in its name.
  const [first = "", ...rest] = text.split("/");
  const address = tryParseAddress(first);
  if (address !== undefined) return isWholeAddress(address, rest) ? { type: "address", address } : undefined;
  return objectName([first, ...rest], namespace);
}

/** Returns why policies say nothing about an end; undefined where they do. */
export function unjudgedEnd(name: EndName | undefined): string | undefined {
  if (name?.type !== "address" || !isLoopback(name.address)) return undefined;
  return "loopback never leaves the pod or the node, so no policy decides about it; expected another end";
}

function objectName(parts: readonly string[], namespace: string): EndName | undefined {
  const [first = "", second, third] = parts;
  if (parts.length > 3 || parts.includes("")) return undefined;
  if (second === undefined) {
    const domain = comparableName(first);
    if (!isName(first) && domain === undefined) return undefined;
    return { type: "pod", key: `${namespace}/${first}`, word: first, ...(domain === undefined ? {} : { domain }) };
  }
  if (third !== undefined) return SERVICE.has(first) ? named(first, second, third) : named(second, first, third);
  if (second === "*") return { type: "pods", namespace: first, labels: undefined, text: `${first}/*` };
  if (first === "node") return { type: "node", name: second };
  return isKind(first) ? named(first, namespace, second) : named("pod", first, second);
}

/** Reads `app=web`, `NS/app=web` or `*\/app=web`. A namespace has no dot in its name, as most prefixes of labels have. */
function labelled(text: string, namespace: string): EndName | undefined {
  const [, place, rest = text] = /^([a-z0-9-]+|\*)\/(.*)$/s.exec(text) ?? [];
  const labels = parseLabelSelector(rest);
  if (labels === undefined) return undefined;
  return {
    type: "pods",
    namespace: place === "*" ? undefined : (place ?? namespace),
    labels,
    text: place === undefined ? `${namespace}/${text}` : text,
  };
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
