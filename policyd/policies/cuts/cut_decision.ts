import { type ConntrackLabels, hasLabel, labelBit } from "../../../kernel/conntrack/labels.ts";
import type { Masked } from "../../../kernel/conntrack/filter.ts";
import { ALLOWED_LABEL } from "../compile/policy_table.ts";
import type { ConntrackEntry } from "../../../kernel/conntrack/entry.ts";
import { protocolOf } from "../../../objects/protocol.ts";
import type { PolicedFlow } from "../compile/profile_verdict.ts";
import type { FlowVerdict } from "../live/flow_evaluator.ts";

/** The label of a connection that rules had let through and that was cut since. No rule checks it. */
export const CUT_LABEL = 101;

/** The known state of a connection before its verdict. */
export interface FlowState {
  /** Its packets pass in both directions. */
  readonly isLabelled: boolean;
  /** It was let through before, and cut. */
  readonly wasCut: boolean;
  /** Its packets pass although its conntrack entry has no extension for labels. */
  readonly isSettled: boolean;
}

/** The change to a connection. */
export type CutDecision =
  /** It stays as it is. */
  | "none"
  /** It stops in both directions. */
  | "cut"
  /** It continues in both directions. */
  | "restore"
  /** It continues in both directions if its entry has no extension for labels; otherwise nothing changes. */
  | "probe";

/** Returns the state that the labels show. @param isSettled whether it is in the set of connections without labels */
export function flowState(labels: ConntrackLabels, isSettled: boolean): FlowState {
  return { isLabelled: hasLabel(labels, ALLOWED_LABEL), wasCut: hasLabel(labels, CUT_LABEL), isSettled };
}

/**
 * Returns the change to a connection with this verdict.
 *
 * An allowed connection is labelled so that a server can continue that sends while its client is silent. This lets
 * nothing through that the rules would not: the verdict is the one they would give the next packet of the original
 * direction, for which they would set the label for both directions. But an entry in the table of connections does not
 * prove that rules have ever seen such a packet. A stranger behind the uplink can send in a pod's name and have an
 * accomplice answer. The rules know only packets of the bridge, so the stranger's packets get no label, and the answers
 * do not reach the pod. Therefore only a connection that had the label and was cut is labelled again: nobody else sets
 * the label that it has instead.
 *
 * A connection without an extension for labels began before any rule that sets one (nf_ct_labels_ext_add), when no
 * policy applied: before the first table, or while another program had removed it. Rules can never label it, so it is
 * let through by its number.
 *
 * @param isOpening whether this is the first table: another program's rules may have added the extension
 */
export function cutDecision(
  verdict: FlowVerdict,
  { isLabelled, wasCut, isSettled }: FlowState,
  isOpening: boolean,
): CutDecision {
  if (verdict === "not ours") return "none";
  const passes = isLabelled || isSettled;
  if (verdict === "denied") return passes ? "cut" : "none";
  if (passes) return "none";
  return wasCut || isOpening ? "restore" : "probe";
}

/** Whether a denied connection has passed before, so that both ends regard it as established. */
export function isBroken(verdict: FlowVerdict, state: FlowState, isOpening: boolean): boolean {
  return verdict === "denied" && (state.isLabelled || state.isSettled || state.wasCut || isOpening);
}

const allowed = labelBit(ALLOWED_LABEL);
const cut = labelBit(CUT_LABEL);

/**
 * The change of labels for each decision. A probe changes nothing, but is refused like any change if there is no
 * extension.
 */
export const DECISION_LABELS: Readonly<Record<Exclude<CutDecision, "none">, Masked<ConntrackLabels>>> = Object.freeze({
  cut: { value: cut, mask: allowed | cut },
  restore: { value: allowed, mask: allowed | cut },
  probe: { value: 0n, mask: cut },
});

/**
 * Returns a connection as the rules saw its first packet: from its source before masquerading, to the destination that
 * destination NAT chose, from which its answers come.
 */
export function policedFlow({ original, reply }: Pick<ConntrackEntry, "original" | "reply">): PolicedFlow {
  return {
    source: original.source,
    destination: reply.source,
    protocol: protocolOf(original.protocol),
    port: reply.sourcePort ?? 0,
  };
}
