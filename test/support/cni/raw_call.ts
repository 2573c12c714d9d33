import { spawnSync } from "node:child_process";
import { DRAWBRIDGE, isUnreadInput } from "../../lab/cni.ts";
import type { LabNamespace } from "../../lab/namespace.ts";

/** The output and exit code of a call, unchanged. */
export interface RawOutcome {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs the plugin with exactly this environment and standard input, well-formed or not.
 *
 * @param command the plugin, and its arguments: a program that executes the plugin may stand first
 */
export function rawCall(
  namespace: LabNamespace,
  environment: Readonly<Record<string, string>>,
  stdin: string,
  command: string | readonly [string, ...string[]] = DRAWBRIDGE,
): RawOutcome {
  const [program, ...args] = typeof command === "string" ? [command] : command;
  const { status, stdout, stderr, error } = namespace.inside(() =>
    spawnSync(program, args, { env: environment, input: stdin, encoding: "utf8", timeout: 20_000 }),
  );
  if (error !== undefined && !isUnreadInput(error)) throw error;
  return { exitCode: status, stdout, stderr };
}
