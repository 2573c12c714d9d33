/** The protocols of a Service, an endpoint and a policy; TCP where none is given. */
export const PROTOCOLS = ["TCP", "UDP", "SCTP"] as const;
