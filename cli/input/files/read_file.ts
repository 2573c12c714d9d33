import { Buffer } from "node:buffer";
import path from "node:path";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { type BrokenObject, type LocatedObject, openList } from "../../../objects/yaml/documents.ts";
import { readManifestObjects } from "../manifest_objects.ts";
import type { ManifestFileSystem } from "../manifest_files.ts";
import type { ManifestProblem } from "../manifests.ts";
import { type Context, isIgnoredKind, NO_WAY_IN, type Taken, takeObject } from "../objects/take.ts";
import { mirrored } from "../objects/endpoints.ts";
import { openTemplate } from "../objects/template.ts";
import { isWayKind } from "../ways/read.ts";
import {
  isManifestLike,
  kustomizationText,
  type SkippedFile,
  skipReason,
  templateAction,
  templateText,
} from "./not_manifest.ts";

/** The most white space that may come before the first character of a file. */
const LONGEST_LEAD = 4096;
/** Bytes of a file that are searched for template actions; a chunk is never cut. */
const LONGEST_KEPT = 256 * 1024;
/** U+FEFF in UTF-8. */
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];

/** The result of reading a file. */
export interface FileReading {
  readonly taken: readonly Taken[];
  /** Why it is not a file of manifests; nothing is taken then. */
  readonly skipped?: SkippedFile;
  /** Objects that could not be read, of kinds that no command needs. */
  readonly omitted: readonly ManifestProblem[];
}

/** Reads the objects of a file, up to the first place that cannot be read. */
export function readFileObjects(files: ManifestFileSystem, context: Context): FileReading {
  const { file } = context;
  const taken: Taken[] = [];
  const omitted: ManifestProblem[] = [];
  const kept: Uint8Array[] = [];
  let [manifestLike, others] = [0, 0];
  const take = (object: LocatedObject): void => {
    if (isManifestLike(object.value)) manifestLike++;
    else others++;
    const objects = openTemplate(object).flatMap((one) => [...openList(one)]);
    for (const one of objects.flatMap(mirrored)) taken.push(takeObject(one, context));
  };
  const passes = ({ apiVersion, kind, reason }: BrokenObject): boolean => {
    if (!isIgnoredKind(apiVersion, kind)) return false;
    const { line, message } = located(reason);
    const isWay = context.waysIn === true && isWayKind(apiVersion, kind);
    const consequence = isWay ? NO_WAY_IN : "(nothing here depends on this object)";
    omitted.push({ file, line, message: `${kind}: ${message} ${consequence}` });
    return true;
  };
  let problem: ManifestProblem | undefined;
  try {
    const { format, chunks } = formatOf(file, keeping(kept, withoutMark(files.read(file))));
    readManifestObjects(chunks, format, take, passes);
  } catch (error) {
    if (!(error instanceof DrawbridgeError)) throw error;
    problem = { file, ...located(error) };
  }
  const text = Buffer.concat(kept).toString("utf8");
  const reason = skipReason(file, text, { problem, manifestLike, others });
  const isKustomization =
    taken.length > 0 && taken.every((one) => one.type === "ignored" && one.kind === "Kustomization");
  if (reason !== undefined || isKustomization) {
    return { taken: [], omitted: [], skipped: { file, reason: reason ?? kustomizationText(path.dirname(file)) } };
  }
  const problems = taken.flatMap((one) => (one.type === "problems" ? one.problems : []));
  const mayBeTemplate = problem !== undefined || problems.some(({ message }) => message.includes("{{"));
  const found = mayBeTemplate ? templateAction(text) : undefined;
  if (found !== undefined) {
    const message = templateText(files, file, found.action);
    return { taken: [{ type: "problems", problems: [{ file, line: found.line, message }] }], omitted: [] };
  }
  if (problem !== undefined) taken.push({ type: "problems", problems: [problem] });
  return { taken, omitted };
}

/** Yields the chunks of a file, and keeps the first ones, since standard input cannot be read again. */
function* keeping(kept: Uint8Array[], chunks: Iterable<Uint8Array>): Generator<Uint8Array> {
  let length = 0;
  for (const chunk of chunks) {
    if (length < LONGEST_KEPT) kept.push(chunk);
    length += chunk.length;
    yield chunk;
  }
}

/** Splits a message into the line number that it begins with, and the rest. */
function located({ message }: DrawbridgeError): { readonly line: number; readonly message: string } {
  const [, line = "1", rest = message] = /^line (\d+): (.*)$/s.exec(message) ?? [];
  return { line: Number(line), message: rest };
}

/** Removes the byte order mark that Windows programs write and that kubectl and the daemon ignore. */
function* withoutMark(chunks: Iterable<Uint8Array>): Generator<Uint8Array> {
  let isFirst = true;
  for (const chunk of chunks) {
    const isMarked = isFirst && BYTE_ORDER_MARK.every((byte, i) => chunk[i] === byte);
    yield isMarked ? chunk.subarray(BYTE_ORDER_MARK.length) : chunk;
    isFirst = false;
  }
}

/** Returns the format by the file's name; for standard input and others by the first character, as kubectl does. */
function formatOf(
  file: string,
  chunks: Iterable<Uint8Array>,
): { readonly format: "json" | "yaml"; readonly chunks: Iterable<Uint8Array> } {
  if (/\.ya?ml$/.test(file)) return { format: "yaml", chunks };
  if (file.endsWith(".json")) return { format: "json", chunks };
  const rest = chunks[Symbol.iterator]();
  const first = rest.next();
  const all = function* (): Generator<Uint8Array> {
    if (first.done !== true) yield first.value;
    for (let next = rest.next(); next.done !== true; next = rest.next()) yield next.value;
  };
  const begin = first.done === true ? "" : new TextDecoder().decode(first.value.subarray(0, LONGEST_LEAD)).trimStart();
  return { format: begin.startsWith("{") ? "json" : "yaml", chunks: all() };
}
