/** The protocols of a Service, an endpoint and a policy; the default is TCP. */
export const PROTOCOLS = ["TCP", "UDP", "SCTP"] as const;
