import type { Traffic } from "../../../objects/semantics/policies/flow.ts";
import type { End, HostsEnd } from "../../cluster/find_end.ts";

/** A connection in question; without traffic, everything between its ends. */
export interface ExplainQuestion {
  readonly from: HostsEnd;
  readonly to: End;
  readonly traffic: Traffic | undefined;
}
