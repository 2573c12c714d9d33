import { replaceFile } from "../../ipam/file_system.ts";
import { expectNetworkName } from "../../ipam/owner.ts";
import { attempt, DrawbridgeError } from "../../kernel/error.ts";
import { readTextFile } from "../../kernel/file.ts";
import type { FileReadCalls } from "../../kernel/syscall/file_calls.ts";
import type { PluginMachine } from "../host.ts";

/**
 * The kinds of failure. ADDs note "attach", and the first ADD that succeeds forgets it. STATUS notes "node" if every
 * ADD would fail, and "traffic" if running pods have no network, and forgets them when it finds neither. ADDs note and
 * forget "full" like "attach", when addresses or ports of the bridge have run out: the daemon reports it, STATUS does
 * not.
 */
export type FailureKind = "attach" | "full" | "node" | "traffic";

/**
 * The classes of causes, by the error's code: no free address, no free port of the bridge, no answer from the daemon.
 */
export const FAILURE_CAUSES = ["addresses", "ports", "daemon", "other"] as const;
export type FailureCause = (typeof FAILURE_CAUSES)[number];

/** A failure without a success since it began. Times are seconds since the boot. */
export interface Failure {
  readonly since: number;
  readonly last: number;
  readonly reason: string;
  /** "other" for a record of an earlier release, which has no cause. */
  readonly cause: FailureCause;
}

/** The parts of a node that are needed for reading. */
export interface FailureReader {
  readonly files: Pick<PluginMachine["files"], "readSmallFile">;
  readonly syscalls: FileReadCalls;
  bootId(): string;
}

/** A failure continues if it is seen again within this number of seconds. */
export const FAILURE_MEMORY = 300;
const LONGEST_REASON = 1000;
/** A character takes at most six bytes in JSON. */
const MAX_FILE_BYTES = 8 * 1024;

/**
 * Records that a network fails now; the time of the first failure stays.
 *
 * If that is not possible, the failure is not recorded: the caller has its own error to report.
 */
export function noteFailure(
  node: PluginMachine,
  runDir: string,
  network: string,
  kind: FailureKind,
  { reason, cause }: Pick<Failure, "reason" | "cause">,
): void {
  const now = uptime(node);
  if (now === undefined) return;
  const earlier = readFailure(node, runDir, network, kind);
  const goesOn = earlier !== undefined && now - earlier.last <= FAILURE_MEMORY;
  const failure = { since: goesOn ? earlier.since : now, last: now, reason: reason.slice(0, LONGEST_REASON), cause };
  const text = JSON.stringify({ version: 1, bootId: node.bootId(), ...failure });
  attempt(
    () => replaceFile(node.files, directoryOf(runDir, kind), fileNameOf(network), text),
    () => {},
  );
}

/** Forgets the failure after a success. One system call if there is none. */
export function forgetFailure(
  node: Pick<PluginMachine, "files">,
  runDir: string,
  network: string,
  kind: FailureKind,
): void {
  attempt<unknown>(
    () => node.files.unlink(pathOf(runDir, network, kind)),
    () => {},
  );
}

/**
 * Returns the recorded failure of a network; undefined for a missing, torn or foreign file, and for one of another boot
 * or with times in the future.
 */
export function readFailure(
  node: FailureReader,
  runDir: string,
  network: string,
  kind: FailureKind,
): Failure | undefined {
  const now = uptime(node);
  if (now === undefined) return undefined;
  try {
    const file = node.files.readSmallFile(pathOf(runDir, network, kind), MAX_FILE_BYTES);
    const failure = file.kind === "text" ? parseFailure(JSON.parse(file.text), node.bootId()) : undefined;
    return failure !== undefined && failure.last <= now ? failure : undefined;
  } catch (error) {
    if (error instanceof DrawbridgeError || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function parseFailure(value: unknown, thisBoot: string): Failure | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { version, bootId, since, last, reason, cause } = value as Partial<
    Record<keyof Failure | "version" | "bootId", unknown>
  >;
  if (version !== 1 || bootId !== thisBoot || typeof reason !== "string") return undefined;
  if (typeof since !== "number" || typeof last !== "number" || !(since <= last)) return undefined;
  return { since, last, reason, cause: FAILURE_CAUSES.find((known) => known === cause) ?? "other" };
}

/** Returns the seconds since the boot, including suspended time, by a clock that neither people nor NTP set. */
export function uptime({ syscalls }: { readonly syscalls: FileReadCalls }): number | undefined {
  const seconds = Number.parseFloat(readTextFile(syscalls, "/proc/uptime", 128) ?? "");
  return Number.isFinite(seconds) ? seconds : undefined;
}

function pathOf(runDir: string, network: string, kind: FailureKind): string {
  return `${directoryOf(runDir, kind)}/${fileNameOf(network)}`;
}

function directoryOf(runDir: string, kind: FailureKind): string {
  return `${runDir}/failures/${kind}`;
}

function fileNameOf(network: string): string {
  expectNetworkName(network);
  return `${network}.json`;
}
