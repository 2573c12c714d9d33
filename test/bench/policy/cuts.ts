import { fileURLToPath } from "node:url";
import * as v from "valibot";
import { inOwnProcess } from "../daemon/own_process.ts";
import { found, measured, type Row } from "../row.ts";

/** The numbers of connections on the node, and of those of the one pod of which only some are cut. */
export const CONNECTIONS = 10_000;
export const OF_CLIENT = 100;

const MAIN = fileURLToPath(new URL("cuts_main.ts", import.meta.url));
const SOME_GOAL = 100;
const ALL_GOAL = 1500;
const TURN_GOAL = 20;

const number = v.number();
const measurementSchema = v.object({
  /**
   * Milliseconds of each round: from the object until the connections that it denies are cut, or those that it allows
   * are restored.
   */
  some: v.array(number),
  all: v.array(number),
  back: v.array(number),
  /** Milliseconds of the longest turn of the event loop. */
  longestTurn: number,
});

/** The measurements of the process that cuts. */
export type CutsMeasurement = v.InferOutput<typeof measurementSchema>;

/** Measures cuts in a process of its own, whose turns do not include memory that other subjects have left. */
export function cuts(rounds: number): readonly Row[] {
  const { some, all, back, longestTurn } = inOwnProcess([MAIN, String(rounds)], measurementSchema);
  const title = `${CONNECTIONS} connections`;
  return [
    measured(`${title}: ${OF_CLIENT} of them cut`, "ms", some, SOME_GOAL),
    measured(`${title}: all cut`, "ms", all, ALL_GOAL),
    measured(`${title}: all let through again`, "ms", back),
    found(`${title}: longest turn of the event loop`, "ms", longestTurn, TURN_GOAL),
  ];
}
