import { readdirSync, readFileSync, rmSync } from "node:fs";

/** One call of a plugin by a runtime, and its answer. */
export interface RecordedCall {
  /** The file name of the plugin. */
  readonly plugin: string;
  /** The variables that the runtime set for the plugin: those of CNI and of OpenTelemetry. */
  readonly environment: Readonly<Record<string, string>>;
  readonly stdin: string;
  readonly exitCode: number;
  readonly stdout: string;
}

const OF_THE_CALL = /^(?:CNI_|TRACEPARENT=|TRACESTATE=|BAGGAGE=)/;

/**
 * Returns a shell script that calls a plugin and records the call: the environment, standard input, the answer and the
 * exit code.
 *
 * Each call is a directory whose name begins with the time of its start in nanoseconds.
 *
 * @param plugin the executable that is called
 * @param directory in which the calls are recorded
 */
export function recorderScript(plugin: string, directory: string): string {
  return `#!/bin/sh
call=$(mktemp -d "${directory}/$(date +%s%N)-$(basename "$0")-XXXXXX") || exit 1
env -0 >"$call/environment"
cat >"$call/stdin"
"${plugin}" <"$call/stdin" >"$call/stdout"
code=$?
cat "$call/stdout"
echo $code >"$call/exit"
exit $code
`;
}

/** Removes the recorded calls from a directory and returns them, in the order of their starts. */
export function takeCalls(directory: string): readonly RecordedCall[] {
  const calls = readdirSync(directory)
    .sort()
    .map((name): RecordedCall => {
      const read = (file: string): string => readFileSync(`${directory}/${name}/${file}`, "utf8");
      const pairs = read("environment")
        .split("\0")
        .filter((text) => OF_THE_CALL.test(text))
        .map((text) => [text.slice(0, text.indexOf("=")), text.slice(text.indexOf("=") + 1)] as const)
        .sort(([a], [b]) => (a < b ? -1 : 1));
      return {
        plugin: name.split("-")[1] ?? "",
        environment: Object.fromEntries(pairs),
        stdin: read("stdin"),
        exitCode: Number(read("exit")),
        stdout: read("stdout"),
      };
    });
  for (const name of readdirSync(directory)) rmSync(`${directory}/${name}`, { recursive: true });
  return calls;
}
