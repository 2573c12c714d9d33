import { cpus, totalmem } from "node:os";
import type { OriginalSettingsPlace } from "../../ipam/original_settings.ts";
import { rememberingSysctl } from "../../ipam/original_settings.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { Sysctl } from "../../kernel/sysctl.ts";
import { procSysctl } from "../../kernel/sysctl.ts";
import type { FileCalls } from "../../kernel/syscall/file_calls.ts";
import type { Clock } from "../clock.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { Ruleset } from "../dataplane/ruleset.ts";
import type { Logger } from "../log/logger.ts";
import { REASSEMBLY_SECONDS } from "./fragment_share.ts";

/** The daemon's configuration has the fields under the same names; 0 leaves a setting as it is. */
export interface ConntrackConfiguration {
  /** How many connections for each processor the table has room for. */
  readonly conntrackMaxPerCore: number;
  /** How many at least, however few processors there are. */
  readonly conntrackMin: number;
  /** Milliseconds. */
  readonly conntrackEstablishedTimeout: number;
  /** Milliseconds. */
  readonly conntrackCloseWaitTimeout: number;
}

/** The parts of the machine that raising settings takes. */
export interface ConntrackMachine {
  readonly syscalls: FileCalls;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Where the original values are kept. */
  readonly originals: OriginalSettingsPlace;
}

const TABLE_SIZE = "net/netfilter/nf_conntrack_max";

/** A setting that is to be at least so large, or where it says so at most. */
export interface BoundedSetting {
  readonly key: string;
  readonly value: number;
  readonly isMost?: boolean;
}

/**
 * The settings of connection tracking that a node of a cluster needs, by kube-proxy's names and defaults: room for many
 * connections, and a half-closed one is remembered for as long as an idle backend may take to close its end.
 *
 * @param processors how many there are
 */
export function conntrackSettings(
  configuration: ConntrackConfiguration,
  processors: number,
): readonly BoundedSetting[] {
  const { conntrackMaxPerCore, conntrackMin, conntrackEstablishedTimeout, conntrackCloseWaitTimeout } = configuration;
  const max = conntrackMaxPerCore === 0 ? 0 : Math.max(conntrackMaxPerCore * processors, conntrackMin);
  const settings = [
    { key: TABLE_SIZE, value: max },
    { key: "net/netfilter/nf_conntrack_tcp_timeout_established", value: Math.ceil(conntrackEstablishedTimeout / 1000) },
    { key: "net/netfilter/nf_conntrack_tcp_timeout_close_wait", value: Math.ceil(conntrackCloseWaitTimeout / 1000) },
  ];
  return settings.filter(({ value }) => value > 0);
}

const MEBIBYTE = 1024 * 1024;
/** Of the machine's memory, for each family. */
const FRAGMENTS_PART = 1 / 32;

/** How many mebibytes for fragments this machine has, of those that the configuration asks for; 0 stays 0. */
export function affordableFragmentMemory(mebibytes: number, machineBytes: number): number {
  return Math.min(mebibytes, Math.max(4, Math.floor((machineBytes * FRAGMENTS_PART) / MEBIBYTE)));
}

/**
 * The settings of reassembly that pods' shares are made for (fragment_share.ts): room, and a short time, so that what is
 * never completed gives it back.
 *
 * @param mebibytes of each family; 0 for none
 */
export function fragmentSettings(mebibytes: number): readonly BoundedSetting[] {
  if (mebibytes === 0) return [];
  return [
    { key: "net/ipv4/ipfrag_high_thresh", value: mebibytes * MEBIBYTE },
    { key: "net/netfilter/nf_conntrack_frag6_high_thresh", value: mebibytes * MEBIBYTE },
    { key: "net/ipv4/ipfrag_time", value: REASSEMBLY_SECONDS, isMost: true },
    { key: "net/netfilter/nf_conntrack_frag6_timeout", value: REASSEMBLY_SECONDS, isMost: true },
  ];
}

/** Writes the settings of this thread's network namespace once, when rules are in force: with them nf_conntrack is there. */
export function openConntrackSettings(
  configuration: ConntrackConfiguration & Pick<Configuration, "fragmentMemory">,
  machine: ConntrackMachine,
  ruleset: Pick<Ruleset, "follow">,
): void {
  const { syscalls, clock, logger, originals } = machine;
  const sysctl = rememberingSysctl(procSysctl(syscalls), originals);
  const settings = [
    ...conntrackSettings(configuration, cpus().length),
    ...fragmentSettings(affordableFragmentMemory(configuration.fragmentMemory, totalmem())),
  ];
  let isDone = false;
  ruleset.follow(() => {
    if (!isDone) clock.after(0, () => raiseSettings(settings, sysctl, logger));
    isDone = true;
  });
}

/**
 * Raises settings that are lower; a larger value is somebody's intention and stays. What cannot be written, as the size of the
 * table in a network namespace that is not the machine's first, is told and left.
 */
export function raiseSettings(settings: readonly BoundedSetting[], sysctl: Sysctl, logger: Logger): void {
  for (const setting of settings) {
    const reason = attempt(() => bound(sysctl, setting, logger));
    if (reason === undefined) continue;
    const { key, value, isMost = false } = setting;
    logger.warn(`a kernel setting is ${isMost ? "higher" : "lower"} than it should be`, {
      setting: key.replaceAll("/", "."),
      [isMost ? "most" : "least"]: value,
      reason,
    });
  }
}

/** @returns why it is not within its bound; undefined when it is */
function bound(sysctl: Sysctl, { key, value, isMost = false }: BoundedSetting, logger: Logger): string | undefined {
  const present = sysctl.read(key);
  if (present === undefined) return "the kernel does not have it: is nf_conntrack loaded?";
  // What is no number is nothing to compare with.
  if (!/^\d+$/.test(present)) return `it is ${JSON.stringify(present)}, expected a number`;
  // A size of 0 is any number of connections (__nf_conntrack_alloc).
  const isWithin = isMost ? Number(present) <= value : Number(present) >= value;
  if (isWithin || (key === TABLE_SIZE && Number(present) === 0)) return undefined;
  sysctl.write(key, String(value));
  logger.info(`kernel setting ${isMost ? "lowered" : "raised"}`, {
    setting: key.replaceAll("/", "."),
    before: Number(present),
    after: value,
  });
  return undefined;
}

function attempt(action: () => string | undefined): string | undefined {
  try {
    return action();
  } catch (error) {
    if (!(error instanceof DrawbridgeError)) throw error;
    return `it cannot be written here: ${error.message}; set it on the node with sysctl`;
  }
}
