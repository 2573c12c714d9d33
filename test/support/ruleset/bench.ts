import type { Table } from "../../../kernel/nftables/model/object.ts";
import type { Nftables } from "../../../kernel/nftables/socket.ts";
import { recordingLogger } from "../recording_logger.ts";
import { Ruleset, type RulesetOptions } from "../../../policyd/ruleset/ruleset.ts";
import { FakeClock } from "../fake_clock.ts";

export interface RulesetBench<K> {
  readonly kernel: K;
  readonly clock: FakeClock;
  readonly logger: ReturnType<typeof recordingLogger>;
  readonly ruleset: Ruleset;
}

/**
 * Returns a ruleset over a kernel. Where no times are given, each turn has its batch, and nothing is checked without a
 * reason.
 */
export function rulesetOver(
  kernel: Nftables,
  tables: readonly Table[],
  options: Partial<Omit<RulesetOptions, "kernel" | "tables">> = {},
): Ruleset {
  const times = { minSyncPeriod: 0, syncPeriod: 3_600_000 };
  const usual = { clock: new FakeClock(), logger: recordingLogger(), obsolete: [], ...times };
  return new Ruleset({ ...usual, ...options, kernel, tables });
}

/** Returns a ruleset over a kernel, with the clock that drives it. */
export function rulesetBench<K extends Nftables>(
  kernel: K,
  tables: readonly Table[],
  options: Partial<Pick<RulesetOptions, "obsolete" | "minSyncPeriod" | "syncPeriod">> = {},
): RulesetBench<K> {
  const [clock, logger] = [new FakeClock(), recordingLogger()];
  return { kernel, clock, logger, ruleset: rulesetOver(kernel, tables, { clock, logger, ...options }) };
}
