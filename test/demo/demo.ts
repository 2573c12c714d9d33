import process from "node:process";
import { Command, Option } from "commander";
import { styleText } from "node:util";
import { type BreakageName, BREAKAGES } from "./harm.ts";
import { formatResult } from "./print.ts";
import { streamProgress } from "./progress.ts";
import { isAsExpected } from "./result.ts";
import { runDemo } from "./steps.ts";

interface Options {
  readonly break?: BreakageName;
  readonly output: "text" | "json";
}

const command = new Command("demo")
  .description(
    "A cluster of two nodes and six pods on this machine's kernel: who reaches whom and which Service, measured with real packets.",
  )
  .addOption(
    new Option("--break <what>", "remove one thing after set-up: the cells it concerns turn red").choices(BREAKAGES),
  )
  .addOption(new Option("-o, --output <format>", "how to print the result").choices(["text", "json"]).default("text"))
  .action(async (options: Options) => {
    if (process.geteuid?.() !== 0) {
      process.stderr.write("demo: needs root to make network namespaces; run it as root\n");
      process.exitCode = 1;
      return;
    }
    const result = await runDemo(options.break, streamProgress(process.stderr));
    const isGood = isAsExpected(result);
    process.stdout.write(
      options.output === "json"
        ? `${JSON.stringify({ isAsExpected: isGood, ...result }, null, 2)}\n`
        : `\n${formatResult(result, process.stdout)}`,
    );
    process.exitCode = isGood ? 0 : 1;
  });

try {
  await command.parseAsync();
} catch (error) {
  const words = error instanceof Error ? error.message : String(error);
  process.stderr.write(`${styleText("red", "demo:", { stream: process.stderr })} ${words}\n`);
  process.exitCode = 1;
}
