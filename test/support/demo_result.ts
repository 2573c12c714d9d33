import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { DemoResult } from "../demo/result.ts";

export const DEMO = fileURLToPath(new URL("../demo/demo.ts", import.meta.url));

/** The output of `npm run demo -- -o json`. */
export type Result = DemoResult & { readonly isAsExpected: boolean };

export function runDemo(...args: readonly string[]): {
  readonly exitCode: number | null;
  readonly result: Result;
} {
  const { status, stdout, stderr } = spawnSync(process.execPath, [DEMO, "-o", "json", ...args], {
    encoding: "utf8",
    maxBuffer: 1 << 24,
  });
  assert.notEqual(stdout, "", stderr);
  return { exitCode: status, result: JSON.parse(stdout) as Result };
}
