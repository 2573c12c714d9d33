import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { stringify } from "yaml";
import { PROJECT, STATE } from "../place.ts";

/**
 * Writes a kustomization for the cluster, which combines manifests as manifests/README.md says.
 *
 * @param manifests directories below manifests/: the overlay or base, then components
 * @returns its directory
 */
export function writeKustomization([base, ...components]: readonly [string, ...(readonly string[])]): string {
  if (components.length === 0) return path.join(PROJECT, "manifests", base);
  const directory = path.join(STATE, "kustomization");
  mkdirSync(directory, { recursive: true });
  // kustomize does not accept absolute paths.
  const place = (name: string): string => path.relative(directory, path.join(PROJECT, "manifests", name));
  writeFileSync(
    path.join(directory, "kustomization.yaml"),
    stringify({
      apiVersion: "kustomize.config.k8s.io/v1beta1",
      kind: "Kustomization",
      resources: [place(base)],
      components: components.map(place),
    }),
  );
  return directory;
}
