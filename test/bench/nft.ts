import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import Table from "cli-table3";
import { createLab } from "../lab/lab.ts";
import { thisMachine } from "./machine.ts";
import { measureNft, type NftRow } from "./scenario/nft.ts";

const RESULTS = fileURLToPath(new URL("../../test-results/bench-nft.json", import.meta.url));

/**
 * Measures kernel/nftables beside the program nft in interleaved pairs, prints a table or JSON and leaves the JSON.
 *
 * @param pairs how often each small change is measured
 */
export function benchNft(pairs: number, output: "table" | "json", progress: (step: string) => void): void {
  const machine = thisMachine();
  using lab = createLab("bench-nft");
  const rows = measureNft(lab, pairs, progress);
  const json = `${JSON.stringify({ machine, pairs, rows }, undefined, 2)}\n`;
  mkdirSync(path.dirname(RESULTS), { recursive: true });
  writeFileSync(RESULTS, json);
  process.stdout.write(
    output === "json" ? json : `${formatRows(rows)}\nall values: ${path.relative(process.cwd(), RESULTS)}\n`,
  );
}

function formatRows(rows: readonly NftRow[]): string {
  const table = new Table({
    head: ["what", "pairs", "Drawbridge", "nft -f -", "goal", "reached"],
    colAligns: ["left", "right", "right", "right", "right", "left"],
    style: { head: [], border: [] },
  });
  const value = (milliseconds: number | undefined): string =>
    milliseconds === undefined ? "" : `${milliseconds.toFixed(milliseconds < 10 ? 3 : 0)} ms`;
  for (const { title, pairs, ours, peer, goal, isReached } of rows) {
    const reached = isReached === undefined ? "" : isReached ? "yes" : "no";
    table.push([title, pairs.length, value(ours), value(peer), goal === undefined ? "" : `≤ ${value(goal)}`, reached]);
  }
  return table.toString();
}
