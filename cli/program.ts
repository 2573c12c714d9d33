import { Command, CommanderError, Option } from "commander";
import { DrawbridgeError } from "../kernel/error.ts";
import { bundleCommand } from "./bundle/command.ts";
import { checkCommand } from "./check/command.ts";
import { completionCommand } from "./completion/command.ts";
import { COMPLETE, formatCompletion } from "./completion/protocol.ts";
import { ExitCode, type Io, type Run } from "./io.ts";
import { renderOptions, withTexts } from "./input/programs/rendered_files.ts";
import { flowsCommand } from "./flows/command.ts";
import { nodeCommand } from "./node/command.ts";
import { coverageCommand } from "./policy/coverage/command.ts";
import { describeCommand } from "./policy/describe/command.ts";
import { diffCommand } from "./policy/diff/command.ts";
import { dryRunCommand } from "./policy/dry_run/command.ts";
import { explainCommand } from "./policy/explain/command.ts";
import { lintCommand } from "./policy/lint/command.ts";
import { matrixCommand } from "./policy/matrix/command.ts";
import { statusCommand } from "./policy/status/command.ts";
import { suggestCommand } from "./policy/suggest/command.ts";
import { testCommand } from "./policy/test/command.ts";
import { serviceExplainCommand } from "./service/command.ts";
import { rulesCommand } from "./rules/command.ts";
import { VERSION } from "../policyd/version.ts";

/**
 * Returns the command line with all its commands. A command's code is loaded when it is called: help and completion
 * start fast.
 *
 * @param name as the user calls it: `drawbridge` or `kubectl drawbridge`
 */
export function createProgram(name: string, run: Run): Command {
  const { out, err, hasColour } = { out: run.io.out, err: run.io.err, hasColour: run.io.out.hasColour };
  const program = new Command(name)
    .description("Network policies and Services of Kubernetes, read and explained.")
    .version(VERSION, "-V, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .exitOverride()
    .configureOutput({
      writeOut: (text) => out.write(text),
      writeErr: (text) => err.write(text),
      getOutHelpWidth: () => Math.min(out.columns, 120),
      getErrHelpWidth: () => Math.min(err.columns, 120),
      getOutHasColors: () => hasColour,
      getErrHasColors: () => err.hasColour,
    })
    .showSuggestionAfterError();
  const policy = new Command("policy").description("what NetworkPolicies and ClusterNetworkPolicies allow");
  policy.addCommand(matrixCommand(run));
  policy.addCommand(lintCommand(run));
  policy.addCommand(explainCommand(run));
  policy.addCommand(diffCommand(run));
  policy.addCommand(dryRunCommand(run));
  policy.addCommand(suggestCommand(run));
  policy.addCommand(coverageCommand(run));
  policy.addCommand(describeCommand(run));
  policy.addCommand(statusCommand(run));
  policy.addCommand(testCommand(run));
  program.addCommand(policy);
  program.addCommand(rulesCommand(run));
  const service = new Command("service").description("where Services send packets");
  service.addCommand(serviceExplainCommand(run));
  program.addCommand(service);
  program.addCommand(flowsCommand(run));
  program.addCommand(checkCommand(run));
  program.addCommand(bundleCommand(run));
  program.addCommand(nodeCommand(run));
  program.addCommand(completionCommand(run));
  program.addCommand(versionCommand(run));
  for (const command of everyCommand(program)) command.copyInheritedSettings(program);
  return program;
}

/** Returns all commands below one. Added commands do not inherit how the program exits and where it writes. */
function everyCommand(command: Command): readonly Command[] {
  return command.commands.flatMap((one) => [one, ...everyCommand(one)]);
}

/** Returns the command `version`, which prints what `--version` prints, as other programs have it. */
function versionCommand({ io }: Run): Command {
  return new Command("version")
    .description("the release of this program")
    .addOption(new Option("-o, --output <format>", "how to print it").choices(["text", "json"]).default("text"))
    .action(({ output }: { readonly output: string }) => {
      io.out.write(
        output === "json" ? `${JSON.stringify({ version: VERSION }, null, 2)}\n` : `drawbridge ${VERSION}\n`,
      );
    });
}

/** Returns the full names of the commands that a word names within a group: `matrix` is `policy matrix`. */
function wholeNames(program: Command, word: string | undefined): readonly string[] {
  if (word === undefined || program.commands.some((one) => one.name() === word)) return [];
  return program.commands.flatMap((group) =>
    group.commands.filter((one) => one.name() === word).map((one) => `${group.name()} ${one.name()}`),
  );
}

/** Runs one command line. @returns the exit code; only a bug throws */
export async function runCommandLine(name: string, io: Io, args: readonly string[]): Promise<ExitCode> {
  let code: ExitCode = ExitCode.YES;
  const rendered = new Map<string, string>();
  const files = withTexts(io.files, rendered);
  const program = createProgram(name, { io: { ...io, files }, end: (ended) => void (code = ended) });
  program.hook("preAction", (_, command) => renderOptions(io, rendered, command));
  if (args[0] === COMPLETE) {
    const { complete } = await import("./completion/candidates.ts");
    io.out.write(formatCompletion(complete(program, args.slice(1))));
    return code;
  }
  const meant = wholeNames(program, args[0]);
  if (meant.length > 0) {
    const names = meant.map((one) => `\`${name} ${one}\``).join(" or ");
    io.err.write(`error: unknown command '${args[0]}': it is ${names}\n`);
    return ExitCode.USAGE;
  }
  try {
    // Commander's own help command knows the first word only.
    const given = args[0] === "help" && args.length > 2 ? [...args.slice(1), "--help"] : args;
    await program.parseAsync(given, { from: "user" });
    return code;
  } catch (error) {
    // Commander has already printed what it refuses.
    if (error instanceof CommanderError) return error.exitCode === 0 ? ExitCode.YES : ExitCode.USAGE;
    if (!(error instanceof DrawbridgeError)) throw error;
    io.err.write(`${name}: ${error.message}\n`);
    return ExitCode.ERROR;
  }
}
