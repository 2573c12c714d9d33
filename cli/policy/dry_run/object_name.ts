import { DrawbridgeError } from "../../../kernel/error.ts";
import { nameOf } from "../../../policyd/cluster/gate.ts";
import type { Kind } from "../../../policyd/cluster/model.ts";

/** The words that names of the command line may begin with. */
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
 * An object named on the command line, as messages call it: `networkpolicy/shop/web` is `NetworkPolicy shop/web`.
 *
 * @throws DrawbridgeError ERR_INPUT for what is no such name
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
