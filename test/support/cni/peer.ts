import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import type Mocha from "mocha";
import { CACHE, goInstall, hasGo } from "../programs/go.ts";
import { skip } from "../privilege.ts";

/** The version of the reference plugins that comparisons and the benchmark accept, and that is built. */
export const PEER_VERSION = "1.10.0";

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
 * user's cache, which `go install` fills when there is a Go toolchain.
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
 * names a directory without the plugins; always when they are not all of {@link PEER_VERSION}
 */
export function requirePeer(context: Mocha.Context): string {
  peer ??= findPeer();
  if (peer.kind === "found") return withVersion(peer.directory);
  if (peer.kind === "broken" && process.env["DRAWBRIDGE_REQUIRE_KERNEL"] === "1") throw new Error(peer.reason);
  return skip(context, peer.reason);
}

function withVersion(directory: string): string {
  const refusal = peerRefusal(directory);
  if (refusal !== undefined) throw new Error(`${directory}: ${refusal}`);
  return directory;
}

/**
 * Returns why the plugins in a directory cannot be used as the reference plugins: they are of a version that we do not
 * compare with. The version stands in the text about its main module that every Go linker embeds.
 *
 * @returns undefined when they can be used
 */
export function peerRefusal(directory: string): string | undefined {
  const version = new RegExp(`\\nmod\\t${MODULE}\\tv(?<version>[0-9.]+)\\t`);
  for (const name of NEEDED) {
    const found = version.exec(readFileSync(path.join(directory, name), "latin1"))?.groups?.["version"];
    if (found !== PEER_VERSION)
      return `reference plugin ${name} of version ${found ?? "unknown"}; expected ${PEER_VERSION}`;
  }
  return undefined;
}

function findPeer(): Peer {
  const given = process.env["DRAWBRIDGE_PEER_DIR"];
  if (given !== undefined && given !== "") {
    if (isComplete(given)) return { kind: "found", directory: given };
    return { kind: "broken", reason: `DRAWBRIDGE_PEER_DIR: ${given} does not hold ${NEEDED.join(" and ")}` };
  }
  const built = path.join(CACHE, `cni-plugins-${PEER_VERSION}`);
  return isComplete(built) ? { kind: "found", directory: built } : build(built);
}

function isComplete(directory: string): boolean {
  return NEEDED.every((name) => existsSync(path.join(directory, name)));
}

function build(directory: string): Peer {
  if (!hasGo()) {
    return {
      kind: "absent",
      reason:
        `this machine has no Go to build the reference plugins ${PEER_VERSION} for comparison: install Go, ` +
        `or put ${NEEDED.join(" and ")} into a directory and name it in DRAWBRIDGE_PEER_DIR`,
    };
  }
  process.stderr.write(`building the reference plugins ${PEER_VERSION} into ${directory}\n`);
  const packages = PACKAGES.map((name) => `${MODULE}/${name}@v${PEER_VERSION}`);
  const failure = goInstall(directory, packages);
  if (failure === undefined && isComplete(directory)) return { kind: "found", directory };
  const words = failure ?? "it made no program";
  return { kind: "broken", reason: `the reference plugins ${PEER_VERSION} could not be built: go install: ${words}` };
}
