import type { Pod, ServicePort } from "../../../../objects/model.ts";
import type { PortPattern } from "../../../../objects/semantics/policies/indexed_policy.ts";
import { type LintContext, remark, type RuleSite } from "../context.ts";
import type { LintRule, Remark } from "../finding.ts";
import { podsOfBlocks } from "../peer_state.ts";
import { namesText, portText } from "../selector_text.ts";

export const servicePort: LintRule = {
  id: "service-port",
  severity: "warning",
  summary:
    "A rule names the port of a Service; rules see packets after that, with the port the pods listen on (POL-34).",
  reason: "Such a rule never matches.",
  judgesBy: ["pods"],
  check: (context) => portSites(context).flatMap((site) => servicePortRemarks(context, site)),
};

export const unknownPortName: LintRule = {
  id: "unknown-port-name",
  severity: "warning",
  summary: "A rule names a port by a name that no container of the destination pods has.",
  reason: "Such a rule never matches.",
  judgesBy: ["pods"],
  check: (context) => portSites(context).flatMap((site) => nameRemarks(context, site)),
};

/** A rule with ports, and the pods that have these ports. */
interface PortSite extends RuleSite {
  readonly ports: readonly PortPattern[];
  readonly destinations: readonly Pod[];
}

function portSites(context: LintContext): readonly PortSite[] {
  return context.sites.flatMap((site) => {
    const { ports } = site.indexed;
    return ports === undefined ? [] : [{ ...site, ports, destinations: destinationsOf(context, site) }];
  });
}

/** Returns the selected pods for ingress and the peers for egress; all pods for rules without peers. */
function destinationsOf(context: LintContext, { linted, direction, indexed }: RuleSite): readonly Pod[] {
  if (direction === "ingress") return linted.pods;
  if (indexed.peers === undefined) return context.pods;
  return [...new Set(indexed.peers.flatMap((peer) => context.podsOf(peer) ?? []))];
}

function servicePortRemarks({ services }: LintContext, site: PortSite): readonly Remark[] {
  // All pods have all Services, so the intention is unknown.
  if (site.direction === "egress" && site.indexed.peers === undefined) return [];
  const isBehind = new Set(services.flatMap(({ pods }) => pods));
  // Nothing is known about the ports of a pod without a Service.
  if (!site.destinations.every((pod) => isBehind.has(pod))) return [];
  const behind = services.flatMap(({ service, pods }) => {
    const here = pods.filter((pod) => site.destinations.includes(pod));
    return here.flatMap((pod) => service.ports.map((port) => ({ service, port, target: targetOf(port, pod) })));
  });
  return site.ports.flatMap((pattern) => {
    const { port, endPort, protocol } = pattern;
    if (typeof port !== "number" || endPort !== undefined || protocol === undefined) return [];
    const ofProtocol = behind.filter((one) => one.port.protocol === protocol);
    // A pod listens on this port.
    if (ofProtocol.some(({ target }) => target === port)) return [];
    if (site.destinations.some(({ ports }) => ports.some((one) => one.port === port && one.protocol === protocol)))
      return [];
    const found = ofProtocol.find((one) => one.port.port === port && one.target !== undefined);
    if (found?.target === undefined || hasPort(site.ports, found.target, protocol)) return [];
    const message = `${portText(pattern)} is the port of Service ${found.service.key}; its pods listen on ${found.target}`;
    const path = [...site.path, "ports", pattern.index];
    return [remark(site.linted.manifest, path, message, `port: ${found.target}`)];
  });
}

/** Returns the pod's port for a Service's port; undefined where it has no port of the name. */
function targetOf({ targetPort, protocol }: ServicePort, { ports }: Pod): number | undefined {
  if (typeof targetPort === "number") return targetPort;
  return ports.find((one) => one.name === targetPort && one.protocol === protocol)?.port;
}

function hasPort(patterns: readonly PortPattern[], wanted: number, protocol: string): boolean {
  return patterns.some(({ protocol: own, port, endPort }) => {
    if (own !== protocol) return false;
    if (typeof port === "string") return false;
    return port === undefined || (port <= wanted && wanted <= (endPort ?? port));
  });
}

function nameRemarks(context: LintContext, site: PortSite): readonly Remark[] {
  if (context.pods.length === 0 || site.destinations.length === 0) return [];
  const ofBlocks = site.direction === "egress" ? podsOfBlocks(context, site) : [];
  const known = [...site.destinations, ...ofBlocks].flatMap(({ ports }) => ports);
  return site.ports.flatMap((pattern) => {
    const { port: name, protocol } = pattern;
    if (typeof name !== "string") return [];
    const called = known.filter((one) => one.name === name);
    if (called.some((one) => protocol === undefined || one.protocol === protocol)) return [];
    const [other] = called;
    const names = [...new Set(known.map((one) => one.name))].sort();
    const fix =
      other === undefined
        ? names.length === 0
          ? "none of their ports has a name: give the number"
          : `the names they have: ${namesText(names)}; or give the number`
        : `protocol: ${other.protocol}`;
    const message = `no container of the destination pods has a port ${portText(pattern)}, so it matches nothing`;
    return [remark(site.linted.manifest, [...site.path, "ports", pattern.index], message, fix)];
  });
}
