import { Errno } from "./syscall/errno.ts";
import type { ProgramCalls, ProgramState } from "./syscall/program_calls.ts";
import { isReady, pollEntries } from "./syscall/poll_calls.ts";
import { check, SyscallError } from "./syscall/syscalls.ts";
import { realWaiting } from "./waiting.ts";

/** A call of another program. */
export interface Program {
  readonly file: string;
  /** The whole environment; a variable without a value is omitted. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly stdin: string;
  /** A descriptor that the program inherits as number 3 and holds open while it runs. */
  readonly inherited: number | undefined;
  /** The longest time that it may run, in milliseconds. */
  readonly milliseconds: number;
  /** The most output that it may print, in bytes. */
  readonly longestOutput: number;
}

/** How a program ended. */
export type ProgramEnd =
  | { readonly kind: "exited"; readonly code: number; readonly stdout: string }
  | { readonly kind: "signalled"; readonly signal: number }
  /** It has ended, but the kernel has no exit code, because the caller of this process ignores SIGCHLD. */
  | { readonly kind: "unknown" }
  | { readonly kind: "too slow" }
  | { readonly kind: "too long" };

const STDIN = 0;
const STDOUT = 1;
const INHERITED = 3;
const CHUNK = 16 * 1024;
/** The interval, in ms, at which to check whether the program has ended while another process holds its output open. */
const LONGEST_POLL = 20;
/** The pause, in ms, after the output has closed and before the program itself ends, which is nearly at once. */
const PAUSE = 0.5;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/**
 * Runs another program to its end and blocks the thread meanwhile. Its standard error is ours.
 *
 * A program that takes too long or prints too much is killed with everything it started. A background process that it
 * leaves running does not delay this call.
 *
 * @throws SyscallError when it cannot be started ("ENOENT", "EACCES", "ENOEXEC")
 */
export function runProgram(calls: ProgramCalls, program: Program): ProgramEnd {
  const deadline = realWaiting.now() + program.milliseconds;
  const { pid, output } = start(calls, program);
  try {
    return follow(calls, { pid, output, deadline, longest: program.longestOutput });
  } finally {
    calls.close(output);
  }
}

/** Starts the program. @returns its process ID, and the end of the pipe to read its output from */
function start(calls: ProgramCalls, { file, environment, stdin, inherited }: Program): Started {
  const input = check(calls.memoryFile(encoder.encode(stdin)), `standard input for ${file}`);
  try {
    const { read, write } = openPipe(calls, file);
    const pid = calls.spawn({
      file,
      environment: variablesOf(environment),
      descriptors: [
        [STDIN, input],
        [STDOUT, write],
        ...(inherited === undefined ? [] : [[INHERITED, inherited] as const]),
      ],
    });
    calls.close(write);
    if (pid < 0) calls.close(read);
    return { pid: check(pid, `execute ${file}`), output: read };
  } finally {
    calls.close(input);
  }
}

function openPipe(calls: ProgramCalls, file: string): { readonly read: number; readonly write: number } {
  const pipe = calls.pipe();
  if (typeof pipe !== "number") return pipe;
  throw new SyscallError(`pipe for ${file}`, -pipe);
}

function variablesOf(environment: Program["environment"]): readonly string[] {
  const variables: string[] = [];
  for (const [name, value] of Object.entries(environment)) if (value !== undefined) variables.push(`${name}=${value}`);
  return variables;
}

interface Started {
  readonly pid: number;
  readonly output: number;
}

/** A running program. */
interface Running extends Started {
  /** In the time of `realWaiting.now()`. */
  readonly deadline: number;
  readonly longest: number;
}

function follow(calls: ProgramCalls, running: Running): ProgramEnd {
  const { pid, output, deadline, longest } = running;
  const chunks: Uint8Array[] = [];
  const buffer = new Uint8Array(CHUNK);
  let length = 0;
  let isOpen = true;
  /** Reads all that is available, waiting at most this long for it. @returns whether there is too much output */
  const drain = (milliseconds: number): boolean => {
    for (let patience = milliseconds; isOpen && length <= longest; patience = 0) {
      const entries = pollEntries([output]);
      calls.poll(entries, patience);
      if (!isReady(entries, 0)) return false;
      const count = calls.read(output, buffer);
      if (count === -Errno.EINTR) continue;
      if (count <= 0) isOpen = false;
      else chunks.push(buffer.slice(0, count));
      length += Math.max(0, count);
    }
    return length > longest;
  };
  for (;;) {
    const left = deadline - realWaiting.now();
    if (left <= 0) return kill(calls, pid, { kind: "too slow" });
    if (!isOpen) realWaiting.pause(PAUSE);
    if (drain(Math.min(LONGEST_POLL, Math.ceil(left)))) return kill(calls, pid, { kind: "too long" });
    const state = stateOf(calls, pid);
    if (state.kind === "running") continue;
    // The program may have written right before its end.
    if (drain(0)) return { kind: "too long" };
    if (state.kind === "signalled" || state.kind === "unknown") return state;
    return { kind: "exited", code: state.code, stdout: decoder.decode(join(chunks, length)) };
  }
}

function stateOf(calls: ProgramCalls, pid: number): ProgramState | { readonly kind: "unknown" } {
  const state = calls.state(pid);
  if (typeof state !== "number") return state;
  return { kind: state === -Errno.EINTR ? "running" : "unknown" };
}

/** The longest wait for a killed program to end, so that it holds nothing of ours any more; in milliseconds. */
const LONGEST_DEATH = 1000;

function kill(calls: ProgramCalls, pid: number, end: ProgramEnd): ProgramEnd {
  calls.killGroup(pid);
  for (const limit = realWaiting.now() + LONGEST_DEATH; realWaiting.now() < limit; realWaiting.pause(PAUSE)) {
    if (stateOf(calls, pid).kind !== "running") break;
  }
  return end;
}

function join(chunks: readonly Uint8Array[], length: number): Uint8Array {
  const whole = new Uint8Array(length);
  let offset = 0;
  for (const chunk of chunks) {
    whole.set(chunk, offset);
    offset += chunk.length;
  }
  return whole;
}
