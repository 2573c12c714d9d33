import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import { type JudgedNodes, problemsIn } from "../../objects/nodes/node_verdict.ts";
import type { Frame } from "./desired.ts";
import { tunnelProblems } from "./difference.ts";
import type { KernelState } from "./route_kernel/kernel_state.ts";
import { isOurs } from "./own_routes.ts";
import { isExpected, isRelevant } from "./relevance.ts";
import type { RoutePlan } from "./route_plan.ts";

/** The desired state: the routes of each Node, and what they share. */
export type Made = Frame & { readonly plan: RoutePlan };

/** The result of a pass, with which notifications are compared. */
export interface View {
  /** The state of the kernel without our own routes and entries. */
  readonly state: KernelState;
  /** Undefined where it cannot be determined, and before the first pass has computed it. */
  readonly made: Made | undefined;
}

/** Returns the part of a state that notifications are compared with. */
export function viewOf(state: KernelState, made: Made | undefined): View {
  const tunnel = state.tunnel && { ...state.tunnel, forwarding: [], neighbours: [] };
  return { state: { ...state, routes: state.routes.filter((route) => !isOurs(route)), tunnel }, made };
}

/**
 * Whether a notification is a reason for another pass: it may report a change that is not one of ours.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when it cannot be parsed: then treat it as a reason
 */
export function isReason(message: ReceivedMessage, { state, made }: View): boolean {
  if (!isRelevant(message, state)) return false;
  return made === undefined || !isExpected(message, { ...made, tunnel: state.tunnel?.index });
}

/** Returns all problems except for what the kernel has just refused. */
export function standingProblems(judged: JudgedNodes, view: View | undefined): readonly string[] {
  if (view?.made === undefined) return problemsIn(judged);
  const { state, made } = view;
  return [...problemsIn(judged), ...problemsIn(made.plan), ...made.problems, ...tunnelProblems(made.tunnel, state)];
}
