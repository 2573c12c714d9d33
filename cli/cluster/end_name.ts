import type { Address } from "../../kernel/ip/address.ts";
import { tryParseAddress } from "../../kernel/ip/address.ts";

/** An end of a connection, as people name it. */
export type EndName =
  | { readonly type: "address"; readonly address: Address }
  | { readonly type: "node"; readonly name: string }
  | { readonly type: "service"; readonly key: string }
  | { readonly type: "pod"; readonly key: string }
  /** The kind in small letters and in full. */
  | { readonly type: "workload"; readonly namespace: string; readonly kind: string; readonly name: string };

/** The forms {@link parseEndName} takes, for messages and help. */
export const END_FORMS = "NS/POD, NS/deployment/NAME, service/NS/NAME, node/NAME or an IP address";

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

/**
 * What a text of the command line names: one of {@link END_FORMS}. What begins with `node/` is a node and with `service/`
 * a Service, also where namespaces are called so; a pod of such a namespace is `NS/pod/NAME`.
 *
 * @returns undefined for anything else
 */
export function parseEndName(text: string): EndName | undefined {
  const address = tryParseAddress(text);
  if (address !== undefined) return { type: "address", address };
  const parts = text.split("/");
  const [first = "", second = "", third = ""] = parts;
  if (parts.length > 3 || parts.length < 2 || parts.includes("")) return undefined;
  if (parts.length === 2) {
    return first === "node" ? { type: "node", name: second } : { type: "pod", key: text };
  }
  if (first === "service" || first === "svc") return { type: "service", key: `${second}/${third}` };
  const kind = KINDS.get(second.toLowerCase()) ?? second.toLowerCase();
  if (kind === "pod") return { type: "pod", key: `${first}/${third}` };
  return { type: "workload", namespace: first, kind, name: third };
}

/** As {@link parseEndName}. @throws RangeError for what is none */
export function endNameOf(text: string): EndName {
  const name = parseEndName(text);
  if (name === undefined) throw new RangeError(`${JSON.stringify(text)}: expected ${END_FORMS}`);
  return name;
}
