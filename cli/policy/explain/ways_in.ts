import type { Pod } from "../../../objects/model.ts";
import type { Traffic } from "../../../objects/semantics/policies/flow.ts";
import { groupName } from "../../cluster/group.ts";
import type { End, Host, HostsEnd } from "../../cluster/find_end.ts";
import { doorsOf } from "../../ways_in/doors.ts";
import type { WayBackend, WayIn } from "../../ways_in/ways_in.ts";
import { PROTOCOLS } from "../../../objects/protocol.ts";
import type { ExplainContext } from "./context.ts";
import { explain } from "./explain.ts";
import { answerOf, type ExplainQuestion, type Explanation, type WayInReport } from "./explanation.ts";

/** The most doors of a controller that are tried. */
const MOST_DOORS = 16;

/**
 * Returns the ways by which connections from outside reach a destination through an Ingress or a route, each with both
 * of its hops: from outside to the controller, and from there to the pods. There are none from within the cluster.
 */
export function explainWaysIn(context: ExplainContext, question: ExplainQuestion): readonly WayInReport[] {
  const { from, to, traffic } = question;
  if (from.hosts.some(({ type }) => type !== "outside")) return [];
  if (traffic !== undefined && traffic.protocol !== "TCP") return [];
  return context.waysIn.ways.flatMap((way) => {
    const onward = onwardTo(way, to, traffic);
    return onward.size === 0 ? [] : [wayReport(context, from, way, onward)];
  });
}

/** Returns the pods of a destination that a way leads to, by the port. */
function onwardTo({ backends }: WayIn, to: End, traffic: Traffic | undefined): ReadonlyMap<number, readonly Pod[]> {
  const asked = backends.filter((backend) => to.type !== "service" || isOf(backend, to.service, traffic));
  const keys = new Set(
    to.type === "service" ? [] : to.hosts.flatMap((host) => (host.type === "pod" ? [host.pod.key] : [])),
  );
  const endpoints = asked.flatMap((backend) => backend.endpoints);
  const wanted = endpoints.filter(
    ({ pod, port }) =>
      to.type === "service" || (keys.has(pod.key) && (traffic?.port === undefined || traffic.port === port)),
  );
  const byPort = new Map<number, Map<string, Pod>>();
  for (const { pod, port } of wanted) {
    byPort.set(port, (byPort.get(port) ?? new Map<string, Pod>()).set(pod.key, pod));
  }
  return new Map([...byPort].map(([port, pods]) => [port, [...pods.values()]]));
}

/** Returns whether requests are forwarded to the Service's port in question. */
function isOf(
  { namespace, service: name, port }: WayBackend,
  service: Extract<End, { readonly type: "service" }>["service"],
  traffic: Traffic | undefined,
): boolean {
  if (service.namespace !== namespace || service.name !== name) return false;
  if (traffic?.port === undefined || port === undefined) return true;
  return service.ports.some((one) => one.port === traffic.port && (one.port === port || one.name === port));
}

function wayReport(
  context: ExplainContext,
  from: HostsEnd,
  { name, placed: { file, line }, through, controllers }: WayIn,
  onward: ReadonlyMap<number, readonly Pod[]>,
): WayInReport {
  const controller = endOf(controllers, through);
  const entry = entryOf(context, from, controllers, controller);
  const sent = [...onward].map(([port, pods]) =>
    explain(context, { from: controller, to: endOf(pods, name), traffic: { protocol: "TCP", port } }),
  );
  const open = isEver(entry) && sent.some(isEver);
  const mayBeOpen = mayEver(entry) && sent.some(mayEver);
  const isAlways = [entry, ...sent].every(({ allowed, partly }) => allowed && !partly);
  const unknown = !open && mayBeOpen ? { unknown: true as const } : {};
  return { name, file, line, through, open, partly: open && !isAlways, ...unknown, entry, onward: sent };
}

/** Returns the connection from outside to the controller, by the door that is most open. */
function entryOf(
  context: ExplainContext,
  from: HostsEnd,
  controllers: readonly Pod[],
  controller: HostsEnd,
): Explanation {
  const doors = doorsOf(context.cluster, context.worlds.objects, controllers);
  const ofServices = doors.services.flatMap(({ service, ports }) =>
    ports.map((port): ExplainQuestion => {
      const to = { type: "service", name: `service/${service.key}`, service, address: undefined } as const;
      return { from, to, traffic: { protocol: "TCP", port } };
    }),
  );
  const ports = new Set([...doors.ports.values()].flat());
  const ofPods = [...ports].map((port): ExplainQuestion => ({
    from,
    to: controller,
    traffic: { protocol: "TCP", port },
  }));
  const any: ExplainQuestion = { from, to: controller, traffic: undefined };
  const [first = any, ...more] = (ofServices.length > 0 ? ofServices : ofPods).slice(0, MOST_DOORS);
  let best = explain(context, first);
  for (const question of more) {
    if (best.allowed) break;
    const next = explain(context, question);
    if (next.allowed || (next.partly && !best.partly)) best = next;
  }
  return best;
}

/** Returns whether a connection is allowed in some case; for a question about everything, whether some TCP is. */
function isEver({ protocol, allowed, partly, cases }: Explanation): boolean {
  if (protocol !== null) return allowed || partly;
  const [tcp] = PROTOCOLS;
  return cases.some((one) => one.allowed && one.connections.some((text) => text === "all" || text.endsWith(`/${tcp}`)));
}

function mayEver(explanation: Explanation): boolean {
  return isEver(explanation) || answerOf(explanation) === "not known";
}

/** Returns some pods as an end, named by their workload if it is one, or by another name. */
function endOf(pods: readonly Pod[], name: string): HostsEnd {
  const workloads = new Set(pods.map((pod) => groupName(pod, "workload")));
  const [workload] = workloads;
  const [first, ...others] = pods.map((pod): Host => ({ type: "pod", pod }));
  if (first === undefined || workload === undefined) throw new RangeError("a way in without pods");
  const isOne = workloads.size === 1;
  return { type: "workload", name: isOne ? workload : name, hosts: [first, ...others], address: undefined };
}
