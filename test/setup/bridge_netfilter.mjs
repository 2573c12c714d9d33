import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { say } from "./failure.mjs";

/** The directory that exists if the module br_netfilter is loaded, or built in. */
const SETTINGS = "/proc/sys/net/bridge";

/**
 * Makes sure that bridged frames can pass the IP hooks, as they do on most cluster nodes: loads br_netfilter when root.
 * Without it, the tests and measurements of that state are skipped with this reason, so nothing fails here.
 *
 * @param {{ isLoaded: () => boolean, isRoot: boolean, load: () => string | undefined }} machine `load` returns the
 *   problem, if any
 * @returns {string | undefined} the line to print; undefined when nothing is to be printed
 */
export function ensureBridgeNetfilter(machine) {
  if (machine.isLoaded()) return undefined;
  if (!machine.isRoot) return undefined;
  const problem = machine.load();
  if (machine.isLoaded())
    return "loaded the kernel module br_netfilter, whose two states are compared; it stays loaded (`modprobe -r br_netfilter` removes it)";
  return `br_netfilter is not loaded and modprobe failed (${problem ?? "no reason given"}): its state "on" will be skipped`;
}

/** Runs {@link ensureBridgeNetfilter} on this machine. */
export function loadBridgeNetfilter() {
  const line = ensureBridgeNetfilter({
    isLoaded: () => existsSync(SETTINGS),
    isRoot: process.getuid?.() === 0,
    load: () => {
      const PATH = `${process.env["PATH"] ?? ""}:/usr/sbin:/sbin`;
      const { status, stderr, error } = spawnSync("modprobe", ["br_netfilter"], {
        env: { ...process.env, PATH, LC_ALL: "C" },
        stdio: ["ignore", "ignore", "pipe"],
        encoding: "utf8",
      });
      if (error !== undefined) return "modprobe is missing: Debian package kmod";
      return status === 0 ? undefined : stderr.trim().split("\n")[0];
    },
  });
  if (line !== undefined) say(line);
}
