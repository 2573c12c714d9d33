import { existsSync, readFileSync } from "node:fs";
import process from "node:process";
import Mocha from "mocha";
import { titleWithReason } from "../run/result.ts";

/** The capabilities for links, addresses and routes, and for namespaces and mounts (linux/capability.h). */
const NEEDED_CAPABILITIES = [
  { name: "CAP_NET_ADMIN", bit: 12n },
  { name: "CAP_SYS_ADMIN", bit: 21n },
];

/**
 * Skips the test, or in a `before` hook every test of the suite, when this process may not make network namespaces, and
 * appends the reason to the titles. Call it first in the test or hook: `requireKernel(this)`.
 *
 * With DRAWBRIDGE_REQUIRE_KERNEL=1 nothing is skipped: continuous integration as root has to run these tests.
 *
 * @throws Error instead of skipping, when DRAWBRIDGE_REQUIRE_KERNEL is 1
 */
export function requireKernel(context: Mocha.Context): void {
  refuse(context, kernelObstacle());
}

/**
 * Skips like {@link requireKernel} tests that need bridged frames to pass the IP hooks, when br_netfilter is not
 * loaded. The bootstrap loads the module (test/setup/bridge_netfilter.mjs).
 *
 * @throws Error instead of skipping, when DRAWBRIDGE_REQUIRE_KERNEL is 1
 */
export function requireBridgeNetfilter(context: Mocha.Context): void {
  const isLoaded = existsSync("/proc/sys/net/bridge");
  refuse(context, isLoaded ? undefined : "br_netfilter is not loaded: run `modprobe br_netfilter` as root");
}

/**
 * Skips like {@link requireKernel} when a program is missing that the bootstrap installs as root
 * (test/setup/debian.mjs).
 *
 * @throws Error instead of skipping, when DRAWBRIDGE_REQUIRE_KERNEL is 1
 */
export function requireProgram(context: Mocha.Context, program: string): void {
  const directories = (process.env["PATH"] ?? "").split(":");
  const isThere = directories.some((directory) => existsSync(`${directory}/${program}`));
  refuse(context, isThere ? undefined : `${program} is not installed: as root the tests install it`);
}

function refuse(context: Mocha.Context, reason: string | undefined): void {
  if (reason === undefined) return;
  if (process.env["DRAWBRIDGE_REQUIRE_KERNEL"] === "1") {
    throw new Error(`DRAWBRIDGE_REQUIRE_KERNEL=1 forbids to skip this test, but it cannot run: ${reason}`);
  }
  skip(context, reason);
}

/**
 * Skips the running test, or the tests that a hook belongs to, and appends the reason to their titles.
 *
 * Mocha ends the test or hook by an exception, so this does not return.
 */
export function skip(context: Mocha.Context, reason: string): never {
  const runnable = context.runnable();
  if (runnable instanceof Mocha.Hook) {
    const isEach = runnable.title.startsWith('"before each"');
    if (isEach && context.currentTest !== undefined) appendReason(context.currentTest, reason);
    else runnable.parent?.eachTest((test) => appendReason(test, reason));
  } else {
    appendReason(runnable, reason);
  }
  return context.skip();
}

/** Returns why this process cannot run kernel tests; undefined when it can. */
export function kernelObstacle(): string | undefined {
  const digits = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? "0";
  const capabilities = BigInt(`0x${digits}`);
  const lacking = NEEDED_CAPABILITIES.filter(({ bit }) => ((capabilities >> bit) & 1n) === 0n).map(({ name }) => name);
  if (lacking.length === 0) return undefined;
  const lack = `no ${lacking.join(" and no ")}`;
  return process.geteuid?.() === 0
    ? `root, but ${lack}: a container needs --privileged`
    : `not root (${lack}): run as root`;
}

function appendReason(test: { title: string }, reason: string): void {
  test.title = titleWithReason(test.title, reason);
}
