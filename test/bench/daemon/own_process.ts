import { spawnSync } from "node:child_process";
import process from "node:process";
import * as v from "valibot";
import { imageStart } from "./image_start.ts";

const MOST_OUTPUT = 1 << 24;

/**
 * Runs a program in a process of its own, started as a node starts the daemon, so that its measurement does not include
 * memory that others have left.
 *
 * @param args options for Node, the program's file and its arguments
 * @returns its standard output, as JSON
 * @throws Error when it fails; ValiError for unexpected output
 */
export function inOwnProcess<T>(args: readonly string[], schema: v.GenericSchema<unknown, T>): T {
  const { nodeOptions, environment } = imageStart();
  const { status, stdout, stderr } = spawnSync(process.execPath, [...nodeOptions, ...args], {
    env: { ...process.env, ...environment },
    encoding: "utf8",
    maxBuffer: MOST_OUTPUT,
  });
  if (status !== 0) throw new Error(`${args.join(" ")}: exit code ${status}\n${stderr}`);
  return v.parse(schema, JSON.parse(stdout));
}
