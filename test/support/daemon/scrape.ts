import { setTimeout as pause } from "node:timers/promises";
import type { LabNamespace } from "../../lab/namespace.ts";
import { askHttp } from "../http.ts";

/** The values of one scrape, by the text before them: `drawbridge_objects{kind="Pod"}`. */
export type Scrape = ReadonlyMap<string, number>;

/** The time between two scrapes, in which the daemon can work. */
const INTERVAL_MILLISECONDS = 10;
const TRIES = 5000;
/** A busy machine takes long for a page. */
const PATIENCE_MILLISECONDS = 30_000;

/** Reads the metrics of a node's daemon from within its namespace. @throws Error when the daemon does not answer */
export function scrape(node: LabNamespace): Scrape {
  const { status, body } = askHttp(node, "127.0.0.1", 9873, "/metrics", PATIENCE_MILLISECONDS);
  if (status !== 200) throw new Error(`${node.name}: no metrics: ${status} ${body}`);
  const lines = body.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(
    lines.map((line) => {
      const space = line.lastIndexOf(" ");
      return [line.slice(0, space), Number(line.slice(space + 1))];
    }),
  );
}

/** Returns the first scrape for which `holds` is true. */
export async function scrapeWhen(
  node: LabNamespace,
  holds: (values: Scrape) => boolean,
  what: string,
): Promise<Scrape> {
  let last: unknown;
  for (let left = TRIES; left > 0; left--) {
    try {
      const values = scrape(node);
      if (holds(values)) return values;
      last = JSON.stringify([...values].filter(([name]) => name.startsWith("drawbridge_")));
    } catch (error) {
      last = error;
    }
    await pause(INTERVAL_MILLISECONDS);
  }
  throw new Error(`${what}: still not the case: ${String(last)}`);
}
