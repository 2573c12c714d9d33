import { setTimeout as pause } from "node:timers/promises";
import type { LabNamespace } from "../../lab/namespace.ts";

/** The values of one scrape, by the text before them: `drawbridge_objects{kind="Pod"}`. */
export type Scrape = ReadonlyMap<string, number>;

const ADDRESS = "http://127.0.0.1:9873/metrics";
/**
 * A program that reads the metrics: the sockets of this process are not made in the namespace. `fetch` and a module
 * would cost it most of its time.
 */
const PROGRAM = `
require("node:http").get(${JSON.stringify(ADDRESS)}, { agent: false }, (response) => {
  if (response.statusCode !== 200) throw new Error(String(response.statusCode));
  response.pipe(process.stdout);
});
`;

/** Reads the metrics of a node's daemon from within its namespace. @throws Error when the daemon does not answer */
export function scrape(node: LabNamespace): Scrape {
  const text = node.exec(process.execPath, ["--eval", PROGRAM]);
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
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
  for (let left = 1000; left > 0; left--) {
    try {
      const values = scrape(node);
      if (holds(values)) return values;
      last = JSON.stringify([...values].filter(([name]) => name.startsWith("drawbridge_")));
    } catch (error) {
      last = error;
    }
    await pause(50);
  }
  throw new Error(`${what}: still not the case: ${String(last)}`);
}
