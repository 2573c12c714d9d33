import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { parse, parseAllDocuments } from "yaml";

export const INSTALL = "manifests/install.yaml";

/**
 * Verbs by resource, in the notation of the test API server and `kubectl auth can-i`:
 * `endpointslices.discovery.k8s.io`, followed by a slash and a name for one object.
 */
export type Grants = Readonly<Record<string, readonly string[]>>;

export interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** Returns the objects of a manifest, as they are written. */
export function manifestObjects(text: string): readonly Readonly<Record<string, unknown>>[] {
  return parseAllDocuments(text).map((document) => {
    const [error] = document.errors;
    if (error !== undefined) throw error;
    return document.toJS() as Readonly<Record<string, unknown>>;
  });
}

/** Returns what the ClusterRole of manifests/install.yaml grants, so that tests run with no further rights. */
export function manifestGrants(text: string = readFileSync(INSTALL, "utf8")): Grants {
  return grantsOf(rulesOf(text));
}

/** Returns what the ClusterRole of an overlay grants. */
export function overlayGrants(overlay: string): Grants {
  return grantsOf(overlayRules(overlay));
}

/**
 * Returns the rules of an overlay's ClusterRole, without kubectl.
 *
 * @throws AssertionError for a patch that does anything but add rules
 */
export function overlayRules(overlay: string): readonly Rule[] {
  const { patches = [] } = parse(readFileSync(`manifests/overlays/${overlay}/kustomization.yaml`, "utf8")) as {
    readonly patches?: readonly { readonly target: { readonly kind: string }; readonly patch: string }[];
  };
  const operations = patches
    .filter(({ target }) => target.kind === "ClusterRole")
    .flatMap(
      ({ patch }) => parse(patch) as readonly { readonly op: string; readonly path: string; readonly value: Rule }[],
    );
  for (const { op, path } of operations) assert.deepEqual([op, path], ["add", "/rules/-"]);
  return [...rulesOf(readFileSync(INSTALL, "utf8")), ...operations.map(({ value }) => value)];
}

function rulesOf(text: string): readonly Rule[] {
  const roles = manifestObjects(text).filter(({ kind }) => kind === "ClusterRole");
  return (roles as readonly { readonly rules?: readonly Rule[] }[]).flatMap(({ rules = [] }) => rules);
}

function grantsOf(rules: readonly Rule[]): Grants {
  const grants = new Map<string, string[]>();
  for (const { apiGroups, resources, resourceNames, verbs } of rules) {
    for (const group of apiGroups) {
      for (const resource of resources) {
        const name = group === "" ? resource : `${resource}.${group}`;
        const names = resourceNames === undefined ? [name] : resourceNames.map((object) => `${name}/${object}`);
        for (const one of names) grants.set(one, [...(grants.get(one) ?? []), ...verbs]);
      }
    }
  }
  return Object.fromEntries(grants);
}
