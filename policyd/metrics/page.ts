import { setImmediate as eventsAreReported } from "node:timers/promises";
import type { Registry } from "prom-client";
import type { Clock } from "../lib/clock.ts";
import type { Answer } from "../http/http_listener.ts";
import { counterText, ENDPOINT_CONNECTIONS, POLICY_DROPS, POLICY_RULES } from "./counter_text.ts";
import type { NodeCounters } from "./node_counters.ts";
import type { PolicyCounters } from "./policy_counters.ts";

const PATH = "/metrics";
const PLAIN = { "Content-Type": "text/plain; charset=utf-8", Connection: "close" } as const;

/** Half of Prometheus' default timeout. A scrape that would wait longer gets the known values; the read continues. */
const LONGEST_READING = 5000;

/** Counters of the kernel. */
interface Refreshed {
  /** Reads them, unless they were read just now. The promise never rejects. */
  refresh(): Promise<void>;
}

export interface PageParts {
  /** All metrics except those of single endpoints and policy rules. */
  readonly registry: Pick<Registry, "metrics">;
  readonly counters: Pick<NodeCounters, "series"> & Refreshed;
  readonly policyCounters: Pick<PolicyCounters, "sums"> & Refreshed;
  /** Whether the connections of each endpoint are included. */
  readonly hasEndpoints: boolean;
  readonly clock: Clock;
}

/** Yields the response to a scrape, with values as current as the time allows. */
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
  const { sums } = policyCounters;
  const texts = [
    counterText(POLICY_DROPS, sums.drops(), "packets"),
    counterText(POLICY_RULES, sums.rules(), "packets"),
    ...(hasEndpoints ? [counterText(ENDPOINT_CONNECTIONS, counters.series(), "connections")] : []),
  ];
  for (const text of texts) {
    for (const piece of text) {
      yield piece;
      await eventsAreReported();
    }
  }
}

/** Returns the answer to requests, one for each connection. @param page is made again for each scrape */
export function metricsAnswer(page: () => AsyncIterable<string>, contentType: string): Answer {
  return (url, _isLoopback, method) => {
    const [path] = url.split("?", 1);
    if (path !== PATH) return { status: 404, headers: PLAIN, body: `expected ${PATH}\n` };
    if (method !== "GET") return { status: 405, headers: { ...PLAIN, Allow: "GET" }, body: "expected GET\n" };
    return { status: 200, headers: { "Content-Type": contentType, Connection: "close" }, body: page() };
  };
}
