import type { AffectedAddresses } from "./pods/affected_addresses.ts";

/** The flows whose verdict may have changed with the rules that are now in force. */
export interface ChangedVerdicts {
  readonly addresses: AffectedAddresses;
  /** The addresses among them that may have flows already. */
  readonly withFlows: AffectedAddresses;
}

/** A part that depends on the verdicts of policies. */
export interface PolicyFollower {
  /** Called when all policies are known; the rules may be written when this settles. It never fails. */
  prepare?(): Promise<void>;
  /** Called when the kernel has all rules that follow from the changes so far. */
  rulesInForce?(): void;
  /** Called with changes that concern some address. */
  verdictsChanged?(changed: ChangedVerdicts): void;
  /** The present problems, for the status. */
  problems?(): readonly string[];
  stop(): void;
}
