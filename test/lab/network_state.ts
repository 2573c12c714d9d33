import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";

/** The state of a network namespace, in texts that change only with the configuration. */
export interface NetworkState {
  readonly links: string;
  readonly addresses: string;
  readonly routes: string;
  /** The rules that choose a table of routes. */
  readonly rules: string;
  /** Entries that a program has set, without those that the kernel learns and removes by itself. */
  readonly neighbours: string;
  readonly forwarding: string;
  readonly queueing: string;
  /** nftables, without counters. */
  readonly ruleset: string;
  readonly settings: ReadonlyMap<string, string>;
}

const SETTINGS = ["/proc/sys/net/ipv4", "/proc/sys/net/ipv6", "/proc/sys/net/bridge"];
/** All settings of the network, including those of modules, which appear when any program of the machine loads one. */
export const ALL_SETTINGS: readonly string[] = ["/proc/sys/net"];
/** Counters are not settings. */
const COUNTS = /\/nf_conntrack_count$/;

/** Reads the state of the namespace this thread is in. @param settings the directories of the settings that count */
export function networkState(settings: readonly string[] = SETTINGS): NetworkState {
  return {
    links: ip("-d", "-o", "link").replaceAll(/_timer +[\d.]+/g, "_timer"),
    addresses: ip("-o", "address").replaceAll(/(valid|preferred)_lft \d+sec/g, ""),
    routes:
      ip("route", "show", "table", "all") + ip("-6", "route", "show", "table", "all").replaceAll(/expires \d+sec/g, ""),
    rules: ip("rule") + ip("-6", "rule"),
    neighbours: ip("neighbour", "show", "nud", "permanent") + ip("neighbour", "show", "proxy"),
    forwarding: run("bridge", "fdb", "show", "state", "permanent"),
    queueing: run("tc", "qdisc", "show"),
    ruleset: run("nft", "--stateless", "list", "ruleset"),
    settings: new Map(settings.flatMap(settingsBelow)),
  };
}

function ip(...args: readonly string[]): string {
  return run("ip", ...args);
}

function run(program: string, ...args: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync(program, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")}: ${error?.message ?? stderr}`);
  return stdout;
}

function settingsBelow(directory: string): readonly (readonly [string, string])[] {
  let entries;
  try {
    entries = readdirSync(directory, { recursive: true, withFileTypes: true });
  } catch {
    return [];
  }
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .filter((file) => !COUNTS.test(file))
    .flatMap((file) => {
      try {
        return [[file, readFileSync(file, "latin1")] as const];
      } catch {
        // Write-only settings, and secrets that are not set.
        return [];
      }
    });
}
