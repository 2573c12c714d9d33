import { cpus, totalmem } from "node:os";
import { type OriginalSettingsPlace, rememberingSysctl } from "../../attachment/original_settings.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { procSysctl, type Sysctl } from "../../kernel/sysctl.ts";
import type { FileCalls } from "../../kernel/syscall/file_calls.ts";
import type { Clock } from "../lib/clock.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { Ruleset } from "../ruleset/ruleset.ts";
import type { Logger } from "../log/logger.ts";
import { REASSEMBLY_SECONDS } from "./tables/fragment_share.ts";

/** Conntrack settings. The daemon's configuration has the fields under the same names; 0 leaves a setting unchanged. */
export interface ConntrackConfiguration {
  /** Size of the conntrack table, in connections per processor. */
  readonly conntrackMaxPerCore: number;
  /** Minimum size of the table, however few processors there are. */
  readonly conntrackMin: number;
  /** Milliseconds. */
  readonly conntrackEstablishedTimeout: number;
  /** Milliseconds. */
  readonly conntrackCloseWaitTimeout: number;
}

/** The parts of the machine that {@link openConntrackSettings} needs. */
export interface ConntrackMachine {
  readonly syscalls: FileCalls;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Where the original values are stored. */
  readonly originals: OriginalSettingsPlace;
}

const TABLE_SIZE = "net/netfilter/nf_conntrack_max";

/** A setting with its lower bound, or with its upper bound where `isMost` is true. */
export interface BoundedSetting {
  readonly key: string;
  readonly value: number;
  readonly isMost?: boolean;
}

/**
 * Returns the conntrack settings that a node of a cluster needs, with kube-proxy's names and defaults: room for many
 * connections, and a half-closed connection is remembered for as long as an idle backend may take to close its end.
 *
 * @param processors the number of processors
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
/** Share of the machine's memory, for each family. */
const FRAGMENTS_PART = 1 / 32;

/** Returns the requested mebibytes for fragments, reduced to what this machine can afford; 0 stays 0. */
export function affordableFragmentMemory(mebibytes: number, machineBytes: number): number {
  return Math.min(mebibytes, Math.max(4, Math.floor((machineBytes * FRAGMENTS_PART) / MEBIBYTE)));
}

/**
 * Returns the reassembly settings that pods' shares are computed for (tables/fragment_share.ts): enough memory, and a
 * short timeout, so that incomplete datagrams release theirs.
 *
 * @param mebibytes for each family; 0 returns no settings
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

/** Writes the settings of this thread's network namespace once rules are in force, as nf_conntrack is loaded then. */
export function openConntrackSettings(
  configuration: ConntrackConfiguration & Pick<Configuration, "fragmentMemory">,
  machine: ConntrackMachine,
  ruleset: Pick<Ruleset, "committed">,
): void {
  const { syscalls, clock, logger, originals } = machine;
  const sysctl = rememberingSysctl(procSysctl(syscalls), originals);
  const settings = [
    ...conntrackSettings(configuration, cpus().length),
    ...fragmentSettings(affordableFragmentMemory(configuration.fragmentMemory, totalmem())),
  ];
  let isDone = false;
  ruleset.committed.subscribe(() => {
    if (!isDone) clock.after(0, () => raiseSettings(settings, sysctl, logger));
    isDone = true;
  });
}

/**
 * Raises settings that are below their bound and lowers those above an upper bound; other values are somebody's
 * intention and stay. A setting that cannot be written, such as the table size outside the machine's first network
 * namespace, is logged and left unchanged.
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

/** @returns why the setting is not within its bound; undefined when it is */
function bound(sysctl: Sysctl, { key, value, isMost = false }: BoundedSetting, logger: Logger): string | undefined {
  const present = sysctl.read(key);
  if (present === undefined) return "the kernel does not have it: is nf_conntrack loaded?";
  // A value that is not a number cannot be compared.
  if (!/^\d+$/.test(present)) return `it is ${JSON.stringify(present)}, expected a number`;
  // A size of 0 means unlimited (__nf_conntrack_alloc).
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
