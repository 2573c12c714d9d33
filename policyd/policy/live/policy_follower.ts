import type { AffectedAddresses } from "./affected_addresses.ts";

/** By the rules that are in force these flows may be judged otherwise than before. */
export interface ChangedVerdicts {
  readonly addresses: AffectedAddresses;
  /** Those of them of which there may be flows already. */
  readonly withFlows: AffectedAddresses;
}

/** What depends on the verdicts of policies. */
export interface PolicyFollower {
  /** All policies are known, and the rules may be written when this settles. It never fails. */
  prepare?(): Promise<void>;
  /** The kernel has all rules that follow from what was told by now. */
  rulesInForce?(): void;
  /** Told of changes that concern somebody. */
  verdictsChanged(changed: ChangedVerdicts): void;
  /** What is wrong now, for the status. */
  problems?(): readonly string[];
  stop(): void;
}
