import type { Service } from "../cluster/model.ts";
import type { CompiledService, TrafficPolicy } from "../services/compile/compile_service.ts";
import type { ServiceObserver } from "../services/service_observer.ts";
import { countedPorts } from "./counted_ports.ts";
import type { NodeCounters } from "./node_counters.ts";

/** What the metrics tell of all Services together. */
export interface ServiceTotals {
  /** Addresses of endpoints that nobody can have. */
  readonly ignoredEndpoints: number;
  /** Services that drop, by the traffic policy for which they want a local endpoint. */
  readonly withoutLocal: Readonly<Record<TrafficPolicy, number>>;
  /** Addresses with ports that Services claim and do not get. */
  readonly refused: number;
}

/** Keeps what the metrics tell of Services, and tells the counters whose each port is. */
export class ServiceMetrics implements ServiceObserver {
  readonly #counters: Pick<NodeCounters, "claim">;
  readonly #ignored = new Map<string, number>();
  readonly #refused = new Map<string, number>();
  readonly #withoutLocal = new Map<string, CompiledService["withoutLocal"]>();

  constructor(counters: Pick<NodeCounters, "claim">) {
    this.#counters = counters;
  }

  compiled(service: Service, { served, ignoredEndpoints, withoutLocal, refused }: CompiledService): void {
    const { key } = service;
    setUnless(this.#ignored, key, ignoredEndpoints.length, ignoredEndpoints.length === 0);
    setUnless(this.#refused, key, refused.length, refused.length === 0);
    setUnless(this.#withoutLocal, key, withoutLocal, withoutLocal.size === 0);
    this.#counters.claim(key, () => countedPorts(service, served));
  }

  removed(key: string): void {
    this.#ignored.delete(key);
    this.#withoutLocal.delete(key);
    this.#refused.delete(key);
    this.#counters.claim(key, () => []);
  }

  totals(): ServiceTotals {
    const policies = [...this.#withoutLocal.values()];
    const lacking = (policy: TrafficPolicy): number => policies.filter((some) => some.has(policy)).length;
    return {
      ignoredEndpoints: sumOf(this.#ignored.values()),
      refused: sumOf(this.#refused.values()),
      withoutLocal: { internal: lacking("internal"), external: lacking("external") },
    };
  }
}

function sumOf(counts: Iterable<number>): number {
  return [...counts].reduce((sum, count) => sum + count, 0);
}

function setUnless<V>(map: Map<string, V>, key: string, value: V, isNothing: boolean): void {
  if (isNothing) map.delete(key);
  else map.set(key, value);
}
