import assert from "node:assert/strict";
import {
  type Address,
  type Family,
  familyOf,
  formatAddress,
  parseAddress,
  FAMILIES,
} from "../../../kernel/ip/address.ts";
import { lastAddress, networkAddress } from "../../../kernel/ip/cidr.ts";
import { parseMac } from "../../../kernel/ip/mac.ts";
import { encodeFrame, encodeIp, encodeUdp } from "../../lab/probe/frame.ts";
import { FrameSocket } from "../../lab/probe/frame_socket.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { eventually, soon } from "../../support/guard/guarded_node.ts";
import type { Token } from "../../lab/probe/protocol.ts";
import { carries, newToken } from "../../support/guard/token.ts";
import { namedLab, type NamedPods, namedPods } from "../../support/policy/lab/named_lab.ts";
import { NODE_NAMES, type NodeName } from "../../support/policy/lab/place.ts";
import type { PolicyLab } from "../../support/policy/lab/policy_lab.ts";
import { clusterNetworkPolicy, labelled } from "../../support/policy/manifest.ts";
import { requireBridgeNetfilter, requireKernel } from "../../support/privilege.ts";

/**
 * An attacker on each node, and a pod of another namespace, to which no policy applies. Bridged frames pass the IP
 * hooks only of node1.
 */
const PODS: NamedPods = {
  "x/a": { node: "node1" },
  "x/b": { node: "node2" },
  "y/a": { node: "node1" },
  "y/b": { node: "node2" },
};
const DENY_NODES = clusterNetworkPolicy("nodes", {
  tier: "Admin",
  priority: 1,
  subject: { namespaces: labelled({ project: "x" }) },
  egress: [{ action: "Deny", to: [{ nodes: {} }] }],
});
/** Addresses whose packets every node on the link takes. */
const HEARD = ["224.0.0.1", "255.255.255.255", "ff02::1"] as const;
const ANY = { 4: parseAddress("0.0.0.0"), 6: parseAddress("::") } as const;

/** An address at which a node takes packets. */
interface Target {
  readonly title: string;
  readonly address: Address;
  readonly node: NodeName;
}

describe("attacks on nodes by addresses that no Node object has", function () {
  this.timeout(300_000);
  let lab: PolicyLab;
  /** The port of the last flows. Each run takes another one, so that no flow is part of one that was allowed before. */
  let port = 20_000;

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    lab = await namedLab("node-addresses", PODS, [80]);
  });
  after(() => lab?.close());

  /** Returns the addresses by which a node's pod may reach that node or another one. */
  function targetsFrom(own: NodeName): readonly Target[] {
    const everywhere = NODE_NAMES.flatMap((node): readonly Target[] => {
      const { addresses, gateways, podCidrs } = lab.wired(node);
      const ofSubnets = podCidrs.map((cidr) =>
        familyOf(cidr.address) === 4 ? lastAddress(cidr) : networkAddress(cidr),
      );
      return [
        ...addresses.map((address) => ({ title: "the Node's own", address, node })),
        ...gateways.map((address) => ({ title: "the bridge's", address, node })),
        ...ofSubnets.map((address) => ({ title: "broadcast or anycast of the pod CIDR", address, node })),
      ];
    });
    const [, linkLocal = ""] = /inet6 (fe80\S+)\//.exec(lab.wired(own).node.exec("ip", ["addr", "show", "cni0"])) ?? [];
    const uplink = own === "node1" ? ["192.0.2.15", "2001:db8:0:1::"] : ["192.0.2.23", "2001:db8:0:2::"];
    const heard = [...HEARD, linkLocal, ...uplink].map((text) => ({
      title: "on the link",
      address: parseAddress(text),
      node: own,
    }));
    return [...everywhere, ...heard];
  }

  /** Sends each target a datagram by a packet socket. @returns the texts of the targets that get it */
  async function reached(pod: string, waits = eventually): Promise<readonly string[]> {
    const { namespace, addresses } = lab.place(pod);
    const own = lab.nodeOf(pod);
    port++;
    const listen = (node: NodeName, family: Family): ProbeSocket => {
      const socket = ProbeSocket.open(lab.wired(node).node, family, SocketType.DATAGRAM);
      socket.bind({ address: ANY[family], port });
      return socket;
    };
    const sockets = new Map(
      NODE_NAMES.flatMap((node) => FAMILIES.map((family) => [`${node} ${family}`, listen(node, family)] as const)),
    );
    const link = new FrameSocket(namespace, "eth0");
    const [, from = ""] = /ether (\S+)/.exec(namespace.exec("ip", ["link", "show", "eth0"])) ?? [];
    const [, to = ""] = /lladdr (\S+)/.exec(namespace.exec("ip", ["neigh"])) ?? [];
    const sent = new Map<Target, Token>();
    for (const target of targetsFrom(own)) {
      const token = newToken();
      sent.set(target, token);
      const packet = encodeUdp(addresses[familyOf(target.address)], target.address, port, token);
      link.send(encodeFrame({ from: parseMac(from), to: parseMac(to), ...encodeIp(packet) }));
    }
    const arrived = new Set<string>();
    await waits(() => {
      for (const [where, socket] of sockets) {
        for (const one of socket.drain()) {
          if (one.kind !== "data") continue;
          for (const [target, token] of sent) {
            const isThere = where === `${target.node} ${familyOf(target.address)}` && carries(one.data, token);
            if (isThere) arrived.add(textOf(target));
          }
        }
      }
      return arrived.size === sent.size;
    });
    for (const socket of sockets.values()) socket.close();
    link.close();
    return [...arrived].toSorted();
  }

  const textOf = ({ title, address, node }: Target): string => `${node}: ${title} ${formatAddress(address)}`;

  for (const pod of ["x/a", "x/b"]) {
    it(`CNP-20: a pod that may not send to nodes reaches none by any address, br_netfilter ${pod === "x/a" ? "on" : "off"}`, async () => {
      const all = targetsFrom(lab.nodeOf(pod)).map(textOf).toSorted();
      await lab.apply(namedPods(lab, PODS));
      assert.deepEqual(await reached(pod), all, "without the policy");
      await lab.apply([...namedPods(lab, PODS), DENY_NODES]);
      assert.deepEqual(await reached(pod, soon), [], "with it");
      assert.deepEqual(await reached(pod.replace("x", "y")), all, "another pod");
    });
  }
});
