import type { Write } from "../api_write/api_writer.ts";

/**
 * Returns the patch that sets the condition NetworkUnavailable of a Node to False, as flannel and the cloud's route
 * controller do. Conditions are merged by type, so all others stay unchanged (the patch strategy of
 * NodeStatus.conditions).
 *
 * @param at time of the change, in milliseconds since the epoch
 */
export function availablePatch(nodeName: string, at: number): Write {
  const time = new Date(at).toISOString().replace(/\.\d+Z$/, "Z");
  const condition = {
    type: "NetworkUnavailable",
    status: "False",
    reason: "RouteCreated",
    message: "Drawbridge's rules and routes are in force on this node",
    lastHeartbeatTime: time,
    lastTransitionTime: time,
  };
  return {
    method: "PATCH",
    path: `/api/v1/nodes/${encodeURIComponent(nodeName)}/status`,
    body: JSON.stringify({ status: { conditions: [condition] } }),
  };
}
