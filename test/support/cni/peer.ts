import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import type Mocha from "mocha";
import { CACHE, goInstall, hasGo } from "../programs/go.ts";
import { skip } from "../privilege.ts";

/**
 * The versions of the reference plugins that comparisons and the benchmark accept, beginning with the one that is
 * built.
 */
export const PEER_VERSIONS = ["1.10.0", "1.9.1"] as const;
const [BUILT_VERSION] = PEER_VERSIONS;

const MODULE = "github.com/containernetworking/plugins";

/** The packages of the plugin that Drawbridge replaces, its IPAM plugin, and the plugins for `lo` and for host ports. */
const PACKAGES = ["plugins/main/bridge", "plugins/ipam/host-local", "plugins/main/loopback", "plugins/meta/portmap"];
const NEEDED = ["bridge", "host-local"];

/**
 * The directory with the plugins, or the reason why there is none: `absent` on a machine without Go, `broken` when Go
 * or the user's own directory fails.
 */
type Peer =
  | { readonly kind: "found"; readonly directory: string }
  | { readonly kind: "absent" | "broken"; readonly reason: string };

let peer: Peer | undefined;

/**
 * Returns a directory with the reference plugins `bridge` and `host-local`: DRAWBRIDGE_PEER_DIR, else the one in the
 * user's cache, which `go install` fills when there is a Go toolchain. Where that fails, an older version in the cache
 * is used.
 *
 * @returns undefined when there is none and none can be built; {@link peerAdvice} says what to do then
 */
export function peerDirectory(): string | undefined {
  peer ??= findPeer();
  return peer.kind === "found" ? peer.directory : undefined;
}

/** Returns a sentence that says why {@link peerDirectory} has found no plugins, and how to get them. */
export function peerAdvice(): string {
  peer ??= findPeer();
  return peer.kind === "found" ? `the reference plugins are in ${peer.directory}` : peer.reason;
}

/**
 * Returns the directory of {@link peerDirectory}; without it skips the test, or in a `before` hook every test of the
 * suite.
 *
 * A machine without Go may skip this even in continuous integration: comparing with Go needs foreign programs, not a
 * privilege, and Drawbridge itself is tested without them. With DRAWBRIDGE_REQUIRE_KERNEL=1 the plugins that exist have
 * to work.
 *
 * @throws Error instead of skipping, when DRAWBRIDGE_REQUIRE_KERNEL is 1 and a build by Go fails or DRAWBRIDGE_PEER_DIR
 * names a directory without the plugins; always when they are not all of one of the {@link PEER_VERSIONS}
 */
export function requirePeer(context: Mocha.Context): string {
  peer ??= findPeer();
  if (peer.kind === "found") return withVersion(peer.directory);
  if (peer.kind === "broken" && process.env["DRAWBRIDGE_REQUIRE_KERNEL"] === "1") throw new Error(peer.reason);
  return skip(context, peer.reason);
}

/**
 * Returns the directory of {@link peerDirectory} when it holds these plugins, or can be filled with them; undefined
 * otherwise.
 */
export function peerPlugins(names: readonly string[]): string | undefined {
  const directory = peerDirectory();
  if (directory === undefined) return undefined;
  const hasAll = (): boolean => names.every((name) => existsSync(path.join(directory, name)));
  if (hasAll()) return directory;
  const built = process.env["DRAWBRIDGE_PEER_DIR"] ? undefined : build(directory);
  return built?.kind === "found" && hasAll() ? directory : undefined;
}

function withVersion(directory: string): string {
  const versions = NEEDED.map((name) => peerVersion(path.join(directory, name)));
  const refusal = peerRefusal(versions);
  if (refusal !== undefined) throw new Error(`${directory}: ${refusal}`);
  return directory;
}

/**
 * Returns why plugins cannot be used as the reference plugins: they are of different versions, or of one that we do not
 * compare with.
 *
 * @param versions of the plugins, as {@link peerVersion} returns them
 * @returns undefined when they can be used
 */
export function peerRefusal(versions: readonly (string | undefined)[]): string | undefined {
  const distinct = [...new Set(versions)];
  if (distinct.length === 1 && PEER_VERSIONS.some((accepted) => accepted === distinct[0])) return undefined;
  const found = distinct.map((version) => version ?? "unknown").join(" and ");
  return `reference plugins of version ${found}; expected all of ${PEER_VERSIONS.join(", or all of ")}`;
}

/**
 * Returns the version of a Go program: that of its main module, from the build information that every Go linker embeds.
 *
 * @returns "1.9.1", or undefined when the file has no build information or was built from a working copy
 */
export function peerVersion(file: string): string | undefined {
  const modules = buildInformation(readFileSync(file));
  const version = /^mod\t\S+\tv(?<version>\S+)/m.exec(modules ?? "")?.groups?.["version"];
  return version === "(devel)" ? undefined : version;
}

const MAGIC = Buffer.from("\xff Go buildinf:", "latin1");
const HEADER_SIZE = 32;
const FLAGS_OFFSET = 15;
const FLAG_INLINE_STRINGS = 2;
/** The size of the two markers between which the module text stands. */
const MARKER_SIZE = 16;

/**
 * Returns the module text of a Go program as `go version -m` prints it, found in the same way (Go's debug/buildinfo,
 * the layout since Go 1.18): a magic string, 32 bytes of header, then the Go version and the module text, each preceded
 * by its length.
 *
 * @returns undefined for any other file
 */
export function buildInformation(program: Uint8Array): string | undefined {
  const bytes = Buffer.from(program.buffer, program.byteOffset, program.byteLength);
  const start = bytes.indexOf(MAGIC);
  if (start < 0 || ((bytes[start + FLAGS_OFFSET] ?? 0) & FLAG_INLINE_STRINGS) === 0) return undefined;
  const goVersion = lengthPrefixed(bytes, start + HEADER_SIZE);
  const modules = goVersion && lengthPrefixed(bytes, goVersion.end);
  return modules?.text.subarray(MARKER_SIZE, -MARKER_SIZE).toString("utf8");
}

/** Reads bytes that follow their length, which is a varint (base 128, low group first). */
function lengthPrefixed(bytes: Buffer, start: number): { readonly text: Buffer; readonly end: number } | undefined {
  let length = 0;
  for (let i = 0; i < 4; i++) {
    const byte = bytes[start + i];
    if (byte === undefined) return undefined;
    length += (byte & 0x7f) * 128 ** i;
    if ((byte & 0x80) !== 0) continue;
    const end = start + i + 1 + length;
    return end > bytes.length ? undefined : { text: bytes.subarray(start + i + 1, end), end };
  }
  return undefined;
}

function findPeer(): Peer {
  const given = process.env["DRAWBRIDGE_PEER_DIR"];
  if (given !== undefined && given !== "") {
    if (isComplete(given)) return { kind: "found", directory: given };
    return { kind: "broken", reason: `DRAWBRIDGE_PEER_DIR: ${given} does not hold ${NEEDED.join(" and ")}` };
  }
  const [built = "", ...others] = PEER_VERSIONS.map(cacheDirectory);
  if (isComplete(built)) return { kind: "found", directory: built };
  const made = build(built);
  const other = others.find(isComplete);
  return made.kind !== "found" && other !== undefined ? { kind: "found", directory: other } : made;
}

function isComplete(directory: string): boolean {
  return NEEDED.every((name) => existsSync(path.join(directory, name)));
}

function cacheDirectory(version: string): string {
  return path.join(CACHE, `cni-plugins-${version}`);
}

function build(directory: string): Peer {
  if (!hasGo()) {
    return {
      kind: "absent",
      reason:
        `this machine has no Go to build the reference plugins ${BUILT_VERSION} for comparison: install Go, ` +
        `or put ${NEEDED.join(" and ")} into a directory and name it in DRAWBRIDGE_PEER_DIR`,
    };
  }
  process.stderr.write(`building the reference plugins ${BUILT_VERSION} into ${directory}\n`);
  const packages = PACKAGES.map((name) => `${MODULE}/${name}@v${BUILT_VERSION}`);
  const failure = goInstall(directory, packages);
  if (failure === undefined && isComplete(directory)) return { kind: "found", directory };
  const words = failure ?? "it made no program";
  return { kind: "broken", reason: `the reference plugins ${BUILT_VERSION} could not be built: go install: ${words}` };
}
