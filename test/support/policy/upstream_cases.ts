import type { UpstreamCase } from "./upstream_case.ts";
import { PORT_CASES } from "./upstream_port_cases.ts";
import { SELECTOR_CASES } from "./upstream_selector_cases.ts";

/** Upstream's cases 1 to 48; 49 and 50 are about the API server and are among the gate's tests. */
export const UPSTREAM_CASES: readonly UpstreamCase[] = [...SELECTOR_CASES, ...PORT_CASES].toSorted(
  (a, b) => a.number - b.number,
);
