import type { HealthAnswer } from "../services/health_check/health_answer.ts";

/** What the cloud's load balancers are told about this node. */
export interface NodeHealth {
  /** Whether the kernel does what the objects say, or has lacked it for less than two periods of verification. */
  readonly isHealthy: boolean;
  /** Whether the node is to get new connections. */
  readonly isEligible: boolean;
  /** When the rules were last in force, in milliseconds since the epoch; undefined for never. */
  readonly lastUpdated: number | undefined;
}

/** As the API server says it. */
const REASON_WITHHELD = "reason withheld";

/** One thing that has to be so; `missing` says what is not, undefined where all is well. */
export interface Condition {
  readonly name: string;
  readonly missing: () => string | undefined;
}

/**
 * `/healthz`, byte for byte as kube-proxy has it (healthzHandler of pkg/proxy/healthcheck/proxy_health.go): of a healthy
 * node `lastUpdated` is now.
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
 * `/livez` and `/readyz`: "ok", or 503 with a line for each condition, as the components of Kubernetes say it.
 *
 * @param isTrusted whether reasons are told: they have paths of the node and errors of the kernel in them
 */
export function conditionsAnswer(
  path: "livez" | "readyz",
  conditions: readonly Condition[],
  isTrusted: boolean,
): HealthAnswer {
  const found = conditions.map(({ name, missing }) => ({ name, reason: missing() }));
  const isWell = found.every(({ reason }) => reason === undefined);
  const lines = found.map(({ name, reason }) => {
    if (reason === undefined) return `[+]${name} ok`;
    return `[-]${name}: ${isTrusted ? reason : REASON_WITHHELD}`;
  });
  return text(isWell ? 200 : 503, isWell ? "ok" : `${lines.join("\n")}\n${path} check failed\n`);
}

/** For a path that is none of ours. */
export function unknownPath(known: readonly string[]): HealthAnswer {
  return text(404, `expected ${known.join(", ")}\n`);
}

function text(status: HealthAnswer["status"], body: string): HealthAnswer {
  const headers = { "Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff" };
  return { status, headers, body };
}

/** A time as Go prints it (time.Time.String), without trailing zeros; Go's zero time for undefined. */
function goTime(milliseconds: number | undefined): string {
  if (milliseconds === undefined) return "0001-01-01 00:00:00 +0000 UTC";
  const [day = "", time = ""] = new Date(milliseconds).toISOString().replace("Z", "").split("T");
  return `${day} ${time.replace(/\.?0+$/, (end) => (time.includes(".") ? "" : end))} +0000 UTC`;
}
