import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import type { JudgedNodes } from "../cluster/node_verdict.ts";
import { problemsIn } from "../cluster/node_verdict.ts";
import type { Frame } from "./desired.ts";
import { tunnelProblems } from "./difference.ts";
import type { KernelState } from "./kernel_state.ts";
import { isOurs } from "./names.ts";
import { isExpected, isRelevant } from "./relevance.ts";
import type { RoutePlan } from "./route_plan.ts";

/** What there is to be: the routes of each Node, and what they share. */
export type Made = Frame & { readonly plan: RoutePlan };

/** What a look at the routes has found. */
export interface View {
  /** Without what is ours. */
  readonly state: KernelState;
  /** Undefined where that cannot be told, and before the first look has found it out. */
  readonly made: Made | undefined;
}

/** What is left of a state to judge notifications by. */
export function viewOf(state: KernelState, made: Made | undefined): View {
  const tunnel = state.tunnel && { ...state.tunnel, forwarding: [], neighbours: [] };
  return { state: { ...state, routes: state.routes.filter((route) => !isOurs(route)), tunnel }, made };
}

/**
 * Whether a notification is a reason to look again: it may mean a change that is not one of ours.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when it cannot be read: then it may have meant anything
 */
export function isReason(message: ReceivedMessage, { state, made }: View): boolean {
  if (!isRelevant(message, state)) return false;
  return made === undefined || !isExpected(message, { ...made, tunnel: state.tunnel?.index });
}

/** What is not as it should be, apart from what the kernel has just refused. */
export function standingProblems(judged: JudgedNodes, view: View | undefined): readonly string[] {
  if (view?.made === undefined) return problemsIn(judged);
  const { state, made } = view;
  return [...problemsIn(judged), ...problemsIn(made.plan), ...made.problems, ...tunnelProblems(made.tunnel, state)];
}
