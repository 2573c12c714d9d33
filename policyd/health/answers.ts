import type { Condition } from "../component.ts";
import type { HealthAnswer } from "../services/health_check/health_check.ts";

/** The state of this node for a cloud's load balancers. */
export interface NodeHealth {
  /** Whether the rules match the objects, or have not for less than two sync periods. */
  readonly isHealthy: boolean;
  /** Whether the node should get new connections. */
  readonly isEligible: boolean;
  /** When the rules were last in force, in milliseconds since the epoch; undefined if never. */
  readonly lastUpdated: number | undefined;
}

/** The wording of the API server. */
const REASON_WITHHELD = "reason withheld";

/**
 * Returns the answer of `/healthz`, byte for byte as in kube-proxy (healthzHandler of
 * pkg/proxy/healthcheck/proxy_health.go): for a healthy node `lastUpdated` is now.
 *
 * @param now milliseconds since the epoch
 */
export function healthzAnswer({ isHealthy, isEligible, lastUpdated }: NodeHealth, now: number): HealthAnswer {
  const isWell = isHealthy && isEligible;
  const [updated, current] = [isWell ? now : lastUpdated, now].map((time) => JSON.stringify(goTime(time)));
  return {
    status: isWell ? 200 : 503,
    headers: { "Content-Type": "application/json", "X-Content-Type-Options": "nosniff" },
    body: `{"lastUpdated": ${updated},"currentTime": ${current}, "nodeEligible": ${isEligible}}`,
  };
}

/**
 * Returns the answer of `/livez` or `/readyz`: "ok", or 503 with a line for each condition, as Kubernetes components
 * do. The problems of the status follow; they change nothing else (DOCTOR-18).
 *
 * @param isTrusted whether to include reasons and problems, which contain paths of the node and errors of the kernel
 */
export function conditionsAnswer(
  path: "livez" | "readyz",
  conditions: readonly Condition[],
  isTrusted: boolean,
  problems: () => readonly string[] = () => [],
): HealthAnswer {
  const found = conditions.map(({ name, missing }) => ({ name, reason: missing() }));
  const isWell = found.every(({ reason }) => reason === undefined);
  const lines = found.map(({ name, reason }) => {
    if (reason === undefined) return `[+]${name} ok`;
    return `[-]${name}: ${isTrusted ? reason : REASON_WITHHELD}`;
  });
  const body = isWell ? "ok" : `${lines.join("\n")}\n${path} check failed\n`;
  // Computed for trusted clients only: a tenant's objects may have tens of thousands of problems.
  const notes = isTrusted ? problems().map((one) => `[!]${one}\n`) : [];
  return text(isWell ? 200 : 503, `${body}${isWell && notes.length > 0 ? "\n" : ""}${notes.join("")}`);
}

/** Returns the answer for an unknown path. */
export function unknownPath(known: readonly string[]): HealthAnswer {
  return text(404, `expected ${known.join(", ")}\n`);
}

function text(status: HealthAnswer["status"], body: string): HealthAnswer {
  const headers = { "Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff" };
  return { status, headers, body };
}

/** Formats a time as Go does (time.Time.String), without trailing zeros; Go's zero time for undefined. */
function goTime(milliseconds: number | undefined): string {
  if (milliseconds === undefined) return "0001-01-01 00:00:00 +0000 UTC";
  const [day = "", time = ""] = new Date(milliseconds).toISOString().replace("Z", "").split("T");
  return `${day} ${time.replace(/\.?0+$/, (end) => (time.includes(".") ? "" : end))} +0000 UTC`;
}
