import path from "node:path";
import process from "node:process";
import { COMPLETE } from "./completion/protocol.ts";
import { ExitCode } from "./io.ts";
import { processIo } from "./process_io.ts";
import { runCommandLine } from "./program.ts";

/** Runs the command line of this process, and sets its exit code. */
export async function start(): Promise<void> {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  // A current Node does not load the modules that an older one needs completed.
  if (major < 22 || (major < 24 && minor < 15)) (await import("./node_20.ts")).completeOlderNode();
  const io = processIo();
  // kubectl runs a plugin by the name kubectl-drawbridge. Messages then name the program as the user called it.
  const program = path.basename(process.argv[1] ?? "");
  const isPlugin = program.startsWith("kubectl");
  // For completion, kubectl calls kubectl_complete-drawbridge.
  const completing = program.startsWith("kubectl_complete-") ? [COMPLETE] : [];
  try {
    process.exitCode = await runCommandLine(isPlugin ? "kubectl drawbridge" : "drawbridge", io, [
      ...completing,
      ...process.argv.slice(2),
    ]);
  } catch (error) {
    const words = error instanceof Error ? (error.stack ?? error.message) : String(error);
    process.exitCode = ExitCode.ERROR;
    try {
      io.err.write(`drawbridge: unexpected error, please report this as a bug of Drawbridge:\n${words}\n`);
    } catch {
      // Standard error cannot be written, which was the error. An exception here would end Node with another exit code.
    }
  }
}
