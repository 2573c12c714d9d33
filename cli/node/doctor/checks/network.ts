import { familyOf, formatAddress } from "../../../../kernel/ip/address.ts";
import { TUNNEL, tunnelOverhead } from "../../../../policyd/routes/tunnel.ts";
import { seen, type CheckedLink, type Hint, type Remark } from "../../../../policyd/problems/check.ts";
import type { NodeFacts, Check } from "../facts.ts";
import { formatCidr } from "../../../../kernel/ip/cidr.ts";
import { repairSteps } from "../../../../cni/node_state/difference.ts";
import { type Problem, problemsOf } from "../../../../cni/node_state/problems.ts";

export const mtu: Check = {
  id: "mtu",
  summary: "The MTUs of bridge, pods, tunnel and uplink fit each other.",
  needs: ["links", "network", "records", "addresses"],
  examine: (facts) => {
    const links = seen(facts.links) ?? [];
    const byName = new Map(links.map((link) => [link.name, link]));
    const bridge = byName.get(facts.place.bridge);
    return [...portMtus(facts, bridge, byName), ...tunnelMtu(facts, byName.get(TUNNEL.name))];
  },
};

function* portMtus(
  { network, records, place }: NodeFacts,
  bridge: CheckedLink | undefined,
  byName: ReadonlyMap<string, CheckedLink>,
): Generator<Hint> {
  const file = seen(network);
  const configured = (file?.kind === "network" && file.mtu) || undefined;
  if (bridge === undefined) return;
  const ofBridge = (seen(records)?.records ?? []).filter((record) => record.bridge === bridge.name);
  const ports = ofBridge.flatMap(({ hostInterface }) => byName.get(hostInterface) ?? []);
  const smallest = Math.min(...ports.map((link) => link.mtu));
  const wanted = Math.min(configured ?? bridge.mtu, smallest);
  // Pods attached before a change retain their MTU: the bridge has the smallest, also one that is larger than configured.
  if (bridge.mtu !== wanted && bridge.mtu !== smallest) {
    yield {
      severity: "warning",
      what: `the bridge ${place.bridge} has an MTU of ${bridge.mtu}; the smallest of its pods' and the configured one is ${wanted}`,
      why: "packets of pods that are larger than the smaller of the two are dropped or cut",
      way: `ip link set ${place.bridge} mtu ${wanted}`,
    };
  }
  const most = configured ?? bridge.mtu;
  for (const link of ports.filter((port) => port.mtu > most)) {
    yield {
      severity: "warning",
      what: `${link.name} has an MTU of ${link.mtu}, ${configured === undefined ? `its bridge ${place.bridge}` : "the network configuration"} ${most}`,
      why: "what the pod sends may be too large for others",
      way: `recreate the pod, or ip link set ${link.name} mtu ${most}`,
    };
  }
}

function* tunnelMtu({ links, addresses }: NodeFacts, device: CheckedLink | undefined): Generator<Hint> {
  if (device?.vxlan === undefined) return;
  const { local } = device.vxlan;
  if (local === undefined) return;
  // The daemon computes it from this link, too.
  const uplink = (seen(addresses) ?? []).find(({ address }) => address.address === local);
  const link = (seen(links) ?? []).find(({ index }) => index === uplink?.index);
  const most = link === undefined ? undefined : link.mtu - tunnelOverhead(familyOf(local));
  if (link === undefined || most === undefined || device.mtu <= most) return;
  yield {
    severity: "warning",
    what: `${device.name} has an MTU of ${device.mtu}; ${link.name} with ${link.mtu} leaves ${most} of it`,
    why: "full packets to other nodes are fragmented or dropped: small ones pass, downloads hang",
    way: `ip link set ${device.name} mtu ${most}`,
  };
}

export const directRoutes: Check = {
  id: "direct-routes",
  summary: "The network between nodes carries packets with addresses of pods, as far as some nodes answer.",
  needs: ["directRoutes"],
  examine: ({ directRoutes: routes }) =>
    (seen(routes) ?? [])
      .filter(({ isAnswered }) => !isAnswered)
      .map(({ destination, gateway, to }) => ({
        severity: "info",
        what: `${formatAddress(to)} does not answer by the direct route to ${formatCidr(destination)} via ${formatAddress(gateway)}: whether the network between carries addresses of pods is not known`,
        why: "clouds drop packets with addresses that they have not given out themselves (anti-spoofing), and say nothing; a node without pods or with a firewall does not answer, either",
        way: "try it from a pod to one of that node; where nothing arrives, use VXLAN between all nodes: encapsulation: always, which is manifests/overlays/vxlan",
      })),
};

export const nodeState: Check = {
  id: "node-state",
  summary: "The bridge, its addresses, routes and settings, and pods' ports are as the pods need them.",
  needs: ["nodeState"],
  examine: (facts) =>
    (seen(facts.nodeState) ?? []).flatMap(({ desired, observed }) => {
      const remaining = repairSteps(desired, observed);
      return problemsOf(desired, { remaining, refused: [], observed }).map(remarkOf);
    }),
};

function remarkOf({ text, isCut }: Problem): Remark {
  return {
    severity: isCut ? "error" : "warning",
    what: text.replace(": could not ", ": expected to "),
    why: isCut ? "pods of this node lack some of their network" : "packets take a longer way, or a less safe one",
    way: "policyd repairs it within a second while it runs: look whether it does, and which program changes it (ip monitor)",
  };
}
