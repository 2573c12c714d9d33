import type { Remark, Severity } from "./check.ts";

/** Problems that the daemon finds by its own run of the doctor's checks. */
export const EXAMINED = [
  "clock",
  "conntrack",
  "foreign-drops",
  "kernel-features",
  "kernel-version",
  "kube-proxy",
  "tunnel",
] as const;

/** Problems that a component of the daemon sees when they come. */
const FOLLOWED = [
  "addresses",
  "attachments",
  "cni-configuration",
  "cni-plugin",
  "former-plugin",
  "forwarding",
  "ipv6",
  "node-state",
  "pod-networks",
  "redirects",
  "reverse-path",
  "routes",
  "tables",
] as const;

/** No status can tell that the daemon does not answer, and only packets of the doctor show where they are lost. */
const UNANSWERED = ["daemon", "probe"] as const;

/**
 * The problems of a node, each with the code that begins its line in the daemon's status (DOCTOR-18). Status, the text
 * of `/readyz` and `node doctor` tell the same ones: the doctor has a check of each code and passes on the lines of the
 * status, and each error that it finds by itself is in this list.
 */
export const PROBLEM_CODES = [...EXAMINED, ...FOLLOWED, ...UNANSWERED] as const;

export type ProblemCode = (typeof PROBLEM_CODES)[number];
export type ExaminedCode = (typeof EXAMINED)[number];

/** The problems that by themselves cut no pod off. */
const WARNINGS: readonly (ProblemCode | undefined)[] = ["kube-proxy", "redirects", "reverse-path", undefined];

/** Returns how severe a line of the status is, by its code. */
export function severityOf(code: ProblemCode | undefined): Severity {
  return WARNINGS.includes(code) ? "warning" : "error";
}

/** Returns the line of the status about a problem. */
export function problemLine(code: ProblemCode, text: string): string {
  return `${code}: ${text}`;
}

/** Returns what a check has found in one line. */
export function remarkText({ what, why, way }: Remark): string {
  return `${what}: ${why}; way out: ${way}`;
}

const BY_TEXT: ReadonlyMap<string, ProblemCode> = new Map(PROBLEM_CODES.map((code) => [code, code]));

/** Returns the code of a line of the status; undefined where a part of an object is not used, and for notes. */
export function codeOf(line: string): ProblemCode | undefined {
  return BY_TEXT.get(line.split(": ", 1)[0] ?? "");
}
