import path from "node:path";
import type { ManifestFileSystem } from "../manifest_files.ts";
import { textAt } from "../raw.ts";

/** A file that was not read as manifests. */
export interface SkippedFile {
  readonly file: string;
  readonly reason: string;
}

/** Matches the actions of templates of Helm, and of Go in general, but not those in the texts of alerts. */
const ACTION =
  /\{\{-?\s*(?:\.(?:Values|Release|Chart|Capabilities|Files|Template)\b|\$|\/\*|(?:if|range|with|end|else|define|include|template|block|tpl|toYaml|required|default|quote|printf)\b)[^\n]*/;
const LONGEST_SHOWN = 40;
/** The number of directories above a template that may hold its chart. */
const MOST_LEVELS = 8;
const KUSTOMIZATIONS = ["kustomization.yaml", "kustomization.yml"];

/**
 * Returns whether a value was probably meant as a Kubernetes object, even if it is incomplete. A chart's own file has
 * an `apiVersion`, and files of other programs have a `kind`.
 */
export function isManifestLike(value: unknown): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const has = (key: string): boolean => Object.hasOwn(value, key);
  if (has("kind") && (has("apiVersion") || (textAt(value, "kind") ?? "").endsWith("NetworkPolicy"))) return true;
  return (has("kind") || has("apiVersion")) && (has("metadata") || has("spec"));
}

/** Returns why a file without any manifest is skipped. */
export function skipReason(file: string): string {
  const [directory, name] = [path.dirname(file), path.basename(file)];
  if (KUSTOMIZATIONS.includes(name)) return kustomizationText(directory);
  if (name === "Chart.yaml") return `a chart: --helm ${directory} renders it`;
  return "no manifest";
}

/** Returns the reason for skipping a kustomization, and the option that renders it. */
export function kustomizationText(directory: string): string {
  return `a kustomization: --kustomize ${directory} renders it`;
}

/** Returns the first action of a template in a text, with its line; undefined where there is none. */
export function templateAction(text: string): { readonly line: number; readonly action: string } | undefined {
  const found = ACTION.exec(text);
  if (found === null) return undefined;
  const [whole] = found;
  const end = whole.indexOf("}}");
  const action = end < 0 ? whole : whole.slice(0, end + 2);
  return { line: text.slice(0, found.index).split("\n").length, action: action.slice(0, LONGEST_SHOWN) };
}

/** Returns the message for an unrendered template, with the way out. */
export function templateText(files: ManifestFileSystem, file: string, action: string): string {
  const chart = chartOf(files, file);
  const way =
    chart === undefined
      ? "render it first, as `helm template CHART` does for Helm, and read what that prints"
      : `read it by --helm ${chart}, or what \`helm template ${chart}\` prints`;
  return `an unrendered template (${JSON.stringify(action)}); expected manifests: ${way}, or omit it by --exclude`;
}

/** Returns the nearest directory above a file that is a chart. */
function chartOf(files: ManifestFileSystem, file: string): string | undefined {
  if (file === "-") return undefined;
  let directory = path.dirname(file);
  for (let level = 0; level < MOST_LEVELS; level++) {
    if (files.typeOf(path.join(directory, "Chart.yaml")) === "file") return directory;
    const above = path.dirname(directory);
    if (above === directory) return undefined;
    directory = above;
  }
  return undefined;
}
