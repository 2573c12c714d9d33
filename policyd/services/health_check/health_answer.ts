import type { HealthCheck } from "./health_check.ts";

/** An HTTP answer without a connection. */
export interface HealthAnswer {
  readonly status: 200 | 404 | 503;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/**
 * What a load balancer is told about a Service, byte for byte as kube-proxy does it (ServeHTTP of
 * pkg/proxy/healthcheck/service_health.go): indented by tabs, without a newline at the end.
 *
 * @param localEndpoints how many there are, of the family the balancer asks by
 * @param isProxyHealthy whether what is in force is what is wanted
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
