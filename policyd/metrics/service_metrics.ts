import type { Service } from "../../objects/model.ts";
import type { CompiledService, TrafficPolicy } from "../services/elements/compile_service.ts";
import type { ServiceFollower } from "../services/service_follower.ts";
import { countedPorts } from "./counted_ports.ts";
import type { NodeCounters } from "./node_counters.ts";

/** Totals over all Services. */
export interface ServiceTotals {
  /** Endpoint addresses that no endpoint can have, such as loopback. */
  readonly ignoredEndpoints: number;
  /** Services that drop packets for lack of a local endpoint, by the traffic policy that requires one. */
  readonly withoutLocal: Readonly<Record<TrafficPolicy, number>>;
  /** Addresses with ports that Services claim but do not get. */
  readonly refused: number;
}

/** Records the totals of Services, and tells the counters which ports belong to which Service. */
export class ServiceMetrics implements ServiceFollower {
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
