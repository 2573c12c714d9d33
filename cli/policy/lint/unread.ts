import type { ManifestProblem } from "../../input/manifests.ts";
import { isUnsupportedKind } from "../../input/objects/unsupported.ts";
import { textAt } from "../../input/raw.ts";
import { isWorkloadKind } from "../../input/workload.ts";
import type { Remark } from "./finding.ts";

/** The sorts of objects by whose absence a rule may judge. */
export const PARTS = ["policies", "pods", "namespaces"] as const;

export type Part = (typeof PARTS)[number];

/** Returns the sorts of which an object could not be read; all of them for a file that could not be read. */
export function unreadParts(problems: readonly ManifestProblem[]): ReadonlySet<Part> {
  return new Set(problems.flatMap(partsOf));
}

/** Returns a remark that judged by what is absent, as one that may be due to what could not be read. */
export function doubted(remark: Remark): Remark {
  return {
    ...remark,
    severity: "info",
    message: `${remark.message}, as far as could be read`,
    fix: "correct what cannot be read first: this may be due to it",
  };
}

function partsOf({ source }: ManifestProblem): readonly Part[] {
  const [apiVersion, kind] = [textAt(source, "apiVersion") ?? "", textAt(source, "kind") ?? ""];
  if (apiVersion === "" || kind === "") return PARTS;
  if (kind === "Pod" || isWorkloadKind(apiVersion, kind)) return ["pods"];
  if (kind === "Namespace") return ["namespaces"];
  const isPolicy = kind === "NetworkPolicy" || kind === "ClusterNetworkPolicy" || isUnsupportedKind(apiVersion, kind);
  return isPolicy ? ["policies"] : [];
}
