import type { Labels } from "../../objects/model.ts";
import { SEVERITIES, type Severity } from "../../policyd/problems/check.ts";
import type { Style } from "../io.ts";

/** Returns the protocol and port of connections: `80/TCP`, `ICMP`. */
export function trafficText({
  protocol,
  port,
}: {
  readonly protocol: string;
  readonly port?: number | undefined;
}): string {
  return port === undefined ? protocol : `${port}/${protocol}`;
}

/** Returns a moment, in milliseconds since 1970, in UTC and to the second: `2026-01-02 03:04:05`. */
export function timeText(milliseconds: number): string {
  return new Date(milliseconds).toISOString().replace("T", " ").slice(0, 19);
}

/** Returns a number with its noun: `1 pod`, `2 pods`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** Returns the severity of a finding, coloured. */
export function severityText(severity: Severity, style: Style): string {
  if (severity === "error") return style.bad(severity);
  return severity === "warning" ? style.strong(severity) : severity;
}

/** Returns how many findings have each severity: `1 error, 0 warnings, 2 info`. */
export function findingsText(findings: readonly { readonly severity: Severity }[]): string {
  const counts = SEVERITIES.map((severity) => {
    const { length } = findings.filter((one) => one.severity === severity);
    return severity === "info" ? `${length} ${severity}` : counted(length, severity);
  });
  return findings.length === 0 ? "no findings" : counts.join(", ");
}

/** Returns labels as kubectl takes them: `app=web,tier=front`. */
export function labelsText(labels: Labels): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
}

/** Compares texts by their code units, for sorting. */
export function compareTexts(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** Returns a text that only equal values share. IPv6 addresses are big integers, which JSON does not have. */
export function contentText(value: unknown): string {
  return JSON.stringify(value, (_, one: unknown) => (typeof one === "bigint" ? `${one}n` : one)) ?? "";
}
