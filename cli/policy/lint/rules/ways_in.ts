import type { Pod } from "../../../../objects/model.ts";
import { evaluatePolicy } from "../../../../objects/semantics/policies/evaluate.ts";
import { DIRECTIONS } from "../../../../objects/semantics/policies/flow.ts";
import { groupName } from "../../../cluster/group.ts";
import type { EndpointOf } from "../../../ways_in/backend_pods.ts";
import type { WayBackend, WayIn } from "../../../ways_in/ways_in.ts";
import { includes } from "../../connections/connection_set.ts";
import { PodConnections } from "../../connections/pod_connections.ts";
import { locator } from "../../../input/locate.ts";
import { reasonOf, reasonText } from "../../diff/witness.ts";
import type { LintContext } from "../context.ts";
import type { LintRule, Remark } from "../finding.ts";
import { namesText } from "../selector_text.ts";

export const controllerKeptOut: LintRule = {
  id: "controller-kept-out",
  severity: "warning",
  summary: "An Ingress or a route leads to pods that policies keep its controller's pods from.",
  reason: "Requests end at the controller with 502 or 504. Rules see the pods of the controller, not the client.",
  judgesBy: ["policies", "pods", "namespaces"],
  check: (context) => {
    const { ways } = context.waysIn;
    if (ways.length === 0) return [];
    const connections = new PodConnections(context.index);
    return ways.flatMap((way) => way.backends.flatMap((backend) => keptOut(context, connections, way, backend)));
  },
};

/** Reports, in one remark, the pods of a backend that a controller's pod may not reach. */
function keptOut(
  context: LintContext,
  all: PodConnections,
  { name, placed, through, controllers }: WayIn,
  { service, port, path, endpoints }: WayBackend,
): readonly Remark[] {
  const closed = endpoints.flatMap((endpoint): readonly (readonly [Pod, EndpointOf])[] => {
    const destination = all.pairs.pods.get(endpoint.pod.key);
    const controller = controllers.find(({ key }) => {
      const source = all.pairs.pods.get(key);
      if (source === undefined || destination === undefined) return false;
      const connections = all.ofPair(source, destination);
      return connections !== undefined && !includes(connections.every, "TCP", endpoint.port);
    });
    return controller === undefined ? [] : [[controller, endpoint]];
  });
  const [first] = closed;
  if (first === undefined) return [];
  const [controller, endpoint] = first;
  const pods = namesText(closed.map(([, { pod }]) => pod.key));
  const from = `${groupName(controller, "workload")}, the pods of ${through},`;
  const to = `Service ${service}${port === undefined ? "" : ` port ${port}`}`;
  const message = `leads to ${to}, and ${from} may not send to ${pods} at ${endpoint.port}/TCP: ${denialText(context, controller, endpoint)}`;
  const fix = `allow ingress from pods of namespace ${controller.namespace} at port ${endpoint.port}, and egress there`;
  const { file, lineOf, source } = placed;
  return [{ place: { object: name, file, line: lineOf(path), source }, message, fix }];
}

/** Returns why policies deny a connection. */
function denialText({ index, manifests }: LintContext, controller: Pod, { pod, port }: EndpointOf): string {
  const ends = { source: { type: "pod", key: controller.key }, destination: { type: "pod", key: pod.key } } as const;
  const verdict = evaluatePolicy(index, { ...ends, protocol: "TCP", port });
  if (verdict.kind === "impossible") return "they have no family of addresses in common";
  const locate = locator(manifests.manifests);
  const denied = DIRECTIONS.filter((direction) => !verdict[direction].isAllowed);
  const texts = denied.map((direction) => reasonText(direction, reasonOf(verdict[direction], direction, locate)));
  return texts.length > 0 ? texts.join("; ") : "in one family of addresses";
}
