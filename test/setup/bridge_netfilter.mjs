import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { say } from "./failure.mjs";

/** The directory that exists if the module br_netfilter is loaded, or built in. */
const SETTINGS = "/proc/sys/net/bridge";

/**
 * Makes sure that bridged frames can pass the IP hooks, as they do on most cluster nodes: loads br_netfilter when root.
 * Without it, the tests and measurements of that state are skipped with this reason, so nothing fails here.
 */
export function loadBridgeNetfilter() {
  if (existsSync(SETTINGS) || process.getuid?.() !== 0) return;
  const PATH = `${process.env["PATH"] ?? ""}:/usr/sbin:/sbin`;
  const { stderr, error } = spawnSync("modprobe", ["br_netfilter"], {
    env: { ...process.env, PATH, LC_ALL: "C" },
    stdio: ["ignore", "ignore", "pipe"],
    encoding: "utf8",
  });
  if (existsSync(SETTINGS)) {
    return say(
      "loaded the kernel module br_netfilter, whose two states are compared; it stays loaded (`modprobe -r br_netfilter` removes it)",
    );
  }
  const problem = error === undefined ? stderr.trim().split("\n")[0] : "modprobe is missing: Debian package kmod";
  say(`br_netfilter is not loaded and modprobe failed (${problem}): its state "on" will be skipped`);
}
