import type { Sides } from "../diff/end_class.ts";
import { type Locate, type Place, reasonOf } from "../diff/witness.ts";
import type { SeenConnections } from "./read_tables.ts";
import { type Cut, type Forecast, forecast } from "./forecast.ts";
import { type KeepingRule, keepingRules, type Unkeepable } from "./keeping_rule.ts";

/** A cut with its reasons and the rules that would prevent it. */
export interface ReportedCut {
  readonly cut: Cut;
  readonly reasons: readonly { readonly direction: string; readonly text: string; readonly places: readonly Place[] }[];
  readonly rules: readonly (KeepingRule | Unkeepable)[];
}

/** The effect of a change on the connections of some tables. */
export interface LiveReport extends Omit<Forecast, "cuts"> {
  /** The number of entries with protocols to which policies do not apply. */
  readonly others: number;
  readonly cuts: readonly ReportedCut[];
}

/** Returns the effect of a change on connections. @param locate finds the policies after the change */
export function liveReport(sides: Sides, locate: Locate, { connections, others, denied }: SeenConnections): LiveReport {
  const { cuts, ...counts } = forecast(sides, connections, denied);
  return { ...counts, others, cuts: cuts.map((cut) => reportedCut(cut, keepingRules(sides.after, cut), locate)) };
}

function reportedCut(cut: Cut, rules: ReportedCut["rules"], locate: Locate): ReportedCut {
  const reasons = cut.denials.map(({ direction, verdict }) => {
    const { text, places } = reasonOf(verdict, direction, locate);
    return { direction, text, places };
  });
  return { cut, reasons, rules };
}
