import { readFileSync } from "node:fs";
import { parseAllDocuments } from "yaml";

export const INSTALL = "manifests/install.yaml";

/** Verbs by resource, each named as the test API server and `kubectl auth can-i` have it: `endpointslices.discovery.k8s.io`. */
export type Grants = Readonly<Record<string, readonly string[]>>;

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

/** The objects of a manifest, as they stand there. */
export function manifestObjects(text: string): readonly Readonly<Record<string, unknown>>[] {
  return parseAllDocuments(text).map((document) => {
    const [error] = document.errors;
    if (error !== undefined) throw error;
    return document.toJS() as Readonly<Record<string, unknown>>;
  });
}

/** What the ClusterRole of manifests/install.yaml grants, so that tests run with no more than that. */
export function manifestGrants(text: string = readFileSync(INSTALL, "utf8")): Grants {
  const roles = manifestObjects(text).filter(({ kind }) => kind === "ClusterRole");
  const grants = new Map<string, string[]>();
  for (const { rules } of roles as readonly { readonly rules?: readonly Rule[] }[]) {
    for (const { apiGroups, resources, verbs } of rules ?? []) {
      for (const group of apiGroups) {
        for (const resource of resources) {
          const name = group === "" ? resource : `${resource}.${group}`;
          grants.set(name, [...(grants.get(name) ?? []), ...verbs]);
        }
      }
    }
  }
  return Object.fromEntries(grants);
}
