import { DrawbridgeError } from "../../../kernel/error.ts";
import { nameOf } from "../../../policyd/objects/gate/gate.ts";
import type { Kind } from "../../../policyd/objects/model.ts";

/** The words for kinds on the command line. */
const KINDS: ReadonlyMap<string, { readonly kind: Kind; readonly isNamespaced: boolean }> = new Map(
  [
    { names: ["networkpolicy", "networkpolicies", "netpol"], kind: "NetworkPolicy" as const, isNamespaced: true },
    {
      names: ["clusternetworkpolicy", "clusternetworkpolicies", "cnp"],
      kind: "ClusterNetworkPolicy" as const,
      isNamespaced: false,
    },
    { names: ["pod", "pods", "po"], kind: "Pod" as const, isNamespaced: true },
  ].flatMap(({ names, ...kind }) => names.map((name) => [name, kind] as const)),
);

/**
 * Returns the name in messages of an object on the command line: `networkpolicy/shop/web` is `NetworkPolicy shop/web`.
 *
 * @throws DrawbridgeError ERR_INPUT for any other text
 */
export function objectName(text: string): string {
  const [first = "", ...rest] = text.split("/");
  const known = KINDS.get(first.toLowerCase());
  if (known !== undefined && rest.length === (known.isNamespaced ? 2 : 1) && !rest.includes("")) {
    return nameOf({ kind: known.kind, key: rest.join("/") });
  }
  throw new DrawbridgeError(
    "ERR_INPUT",
    `--delete: ${JSON.stringify(text)}; expected networkpolicy/NS/NAME, clusternetworkpolicy/NAME or pod/NS/NAME`,
  );
}
