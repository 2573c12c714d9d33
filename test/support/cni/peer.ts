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

/** The packages of the plugin that Drawbridge replaces, and of its IPAM plugin. */
const PACKAGES = ["plugins/main/bridge", "plugins/ipam/host-local"];
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
 * Returns the version of a reference plugin, which stands in the text about its main module that every Go linker embeds.
 *
 * @returns "1.9.1", or undefined when the file has no such text or was built from a working copy
 */
export function peerVersion(file: string): string | undefined {
  const program = readFileSync(file, "latin1");
  return new RegExp(`\\nmod\\t${MODULE}\\tv(?<version>[0-9.]+)\\t`).exec(program)?.groups?.["version"];
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
