import { TUNNEL, tunnelOverhead } from "../../../../policyd/routes/tunnel.ts";
import { seen } from "../diagnose.ts";
import type { NodeFacts, NodeLink } from "../facts.ts";
import type { Check, Remark } from "../finding.ts";

export const tunnel: Check = {
  id: "tunnel",
  summary: "Nobody else uses the port of the VXLAN tunnel, and the device is as it should be.",
  needs: ["links"],
  examine: ({ links, udpPorts }) => {
    const vxlans = (seen(links) ?? []).filter(({ vxlan }) => vxlan !== undefined);
    const remarks: Remark[] = [];
    for (const { name, vxlan } of vxlans) {
      if (vxlan === undefined || vxlan.port !== TUNNEL.port) {
        if (name === TUNNEL.name) remarks.push(otherTunnel(`port ${vxlan?.port}`));
        continue;
      }
      if (name === TUNNEL.name) {
        if (vxlan.vni !== TUNNEL.vni) remarks.push(otherTunnel(`VNI ${vxlan.vni}`));
      } else {
        remarks.push({
          severity: vxlan.vni === TUNNEL.vni || vxlan.hasMore ? "error" : "warning",
          what: `the VXLAN device ${name} uses UDP port ${TUNNEL.port} with VNI ${vxlan.vni}`,
          why: "two networks on one port share a socket: with the same VNI, or with external metadata, the kernel refuses the second one",
          way: `remove it if its add-on (flannel, Calico, Antrea) is gone: ip link delete ${name}; else give that one another port`,
        });
      }
    }
    if (udpPorts.has(TUNNEL.port) && !vxlans.some(({ vxlan }) => vxlan?.port === TUNNEL.port)) {
      remarks.push({
        severity: "error",
        what: `a socket is bound to UDP port ${TUNNEL.port}`,
        why: `the device ${TUNNEL.name} cannot be brought up, so pods do not reach those of other nodes`,
        way: `ss -lunp sport = :${TUNNEL.port}, and stop who has it`,
      });
    }
    return remarks;
  },
};

function otherTunnel(what: string): Remark {
  return {
    severity: "warning",
    what: `the device ${TUNNEL.name} has ${what}; expected VNI ${TUNNEL.vni} and port ${TUNNEL.port}`,
    why: "other nodes send to these",
    way: `ip link delete ${TUNNEL.name}: policyd makes it again`,
  };
}

export const mtu: Check = {
  id: "mtu",
  summary: "The MTUs of bridge, pods, tunnel and uplink fit each other.",
  needs: ["links", "network", "records", "routes"],
  examine: (facts) => {
    const links = seen(facts.links) ?? [];
    const byName = new Map(links.map((link) => [link.name, link]));
    const bridge = byName.get(facts.place.bridge);
    return [...portMtus(facts, bridge, byName), ...tunnelMtu(facts, byName.get(TUNNEL.name))];
  },
};

function* portMtus(
  { network, records, place }: NodeFacts,
  bridge: NodeLink | undefined,
  byName: ReadonlyMap<string, NodeLink>,
): Generator<Remark> {
  const file = seen(network);
  const wanted = file?.kind === "network" ? file.mtu : undefined;
  if (bridge !== undefined && wanted !== undefined && wanted !== 0 && bridge.mtu !== wanted) {
    yield {
      severity: "warning",
      what: `the bridge ${place.bridge} has an MTU of ${bridge.mtu}, the network configuration ${wanted}`,
      why: "packets of pods that are larger than the smaller of the two are dropped or cut",
      way: `ip link set ${place.bridge} mtu ${wanted}`,
    };
  }
  for (const { hostInterface } of seen(records)?.records ?? []) {
    const link = byName.get(hostInterface);
    if (link === undefined || bridge === undefined || link.mtu === bridge.mtu) continue;
    // Pods that were attached before a change retain their MTU; only a larger one does harm.
    if (link.mtu < bridge.mtu) continue;
    yield {
      severity: "warning",
      what: `${hostInterface} has an MTU of ${link.mtu}, its bridge ${place.bridge} ${bridge.mtu}`,
      why: "what the pod sends may be too large for others",
      way: `recreate the pod, or ip link set ${hostInterface} mtu ${bridge.mtu}`,
    };
  }
}

function* tunnelMtu({ links, routes }: NodeFacts, device: NodeLink | undefined): Generator<Remark> {
  if (device?.vxlan === undefined) return;
  const outer = typeof device.vxlan.local === "bigint" ? 6 : 4;
  const uplink = (seen(routes) ?? []).find(({ family, destination }) => family === outer && destination === undefined);
  const link = (seen(links) ?? []).find(({ index }) => index === uplink?.outputInterface);
  const most = link === undefined ? undefined : link.mtu - tunnelOverhead(outer);
  if (link === undefined || most === undefined || device.mtu <= most) return;
  yield {
    severity: "warning",
    what: `${device.name} has an MTU of ${device.mtu}; ${link.name} with ${link.mtu} leaves ${most} of it`,
    why: "full packets to other nodes are fragmented or dropped: small ones pass, downloads hang",
    way: `ip link set ${device.name} mtu ${most}`,
  };
}
