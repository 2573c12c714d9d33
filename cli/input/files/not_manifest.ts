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

/** The contents of a file: the first place that cannot be read, and the numbers of values. */
interface Found {
  readonly problem: { readonly line: number; readonly message: string } | undefined;
  readonly manifestLike: number;
  readonly others: number;
}

/** Returns why a file is skipped; undefined for one with manifests, and for one that may be meant to have some. */
export function skipReason(file: string, text: string, { problem, manifestLike, others }: Found): string | undefined {
  if (manifestLike > 0) return undefined;
  const isList = file.endsWith(".json") && text.trimStart().startsWith("[");
  if (isList || (problem === undefined && others > 0)) return reasonOf(file);
  return problem === undefined || mayHoldManifest(text)
    ? undefined
    : `no manifest, line ${problem.line}: ${problem.message}`;
}

/** Returns whether a text that cannot be read may hold an object, also in UTF-16, where every other byte is zero. */
function mayHoldManifest(text: string): boolean {
  return /\b(?:apiVersion|kind|metadata)\b/i.test(text.replaceAll("\0", "")) || templateAction(text) !== undefined;
}

function reasonOf(file: string): string {
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
