import { setImmediate as eventsAreTold } from "node:timers/promises";
import type { Registry } from "prom-client";
import type { Clock } from "../clock.ts";
import { endpointText } from "./endpoint_text.ts";
import type { NodeCounters } from "./node_counters.ts";
import type { PolicyCounters } from "./policy_counters.ts";
import { policyText } from "./policy_text.ts";

/** Half of what Prometheus waits by default. Who would wait longer gets what is known, and the reading goes on. */
const LONGEST_READING = 5000;

export interface PageParts {
  /** All metrics but those of single endpoints and policies' rules. */
  readonly registry: Pick<Registry, "metrics">;
  readonly counters: Pick<NodeCounters, "refresh" | "series">;
  readonly policyCounters: Pick<PolicyCounters, "refresh" | "sums">;
  /** Whether the connections of each endpoint are part of it. */
  readonly hasEndpoints: boolean;
  readonly clock: Clock;
}

/** What a scrape gets, as new as it can be had in time. */
export async function* metricsPage(parts: PageParts): AsyncGenerator<string, void, void> {
  const { registry, counters, policyCounters, hasEndpoints, clock } = parts;
  await new Promise<void>((resolve) => {
    const cancel = clock.after(LONGEST_READING, resolve);
    const end = (): void => {
      cancel();
      resolve();
    };
    void Promise.all([counters.refresh(), policyCounters.refresh()]).then(end, end);
  });
  yield await registry.metrics();
  const texts = [policyText(policyCounters.sums), ...(hasEndpoints ? [endpointText(counters.series())] : [])];
  for (const text of texts) {
    for (const piece of text) {
      yield piece;
      await eventsAreTold();
    }
  }
}
