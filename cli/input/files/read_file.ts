import { DrawbridgeError } from "../../../kernel/error.ts";
import type { BrokenObject, LocatedObject } from "../../../policyd/source/documents.ts";
import { readManifestObjects } from "../manifest_objects.ts";
import type { ManifestFileSystem } from "../manifest_files.ts";
import type { ManifestProblem } from "../manifests.ts";
import { isIgnoredKind } from "../objects/take.ts";

/** White space before the first character of a file, at most. */
const LONGEST_LEAD = 4096;
/** U+FEFF in UTF-8. */
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];

/** What keeps a file from being read whole. */
export interface FileProblems {
  /** Undefined where it was read to its end. */
  readonly problem: ManifestProblem | undefined;
  /** Objects of kinds that no command reads, and that could not be read either. */
  readonly leftOut: readonly ManifestProblem[];
}

/** Gives each object of a file to `take`, up to the first place that cannot be read. */
export function readFileObjects(
  files: ManifestFileSystem,
  file: string,
  take: (object: LocatedObject) => void,
): FileProblems {
  const leftOut: ManifestProblem[] = [];
  const passes = ({ apiVersion, kind, reason }: BrokenObject): boolean => {
    if (!isIgnoredKind(apiVersion, kind)) return false;
    const { line, message } = located(reason);
    leftOut.push({ file, line, message: `${kind}: ${message} (nothing here depends on this object)` });
    return true;
  };
  try {
    const { format, chunks } = formatOf(file, withoutMark(files.read(file)));
    readManifestObjects(chunks, format, take, passes);
  } catch (error) {
    if (!(error instanceof DrawbridgeError)) throw error;
    return { problem: { file, ...located(error) }, leftOut };
  }
  return { problem: undefined, leftOut };
}

/** The line that a refusal of a text begins with, and the rest. */
function located({ message }: DrawbridgeError): { readonly line: number; readonly message: string } {
  const [, line = "1", rest = message] = /^line (\d+): (.*)$/s.exec(message) ?? [];
  return { line: Number(line), message: rest };
}

/** Without the byte order mark that programs of Windows put in front, and kubectl and the daemon pass over. */
function* withoutMark(chunks: Iterable<Uint8Array>): Generator<Uint8Array> {
  let isFirst = true;
  for (const chunk of chunks) {
    const isMarked = isFirst && BYTE_ORDER_MARK.every((byte, i) => chunk[i] === byte);
    yield isMarked ? chunk.subarray(BYTE_ORDER_MARK.length) : chunk;
    isFirst = false;
  }
}

/** By its name; standard input, and a file that tells nothing by it, by its first character, as kubectl does. */
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
