import type { HealthCheck } from "./health_check.ts";

export interface HealthAnswer {
  readonly status: 200 | 404 | 503;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/**
 * Returns the answer to a load balancer about a Service, byte for byte as kube-proxy does it (ServeHTTP of
 * pkg/proxy/healthcheck/service_health.go): indented by tabs, without a newline at the end.
 *
 * @param localEndpoints their number, in the family in which the balancer asks
 * @param isProxyHealthy whether the kernel has the desired rules
 */
export function healthAnswer(
  { namespace, name }: Pick<HealthCheck, "namespace" | "name">,
  localEndpoints: number,
  isProxyHealthy: boolean,
): HealthAnswer {
  const content = { service: { namespace, name }, localEndpoints, serviceProxyHealthy: isProxyHealthy };
  return {
    status: localEndpoints > 0 && isProxyHealthy ? 200 : 503,
    headers: {
      "Content-Type": "application/json",
      "X-Content-Type-Options": "nosniff",
      "X-Load-Balancing-Endpoint-Weight": String(localEndpoints),
    },
    body: JSON.stringify(content, undefined, "\t"),
  };
}
