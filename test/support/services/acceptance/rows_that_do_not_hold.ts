import type { Row } from "./row.ts";

function row(says: string, rest: Pick<Row, "probes" | "further">): Row {
  return { id: says, behaviours: "", says, ...rest };
}

/** Rows that are wrong, one of each kind, which the measurement and the comparison must notice. */
export const ROWS_THAT_DO_NOT_HOLD: readonly Row[] = [
  row("another source", {
    probes: [{ from: ["P1"], to: "redis:6379", times: 24, reaches: { "redis-1": "n1", "redis-2": "n1" } }],
  }),
  row("another endpoint", { probes: [{ from: ["P1"], to: "redis-nodeport:6379", reaches: { "np-2": "sender" } }] }),
  row("one endpoint too many", {
    probes: [{ from: ["P1"], to: "redis-nodeport:6379", reaches: { "np-1": "sender", "np-2": "sender" } }],
  }),
  row("a refusal where there is an endpoint", {
    probes: [{ from: ["P1"], to: "redis-externalip:6379", fails: "refused" }],
  }),
  row("silence where there is a refusal", {
    probes: [{ from: ["P1"], to: "redis-none:6379", fails: "no local endpoint" }],
  }),
  row("nobody where there is a refusal", { probes: [{ from: ["P1"], to: "redis-none:6379", fails: "nobody" }] }),
  row("nothing for a pod on the wire", { further: [{ type: "never sent", to: "np-1:6379" }] }),
  row("one client that differs", {
    probes: [{ from: ["P1"], to: "redis-nodeport:6379", reaches: { "np-1": "sender" } }],
    further: [{ type: "clients differ" }],
  }),
  row("no listener where there is one", { further: [{ type: "nothing listens", on: "n2", port: 30_001 }] }),
  row("no rule for a Service that has some", {
    further: [{ type: "not in the tables", service: "redis-none", endpoint: "redis-3" }],
  }),
  row("no map for an endpoint that is in one", {
    further: [{ type: "not in the tables", service: "redis-headless", endpoint: "redis-1" }],
  }),
  row("no translation of a Service that has one", { further: [{ type: "no translation", service: "redis" }] }),
];
