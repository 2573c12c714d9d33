import type { BudgetBounds } from "./lib/budget.ts";

// These bounds are about all namespaces of a cluster together, on one node: docs/limits.md has the table.

/** Sockets at which health checks of load balancers are answered: a Service needs one for each family. */
export const HEALTH_CHECK_SOCKETS: BudgetBounds = { share: 16, pool: 2048 };
