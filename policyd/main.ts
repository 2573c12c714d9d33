import process from "node:process";
import { CommanderError } from "commander";
import { hasRecords } from "../attachment/attachment_reader.ts";
import { type StoreFileSystem, systemFileSystem } from "../ipam/file_system.ts";
import { DrawbridgeError } from "../kernel/error.ts";
import { readBootId, readTextFile } from "../kernel/file.ts";
import { enterNamespace, openNamespace } from "../kernel/network_namespace.ts";
import { NftablesSocket } from "../kernel/nftables/socket.ts";
import { nodeSyscalls } from "../kernel/syscall/koffi.ts";
import { readCommandLine } from "./configuration/command_line.ts";
import { type Configuration, readConfiguration } from "./configuration/configuration.ts";
import { printableUpTo } from "../objects/printable.ts";
import { hasForeignPorts } from "./coexistence/foreign_ports.ts";
import { closeEarly, type Closing } from "./policies/closing/close_early.ts";
import { EnforcedMark } from "./policies/closing/enforced_mark.ts";
import type { Running } from "./compose.ts";
import { isLocked } from "./socket/listener.ts";
import { VERSION } from "./version.ts";

const LARGEST_CONFIGURATION = 1024 * 1024;
/** All problems of a configuration are one line, and a dozen are longer than a value in the log may be. */
const LONGEST_REFUSAL = 64 * 1024;
/** Stopping takes milliseconds; after this time the process ends in any case. */
const STOP_MILLISECONDS = 800;

const syscalls = nodeSyscalls();

let running: Running | undefined;

/**
 * Starts the daemon. On a node that has lost its tables, pods are closed before anything else happens. The larger part
 * of the program is loaded only after that, since loading it takes longer than closing them.
 *
 * @throws DrawbridgeError if the daemon cannot start, CommanderError for its command line and after the help
 */
async function begin(args: readonly string[]): Promise<Running> {
  const { config, networkNamespace, flags } = readCommandLine(args, VERSION, (text) => process.stdout.write(text));
  const configuration = readConfiguration(config === undefined ? undefined : configurationFile(config), flags);
  // Must come before any kernel socket or thread, since both belong to the namespace of this thread.
  if (networkNamespace !== undefined) enterNamespace(syscalls, openNamespace(syscalls, networkNamespace));
  const bootId = readBootId(syscalls);
  const files = systemFileSystem(syscalls);
  const mark = new EnforcedMark({ stateDirectory: configuration.stateDirectory, files, bootId: () => bootId });
  const closing = closed(configuration, mark, files);
  const milliseconds = Math.round(performance.now());
  const { start } = await import("./compose.ts");
  return await start({ configuration, syscalls, bootId, mark, closing, milliseconds, end: () => process.exit(1) });
}

/** @throws SyscallError without CAP_NET_ADMIN or without nftables in the kernel */
function closed(
  { bridge, policies, socketPath, stateDirectory }: Configuration,
  mark: EnforcedMark,
  files: StoreFileSystem,
): Closing {
  const kernel = new NftablesSocket(syscalls);
  try {
    const isOtherRunning = (): boolean => isLocked(socketPath, syscalls);
    // Pods of another plugin on the bridge keep their network until the bridge is taken over (FOREIGN-02).
    const hasPods = (): boolean => hasRecords(stateDirectory, files) || hasForeignPorts(syscalls, bridge);
    return closeEarly({ kernel, bridge, isEnforcing: policies, mark, hasPods, isOtherRunning });
  } finally {
    kernel.close();
  }
}

function configurationFile(path: string): { readonly path: string; readonly text: string } {
  const text = readTextFile(syscalls, path, LARGEST_CONFIGURATION);
  if (text === undefined) throw new DrawbridgeError("ERR_CONFIGURATION", `--config: ${path} does not exist`);
  return { path, text };
}

function onSignal(signal: NodeJS.Signals): void {
  if (running === undefined) process.exit(0);
  const { logger } = running;
  logger.info("policyd stops", { signal });
  setTimeout(() => {
    logger.warn("policyd did not stop in time and ends", { milliseconds: STOP_MILLISECONDS });
    process.exit(0);
  }, STOP_MILLISECONDS);
  void running.stop().then(() => process.exit(0));
}

for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, onSignal);

try {
  running = await begin(process.argv.slice(2));
} catch (error) {
  const isHelp = error instanceof CommanderError && error.exitCode === 0;
  if (!isHelp) {
    const words = error instanceof Error ? error.message : String(error);
    process.stderr.write(`policyd: ${printableUpTo(words.replace(/^error: /, ""), LONGEST_REFUSAL)}\n`);
  }
  process.exit(isHelp ? 0 : 1);
}
