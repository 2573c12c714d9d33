import { Argument, Command } from "commander";
import { ExitCode, type Run } from "../io.ts";

export const SHELLS = ["bash", "zsh", "fish"] as const;

/** Returns the command `completion SHELL`, which prints the script by which a shell completes our command lines. */
export function completionCommand(run: Run): Command {
  return new Command("completion")
    .description("print the script with which a shell completes command lines")
    .addArgument(new Argument("<shell>", "the shell").choices(SHELLS))
    .addHelpText(
      "after",
      "\nExamples:\n  source <(drawbridge completion bash)\n  source <(drawbridge completion zsh)\n  drawbridge completion fish | source\n",
    )
    .action(async (shell: (typeof SHELLS)[number]) => {
      const { completionScript } = await import("./scripts.ts");
      run.io.out.write(completionScript(shell));
      run.end(ExitCode.YES);
    });
}
