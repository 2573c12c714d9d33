import type { ConntrackLabels } from "../../../kernel/conntrack/labels.ts";
import { hasLabel, labelBit } from "../../../kernel/conntrack/labels.ts";
import type { Masked } from "../../../kernel/conntrack/filter.ts";
import { ALLOWED_LABEL } from "../compile/policy_table.ts";
import type { FlowVerdict } from "../live/flow_judge.ts";

/** The label of a connection that rules have let through once and that was cut since. No rule looks at it. */
export const CUT_LABEL = 101;

/** What is known of a connection before it is judged. */
export interface FlowState {
  /** Its packets pass in both directions. */
  readonly isLabelled: boolean;
  /** It was let through once, and cut. */
  readonly wasCut: boolean;
  /** Its packets pass although the kernel has no place for its labels. */
  readonly isSettled: boolean;
}

/** What is done about a connection. */
export type Fate =
  /** It goes on as it does, or does not. */
  | "none"
  /** It stops in both directions. */
  | "cut"
  /** It goes on in both directions. */
  | "restore"
  /** It goes on in both directions if the kernel has no place for its labels; else nothing changes. */
  | "probe";

/** Reads the labels. @param isSettled whether it is in the set of those without */
export function flowState(labels: ConntrackLabels, isSettled: boolean): FlowState {
  return { isLabelled: hasLabel(labels, ALLOWED_LABEL), wasCut: hasLabel(labels, CUT_LABEL), isSettled };
}

/**
 * What is done about a connection of this verdict.
 *
 * Labelling an allowed connection, so that a server goes on that sends while its client is silent, lets nothing through
 * that rules would not: the judge says what they would say to the next packet of the original direction, and they would
 * set the label then, for both directions. But the table of connections is no proof that rules have ever seen that packet:
 * a stranger behind the uplink can send in a pod's name, and have an accomplice answer him; the rules know only packets
 * of the bridge, so what he sends gets no label, and the answers do not get through to the pod. Therefore only that is
 * labelled again which had the label and was cut: the label it has instead is set by nobody else.
 *
 * What has no place for labels was there before any rule that sets one (nf_ct_labels_ext_add), when policies held for
 * nobody: with the first table, or while somebody else had taken it away. Rules can never label it, so it is let through
 * by its number.
 *
 * @param isOpening whether the table comes for the first time: another program's rules may have made the place
 */
export function fateOf(verdict: FlowVerdict, { isLabelled, wasCut, isSettled }: FlowState, isOpening: boolean): Fate {
  if (verdict === "not ours") return "none";
  const passes = isLabelled || isSettled;
  if (verdict === "denied") return passes ? "cut" : "none";
  if (passes) return "none";
  return wasCut || isOpening ? "restore" : "probe";
}

/** Whether what policies deny has passed once, so that both ends believe in a connection. */
export function isBroken(verdict: FlowVerdict, state: FlowState, isOpening: boolean): boolean {
  return verdict === "denied" && (state.isLabelled || state.isSettled || state.wasCut || isOpening);
}

const allowed = labelBit(ALLOWED_LABEL);
const cut = labelBit(CUT_LABEL);

/** How each fate is carried out. A probe changes nothing, and is refused as any change is where there is no place. */
export const FATE_LABELS: Readonly<Record<Exclude<Fate, "none">, Masked<ConntrackLabels>>> = Object.freeze({
  cut: { value: cut, mask: allowed | cut },
  restore: { value: allowed, mask: allowed | cut },
  probe: { value: 0n, mask: cut },
});
