import { familyOf } from "../../../../kernel/ip/address.ts";
import { TUNNEL, tunnelOverhead } from "../../../../policyd/routes/tunnel.ts";
import { seen, type CheckedLink, type Hint } from "../../../../policyd/problems/check.ts";
import type { NodeFacts, Check } from "../facts.ts";

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
  const link = (seen(links) ?? []).find(({ name }) => name === uplink?.link);
  const most = link === undefined ? undefined : link.mtu - tunnelOverhead(familyOf(local));
  if (link === undefined || most === undefined || device.mtu <= most) return;
  yield {
    severity: "warning",
    what: `${device.name} has an MTU of ${device.mtu}; ${link.name} with ${link.mtu} leaves ${most} of it`,
    why: "full packets to other nodes are fragmented or dropped: small ones pass, downloads hang",
    way: `ip link set ${device.name} mtu ${most}`,
  };
}
