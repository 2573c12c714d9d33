import { setImmediate as eventsAreTold } from "node:timers/promises";
import type { Registry } from "prom-client";
import type { Clock } from "../clock.ts";
import { endpointText } from "./endpoint_text.ts";
import type { NodeCounters } from "./node_counters.ts";

/** Half of what Prometheus waits by default. Who would wait longer gets what is known, and the reading goes on. */
const LONGEST_READING = 5000;

export interface PageParts {
  /** All metrics but those of single endpoints. */
  readonly registry: Pick<Registry, "metrics">;
  readonly counters: Pick<NodeCounters, "refresh" | "series">;
  /** Whether the connections of each endpoint are part of it. */
  readonly hasEndpoints: boolean;
  readonly clock: Clock;
}

/** What a scrape gets, as new as it can be had in time. */
export async function* metricsPage(parts: PageParts): AsyncGenerator<string, void, void> {
  const { registry, counters, hasEndpoints, clock } = parts;
  await new Promise<void>((resolve) => {
    const cancel = clock.after(LONGEST_READING, resolve);
    const end = (): void => {
      cancel();
      resolve();
    };
    void counters.refresh().then(end, end);
  });
  yield await registry.metrics();
  if (!hasEndpoints) return;
  for (const piece of endpointText(counters.series())) {
    yield piece;
    await eventsAreTold();
  }
}
