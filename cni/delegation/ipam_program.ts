import { isRegularFile } from "../../kernel/file.ts";
import { type ProgramEnd, runProgram } from "../../kernel/program.ts";
import { type FileReadCalls, OpenFlag } from "../../kernel/syscall/file_calls.ts";
import { SyscallError } from "../../kernel/syscall/syscalls.ts";
import type { Environment } from "../environment.ts";
import { CniError, CniErrorCode, showValue } from "../error.ts";
import { isObject } from "../json.ts";
import type { PluginMachine } from "../host.ts";

/** The input of an external IPAM plugin. */
export interface IpamCall {
  /** The name of its executable. */
  readonly type: string;
  /** The environment of our own call, which the plugin gets unchanged except for CNI_COMMAND. */
  readonly environment: Environment;
  /** The network configuration as it came, byte for byte. */
  readonly stdin: string;
}

/** The error of a call that executed nothing, so that the IPAM plugin holds nothing because of it. */
export class NotExecutedError extends CniError {}

/** Runtimes use two at most. */
const MOST_DIRECTORIES = 64;
/** A runtime waits for minutes. A plugin that asks an API server or a DHCP server takes seconds at most. */
const LONGEST_RUN_MILLISECONDS = 60_000;
/** A result has a few hundred bytes. */
const LONGEST_OUTPUT = 256 * 1024;
const LONGEST_MESSAGE = 4096;

/**
 * Executes an external IPAM plugin for a verb, as the specification demands ("Section 4: Plugin Delegation"): with the
 * same environment, configuration and working directory; its standard error goes to ours.
 *
 * @param inherited a descriptor that stays open as long as the plugin runs
 * @returns its output
 * @throws CniError its own error with code and message; 4 or 7 if there is no such plugin; 11 if it took too long; a
 *   NotExecutedError with 5 if it cannot be executed
 */
export function runIpam(
  node: PluginMachine,
  { type, environment, stdin }: IpamCall,
  verb: string,
  inherited?: number,
): string {
  const file = findPlugin(node.syscalls, environment["CNI_PATH"], type);
  let end: ProgramEnd;
  try {
    end = runProgram(node.programs(), {
      file,
      environment: { ...environment, CNI_COMMAND: verb },
      stdin,
      inherited,
      milliseconds: LONGEST_RUN_MILLISECONDS,
      longestOutput: LONGEST_OUTPUT,
    });
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error;
    throw new NotExecutedError(CniErrorCode.IO_FAILURE, `IPAM plugin ${file}: ${error.message}`);
  }
  if (end.kind === "exited" && end.code === 0) return end.stdout;
  throw failureOf(end, file, verb);
}

function failureOf(end: ProgramEnd, file: string, verb: string): CniError {
  const what = `IPAM plugin ${file}: ${verb}`;
  switch (end.kind) {
    case "too slow":
      return new CniError(
        CniErrorCode.TRY_AGAIN_LATER,
        `${what} took longer than ${LONGEST_RUN_MILLISECONDS / 1000} s and was killed`,
      );
    case "too long":
      return new CniError(
        CniErrorCode.DECODING_FAILURE,
        `${what} printed more than ${LONGEST_OUTPUT} bytes; expected a result`,
      );
    case "unknown":
      return new CniError(
        CniErrorCode.INTERNAL,
        `${what} has ended and its exit code is unknown, since the container runtime ignores SIGCHLD; expected a runtime that does not`,
      );
    case "signalled":
      return new CniError(CniErrorCode.INTERNAL, `${what} was ended by signal ${end.signal}`);
    case "exited":
      return (
        printedError(end.stdout, file) ??
        new CniError(
          CniErrorCode.INTERNAL,
          `${what} exited with ${end.code} and printed no error; its standard error may say why`,
        )
      );
  }
}

/** Returns the error that a plugin printed (CNI specification, "Error"); undefined for anything else. */
function printedError(text: string, file: string): CniError | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isObject(value)) return undefined;
  const { code, msg, details } = value;
  if (typeof code !== "number" || !Number.isInteger(code) || code < 0 || code > 0xffff_ffff) return undefined;
  if (typeof msg !== "string") return undefined;
  const origin = `from the IPAM plugin ${file}`;
  const more =
    typeof details === "string" && details !== "" ? `${details.slice(0, LONGEST_MESSAGE)}; ${origin}` : origin;
  return new CniError(code, msg.slice(0, LONGEST_MESSAGE), more);
}

/**
 * Finds a plugin's executable: the first regular file of its name in the directories of CNI_PATH.
 *
 * @param path CNI_PATH: directories, separated by ":"
 * @throws CniError 4 without CNI_PATH, 7 without such a file, in libcni's words
 */
export function findPlugin(files: FileReadCalls, path: string | undefined, type: string): string {
  if (path === undefined || path === "") {
    throw new CniError(
      CniErrorCode.INVALID_ENVIRONMENT,
      "required env variables [CNI_PATH] missing",
      `ipam.type ${showValue(type)} is the name of an executable; the container runtime says by CNI_PATH where to look for it`,
    );
  }
  const directories = path.split(":").filter((directory) => directory !== "" && !directory.includes("\0"));
  for (const directory of directories.slice(0, MOST_DIRECTORIES)) {
    const file = `${directory}/${type}`;
    const fd = files.open(file, OpenFlag.RDONLY | OpenFlag.NONBLOCK | OpenFlag.CLOEXEC, 0);
    if (fd < 0) continue;
    const isFile = isRegularFile(files, fd);
    files.close(fd);
    if (isFile) return file;
  }
  throw new CniError(
    CniErrorCode.INVALID_CONFIGURATION,
    `ipam.type: failed to find plugin ${showValue(type)} in path ${showValue(directories)}; expected its executable there: install it, or name another IPAM plugin`,
  );
}
