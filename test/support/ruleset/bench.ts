import type { Table } from "../../../kernel/nftables/model/object.ts";
import type { Nftables } from "../../../kernel/nftables/socket.ts";
import { recordingLogger } from "../recording_logger.ts";
import { Ruleset } from "../../../policyd/ruleset/ruleset.ts";
import { FakeClock } from "../fake_clock.ts";

/** Times in milliseconds; without them each turn has its batch, and nothing is checked without a reason. */
interface BenchTimes {
  readonly minSyncPeriod?: number;
  readonly syncPeriod?: number;
}

export interface RulesetBench<K> {
  readonly kernel: K;
  readonly clock: FakeClock;
  readonly logger: ReturnType<typeof recordingLogger>;
  readonly ruleset: Ruleset;
}

/** Returns a ruleset over a kernel, with the clock that drives it. */
export function rulesetBench<K extends Nftables>(
  kernel: K,
  tables: readonly Table[],
  { minSyncPeriod = 0, syncPeriod = 3_600_000 }: BenchTimes = {},
): RulesetBench<K> {
  const [clock, logger] = [new FakeClock(), recordingLogger()];
  const ruleset = new Ruleset({ kernel, clock, logger, tables, minSyncPeriod, syncPeriod });
  return { kernel, clock, logger, ruleset };
}
