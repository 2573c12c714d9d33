import type { BudgetBounds } from "./lib/budget.ts";

// These bounds are about all namespaces of a cluster together, on one node: docs/limits.md has the table.

/** Sockets at which health checks of load balancers are answered: a Service needs one for each family. */
export const HEALTH_CHECK_SOCKETS: BudgetBounds = { share: 16, pool: 2048 };

/** Series of the metrics: a rule of a NetworkPolicy in a direction has one. */
export const POLICY_SERIES: BudgetBounds = { share: 128, pool: 8192 };

/** Series of the metrics: an endpoint of a Service's port has one. */
export const ENDPOINT_SERIES: BudgetBounds = { share: 512, pool: 65_536 };

/** Elements of the sets of NetworkPolicies: pairs of an address and a port, blocks, and ports (POL-93). */
export const SET_ELEMENTS: BudgetBounds = { share: 16_384, pool: 524_288 };

/** Pairs of a selector of a NetworkPolicy and the labels of pods that it selects (POL-93). */
export const SET_SELECTIONS: BudgetBounds = { share: 32_768, pool: 524_288 };

/** Sets of the kernel for NetworkPolicies, each counted once for each namespace whose policies need it (POL-93). */
export const POLICY_SETS: BudgetBounds = { share: 256, pool: 8192, most: 4096 };

/**
 * Elements of Services in sets and maps, or if they are more, their frontends. 10,000 Services of both families with
 * three endpoints have some 120,000.
 */
export const SERVICE_ELEMENTS = { share: 8192, pool: 524_288, most: 131_072 } as const satisfies BudgetBounds;

/**
 * Ports of Services at a node's addresses with which no pod leaves. All namespaces together have 1,024, with
 * their shares. With that many spread ones the smallest of 128 shares of pods had 190 ports, of 256 92, and of 512 32.
 */
export const SERVICE_PORTS = { share: 16, all: 1024 };

/**
 * Bytes that NetworkPolicies take, some 2.3 times their text, which were deleted within the last two minutes: their
 * namespace may be about to end.
 */
export const RECENT_BYTES: BudgetBounds = { share: 2 << 20, pool: 64 << 20, most: 16 << 20 };
