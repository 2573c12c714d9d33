import { linkAlias } from "../../attachment/names_and_macs.ts";
import { type Address, formatAddress } from "../../kernel/ip/address.ts";
import { formatCidr } from "../../kernel/ip/cidr.ts";
import type { Link } from "../../kernel/route/link.ts";
import { canForward, PORT_FLAGS } from "../wiring/wiring.ts";
import { type DesiredBridge, type DesiredPort, subnetOf } from "./desired.ts";
import type { ObservedBridge, ObservedPort, Step } from "./observed.ts";

/**
 * Returns the steps that lead from the observed to the desired state, in the order in which they must be taken. Only
 * observed parts are compared. A missing bridge is made first; the next pass adds its addresses, ports and routes.
 *
 * A link of another kind with the bridge's name, and a link with a port's name and another MAC address, belong to other
 * programs and stay as they are.
 */
export function repairSteps(desired: DesiredBridge, observed: ObservedBridge): readonly Step[] {
  const { link } = observed;
  if (link === undefined) {
    const [mac] = desired.macs;
    return mac === undefined ? [] : [{ part: "bridge", type: "create-bridge", name: desired.name, mac }];
  }
  if (link.kind !== "bridge") return [];
  return [
    // Settings come first: a bridge accepts no router advertisement until it is up.
    ...settingSteps(desired, observed),
    ...bridgeSteps(desired, link),
    ...addressSteps(desired, observed, link.index),
    ...[...observed.ports].flatMap(([name, port]) => {
      const wanted = desired.ports.get(name);
      return wanted === undefined ? [] : portSteps(wanted, port, link.index);
    }),
    ...neighbourSteps(desired, observed, link.index),
    ...routeSteps(desired, observed, link.index),
  ];
}

function settingSteps({ settings }: DesiredBridge, observed: ObservedBridge): readonly Step[] {
  return [...settings].flatMap(([key, value]): readonly Step[] => {
    const present = observed.settings.get(key);
    return present === undefined || present === value ? [] : [{ part: "setting", type: "write-setting", key, value }];
  });
}

function bridgeSteps({ macs, mtu }: DesiredBridge, link: Link): readonly Step[] {
  const [mac] = macs;
  const to = {
    ...(link.bridge?.stp === true ? { stp: false as const } : {}),
    ...(mac === undefined || (link.mac !== undefined && macs.includes(link.mac)) ? {} : { mac }),
    ...(mtu === undefined || link.mtu === mtu ? {} : { mtu }),
    ...(link.up ? {} : { up: true as const }),
  };
  return Object.keys(to).length === 0 ? [] : [{ part: "bridge", type: "change-bridge", index: link.index, to }];
}

function addressSteps({ addresses }: DesiredBridge, observed: ObservedBridge, index: number): readonly Step[] {
  const present = new Set(observed.addresses.map(formatCidr));
  return addresses
    .filter((address) => !present.has(formatCidr(address)))
    .map((address): Step => ({ part: "address", type: "add-address", index, address }));
}

/**
 * Whether an ADD made the link and set its alias; an unfinished link is left to its ADD (makePodLink of
 * cni/wiring/pod_link.ts). It is known by its MAC address or, if another program has changed that, by the pod's alias.
 */
export function isMade({ link }: ObservedPort, { mac, pod }: DesiredPort): boolean {
  return link?.alias !== undefined && (link.mac === mac || link.alias === linkAlias(pod));
}

function portSteps(port: DesiredPort, observed: ObservedPort, bridge: number): readonly Step[] {
  const { link, entry, filters } = observed;
  if (link === undefined || !isMade(observed, port)) return [];
  const { index } = link;
  const steps: Step[] = [];
  if (!isAttached(port, link, bridge)) steps.push({ part: "port", type: "change-port", index, bridge, port });
  steps.push(...delaySteps(port, observed, index));
  // Filters that lead to a removed bridge drop the packets.
  const isAstray = filters?.targets.some((target) => target !== bridge) === true;
  if (isAstray) steps.push({ part: "bypass", type: "remove-filters", index, port });
  const lacksFilters =
    port.bypass === "both ways" &&
    filters !== undefined &&
    // If another program has filters for the pod's packets, these take the bridge, so that it sees them.
    !filters.hasOthers &&
    (isAstray || filters.targets.length < port.addresses.length);
  if (lacksFilters || lacksEntry(port, entry, index)) {
    steps.push({ part: "bypass", type: "lead-around", index, bridge, port, hasFilters: lacksFilters });
  }
  return steps;
}

/** Returns the step for a limited pod: without the filter nothing is limited, and without the device nothing is sent. */
function delaySteps(port: DesiredPort, { filters, delay }: ObservedPort, index: number): readonly Step[] {
  const hasFilter = filters?.hasOthers !== false;
  if (port.delay === undefined || (hasFilter && delay?.up === true)) return [];
  return [{ part: "port", type: "delay-sending", index, device: delay?.index, hasFilter, port }];
}

/**
 * Whether a port's link is on its bridge, up, with its MTU, its MAC address, the right flags and in the state that
 * forwards packets, as far as the kernel reports them.
 */
export function isAttached({ hairpin, mac, mtu }: DesiredPort, link: Link, bridge: number): boolean {
  const { bridgePort } = link;
  if (link.master !== bridge || !link.up || link.mtu !== mtu) return false;
  // Pods send to the port's address.
  if (link.mac !== undefined && link.mac !== mac) return false;
  if (bridgePort === undefined) return true;
  if (!canForward(link)) return false;
  const { groupForwardMask, multicastRouter } = PORT_FLAGS;
  const hasFlags = bridgePort.groupForwardMask === groupForwardMask && bridgePort.multicastRouter === multicastRouter;
  return bridgePort.hairpin === hairpin && hasFlags;
}

function lacksEntry({ bypass, isMacRequested }: DesiredPort, entry: ObservedPort["entry"], index: number): boolean {
  // The bridge learns a pod without bypass from its packets.
  if (bypass === "none" || entry === index) return false;
  return entry === undefined || !isMacRequested;
}

/** Returns the ports that were observed and are made. */
function presentPorts(desired: DesiredBridge, observed: ObservedBridge): readonly DesiredPort[] {
  return [...observed.ports].flatMap(([name, port]) => {
    const wanted = desired.ports.get(name);
    return wanted !== undefined && isMade(port, wanted) ? [wanted] : [];
  });
}

function neighbourSteps(desired: DesiredBridge, observed: ObservedBridge, index: number): readonly Step[] {
  return presentPorts(desired, observed).flatMap(({ addresses, podMac: mac }) =>
    addresses
      .filter((address) => !desired.shared.has(address) && observed.neighbours.get(address) !== mac)
      .map((address): Step => ({ part: "neighbour", type: "set-neighbour", index, address, mac })),
  );
}

function routeSteps(desired: DesiredBridge, observed: ObservedBridge, index: number): readonly Step[] {
  const steps = new Map<string, Step>();
  const present = new Set(observed.addresses.map(formatCidr));
  for (const address of strays(observed, index)) {
    const route = desired.routes.find((one) => one.address === address);
    const subnet = subnetOf(desired, address);
    const cidr = route ?? subnet;
    // The route of a missing address comes with the address.
    if (cidr === undefined || (route === undefined && !present.has(formatCidr(cidr)))) continue;
    const step: Step =
      route === undefined
        ? { part: "route", type: "add-subnet-route", index, address: cidr }
        : { part: "route", type: "add-host-route", index, destination: cidr };
    steps.set(formatCidr(cidr), step);
  }
  return [...steps.values()];
}

/** Returns the addresses that were looked up and do not lead to the bridge. */
export function strays({ ways }: ObservedBridge, index: number): readonly Address[] {
  return [...ways].flatMap(([address, way]) => ("link" in way && way.link === index ? [] : [address]));
}

/** Describes the effect of a step; steps with the same effect have the same text. */
export function stepText(step: Step): string {
  switch (step.type) {
    case "create-bridge":
      return `make bridge ${step.name}`;
    case "change-bridge":
      return `change the bridge: ${Object.entries(step.to)
        .map(([field, value]) => `${field} ${value}`)
        .join(", ")}`;
    case "write-setting":
      return `set ${step.key} to ${step.value}`;
    case "add-address":
      return `give the bridge the address ${formatCidr(step.address)}`;
    case "add-subnet-route":
      return `make the route of the bridge's address ${formatCidr(step.address)}`;
    case "add-host-route":
      return `make the route to ${formatCidr(step.destination)}`;
    case "change-port":
      return `make ${step.port.name} of pod ${step.port.pod} a port of the bridge, up, with its MTU and flags`;
    case "delay-sending":
      return (
        `have ${step.port.delay} delay what ${step.port.name} of pod ${step.port.pod} sends` +
        (step.device === undefined ? ": it is gone, so recreate the pod" : "")
      );
    case "remove-filters":
      return `remove filters of ${step.port.name} that lead to another bridge`;
    case "lead-around":
      return `lead packets of ${step.port.name} of pod ${step.port.pod} around the bridge`;
    case "set-neighbour":
      return `set the bridge's neighbour entry of ${formatAddress(step.address)}`;
  }
}
