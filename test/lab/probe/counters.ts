import { readFileSync } from "node:fs";
import type { LabNamespace } from "../namespace.ts";

/** A namespace's counters of ICMP redirects since it was made, for both families together. */
export interface RedirectCounters {
  /** Redirects received, followed or not. */
  readonly received: number;
  readonly sent: number;
}

/** Reads the redirect counters (RFC 2011 icmpInRedirects, RFC 2466 ipv6IfIcmpInRedirects). */
export function redirectCounters(namespace: LabNamespace): RedirectCounters {
  const [v4, v6] = namespace.inside(() =>
    // "thread-self": /proc/net belongs to the process's main thread, which is this one only by chance.
    ["snmp", "snmp6"].map((file) => readFileSync(`/proc/thread-self/net/${file}`, "latin1")),
  );
  const icmp = parseSnmp(v4 ?? "", "Icmp");
  const icmp6 = parseSnmp6(v6 ?? "");
  return {
    received: (icmp.get("InRedirects") ?? 0) + (icmp6.get("Icmp6InRedirects") ?? 0),
    sent: (icmp.get("OutRedirects") ?? 0) + (icmp6.get("Icmp6OutRedirects") ?? 0),
  };
}

/**
 * Returns the exceptions in a namespace's routing caches, as `ip route show cache` prints them: a followed redirect is
 * one.
 *
 * @returns one line each, without indented continuation lines; empty when there are none
 */
export function routeExceptions(namespace: LabNamespace): readonly string[] {
  return ["-4", "-6"].flatMap((family) =>
    namespace
      .exec("ip", [family, "route", "show", "cache"])
      .split("\n")
      .filter((line) => line !== "" && !/^\s/.test(line)),
  );
}

/**
 * Reads the counters of one section of /proc/net/snmp: a line of names, then a line of values, both with its prefix.
 */
export function parseSnmp(text: string, section: string): ReadonlyMap<string, number> {
  const [names = [], values = []] = text
    .split("\n")
    .filter((line) => line.startsWith(`${section}: `))
    .map((line) => line.split(" ").slice(1));
  return new Map(names.map((name, i) => [name, Number(values[i] ?? 0)]));
}

/** Reads the counters of /proc/net/snmp6: a name and a value per line. */
export function parseSnmp6(text: string): ReadonlyMap<string, number> {
  return new Map(
    text
      .split("\n")
      .map((line) => line.trim().split(/\s+/))
      .map(([name = "", value = "0"]) => [name, Number(value)]),
  );
}
