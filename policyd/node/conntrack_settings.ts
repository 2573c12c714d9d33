import type { Family } from "../../kernel/ip/address.ts";
import { cpus, totalmem } from "node:os";
import { giveBack, rememberingSysctl } from "../../attachment/original_settings.ts";
import type { Machine } from "../machine.ts";
import { attempt, type DrawbridgeError } from "../../kernel/error.ts";
import { Errno } from "../../kernel/syscall/errno.ts";
import { SyscallError } from "../../kernel/syscall/syscalls.ts";
import { procSysctl, type Sysctl } from "../../kernel/sysctl.ts";
import { dotted } from "../node_state/surroundings.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { NodeConfiguration } from "./tables/configuration.ts";
import type { Logger } from "../log/logger.ts";
import { type Reassembly, REASSEMBLY_SECONDS } from "./tables/fragment_share.ts";

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

const TABLE_SIZE = "net/netfilter/nf_conntrack_max";

/** A setting with its lower bound, or with its upper bound where `isMost` is true; 0 where none is asked for. */
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
  return [
    { key: TABLE_SIZE, value: max },
    { key: "net/netfilter/nf_conntrack_tcp_timeout_established", value: Math.ceil(conntrackEstablishedTimeout / 1000) },
    { key: "net/netfilter/nf_conntrack_tcp_timeout_close_wait", value: Math.ceil(conntrackCloseWaitTimeout / 1000) },
  ];
}

const MEBIBYTE = 1024 * 1024;
const REASSEMBLY_KEYS = {
  4: { memory: "net/ipv4/ipfrag_high_thresh", time: "net/ipv4/ipfrag_time" },
  6: { memory: "net/netfilter/nf_conntrack_frag6_high_thresh", time: "net/netfilter/nf_conntrack_frag6_timeout" },
} as const;
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
 * @param mebibytes for each family; 0 asks for nothing
 */
export function fragmentSettings(mebibytes: number): readonly BoundedSetting[] {
  const { 4: ipv4, 6: ipv6 } = REASSEMBLY_KEYS;
  const seconds = mebibytes === 0 ? 0 : REASSEMBLY_SECONDS;
  return [
    { key: ipv4.memory, value: mebibytes * MEBIBYTE },
    { key: ipv6.memory, value: mebibytes * MEBIBYTE },
    { key: ipv4.time, value: seconds, isMost: true },
    { key: ipv6.time, value: seconds, isMost: true },
  ];
}

/**
 * Returns what the kernel has for reassembly, of what was asked for: before Linux 6.0 or so it takes no more memory for
 * IPv6 than its 4 MiB. A setting that cannot be read counts as written.
 */
export function reassemblyInForce(mebibytes: number, sysctl: Sysctl): Readonly<Record<Family, Reassembly>> {
  const present = (key: string, otherwise: number): number => {
    const text = sysctl.read(key) ?? "";
    return /^\d+$/.test(text) ? Number(text) : otherwise;
  };
  const of = ({ memory, time }: { readonly memory: string; readonly time: string }): Reassembly => ({
    mebibytes: Math.min(mebibytes, present(memory, mebibytes * MEBIBYTE) / MEBIBYTE),
    seconds: Math.max(REASSEMBLY_SECONDS, present(time, REASSEMBLY_SECONDS)),
  });
  return { 4: of(REASSEMBLY_KEYS[4]), 6: of(REASSEMBLY_KEYS[6]) };
}

/**
 * Writes the settings of this thread's network namespace. nf_conntrack, which has most of them, must be loaded. Settings
 * of an earlier daemon that this one does not ask for get their values from before back, but for the size of the table,
 * which may have more connections by now.
 *
 * @returns the memory and the time for fragments that are in force then
 */
export function writeConntrackSettings(
  configuration: ConntrackConfiguration & Pick<Configuration, "fragmentMemory" | "syncPeriod">,
  { syscalls, logger, originals, clock }: Pick<Machine, "syscalls" | "logger" | "originals" | "clock">,
): Pick<NodeConfiguration, "fragmentMemory" | "reassembly"> {
  const sysctl = rememberingSysctl(procSysctl(syscalls), originals);
  const fragmentMemory = affordableFragmentMemory(configuration.fragmentMemory, totalmem());
  const settings = [...conntrackSettings(configuration, cpus().length), ...fragmentSettings(fragmentMemory)];
  const later = (action: () => void): void => void clock.after(configuration.syncPeriod, action);
  raiseSettings(settings, sysctl, logger, later);
  for (const { key, value } of settings) {
    if (value > 0 || key === TABLE_SIZE) continue;
    attempt(
      () => giveBack(sysctl, originals, key),
      ({ message }) => logger.warn("a kernel setting is not given back", { setting: dotted(key), reason: message }),
    );
  }
  return { fragmentMemory, reassembly: reassemblyInForce(fragmentMemory, sysctl) };
}

/**
 * Raises settings that are below their bound and lowers those above an upper bound; other values are somebody's
 * intention and stay. A setting that cannot be written, such as the table size outside the machine's first network
 * namespace, is logged and left unchanged, and so is one that the kernel does not take. One whose value from before
 * cannot be stored is tried again.
 *
 * @param later runs an action after a while
 */
export function raiseSettings(
  settings: readonly BoundedSetting[],
  sysctl: Sysctl,
  logger: Logger,
  later: (action: () => void) => void,
): void {
  const unstored: BoundedSetting[] = [];
  for (const setting of settings) {
    const { key, value, isMost = false } = setting;
    if (value === 0) continue;
    const reason = attempt(
      () => bound(sysctl, setting, logger),
      (error) => {
        if (error.code === "ERR_STORE") unstored.push(setting);
        return refusalText(error);
      },
    );
    if (reason === undefined) continue;
    logger.warn(`a kernel setting is ${isMost ? "higher" : "lower"} than it should be`, {
      setting: dotted(key),
      [isMost ? "most" : "least"]: value,
      reason,
    });
  }
  if (unstored.length > 0) later(() => raiseSettings(unstored, sysctl, logger, later));
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
  const after = sysctl.read(key);
  if (after !== String(value)) return `the kernel left it at ${after}`;
  logger.info(`kernel setting ${isMost ? "lowered" : "raised"}`, {
    setting: dotted(key),
    before: Number(present),
    after: value,
  });
  return undefined;
}

/** Returns why a setting is not written. For root, too, no other way of writing helps. */
function refusalText(error: DrawbridgeError): string {
  if (error.code === "ERR_STORE") return `${error.message}; it is tried again`;
  return error instanceof SyscallError && error.errno === Errno.EINVAL
    ? `the kernel does not take it: ${error.message}`
    : `it cannot be written here: ${error.message}; set it on the node with sysctl`;
}
