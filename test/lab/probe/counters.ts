import { readFileSync } from "node:fs";
import type { LabNamespace } from "../namespace.ts";

/**
 * Returns how many ICMP redirects a namespace has received since it was made, followed or not, in both families together
 * (RFC 2011 icmpInRedirects, RFC 2466 ipv6IfIcmpInRedirects).
 */
export function receivedRedirects(namespace: LabNamespace): number {
  const [v4 = "", v6 = ""] = namespace.inside(() =>
    // "thread-self": /proc/net belongs to the process's main thread, which is this one only by chance.
    ["snmp", "snmp6"].map((file) => readFileSync(`/proc/thread-self/net/${file}`, "latin1")),
  );
  return (parseSnmp(v4, "Icmp").get("InRedirects") ?? 0) + (parseSnmp6(v6).get("Icmp6InRedirects") ?? 0);
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
