import assert from "node:assert/strict";
import { add, type Configuration } from "../../lab/cni.ts";
import type { LabPod } from "../../lab/lab.ts";
import type { WiredNode } from "../../lab/topology.ts";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { formatCidr } from "../../../kernel/ip/cidr.ts";

/** A network add-on that was on a node before Drawbridge. */
export interface FormerPlugin {
  readonly name: "flannel" | "kubenet" | "kindnet";
  /** The bridge of its pods; undefined for one without. */
  readonly bridge: string | undefined;
  /**
   * Attaches a pod; where the add-on does not choose its addresses, they are those of the range with this last number.
   */
  attach(wired: WiredNode, pod: LabPod, number: number): void;
}

/** @param directory of the reference plugins, which flannel and kubenet call */
export function formerPlugins(directory: string): readonly FormerPlugin[] {
  return [
    byBridge("flannel", "cni0", "cbr0", directory),
    byBridge("kubenet", "cbr0", "kubenet", directory),
    { name: "kindnet", bridge: undefined, attach: attachPointToPoint },
  ];
}

/**
 * Attaches pods as flannel's delegate and the kubelet do: with the reference plugins `bridge` and `host-local`, and the
 * bridge as gateway.
 */
function byBridge(name: "flannel" | "kubenet", bridge: string, network: string, directory: string): FormerPlugin {
  return {
    name,
    bridge,
    attach: (wired, pod) => {
      const ranges = wired.podCidrs.map((subnet) => [{ subnet: formatCidr(subnet) }]);
      const overrides: Configuration = {
        cniVersion: "0.4.0",
        name: network,
        type: "bridge",
        bridge,
        isDefaultGateway: true,
        hairpinMode: true,
        ipam: { type: "host-local", dataDir: wired.node.dataDir, ranges },
      };
      const { error } = add(wired, pod, overrides, { executable: `${directory}/bridge` });
      assert.equal(error, undefined);
    },
  };
}

/**
 * Attaches a pod as the reference plugin `ptp`, which kindnet calls: with a pair of veths, the gateway's address on the
 * node's end, and a route to the single address. kindnet keeps its reservations in a directory of its own.
 */
function attachPointToPoint({ node, gateways, podCidrs }: WiredNode, pod: LabPod, number: number): void {
  const end = `veth-${pod.name}`;
  node.exec("ip", ["link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", pod.path]);
  node.exec("ip", ["link", "set", end, "up"]);
  pod.exec("ip", ["link", "set", "eth0", "up"]);
  for (const [index, gateway] of gateways.map(formatAddress).entries()) {
    const bits = index === 0 ? 32 : 128;
    const address = formatCidr(podCidrs[index] ?? assert.fail())
      .replace(/[01]?\/\d+$/, String(number))
      .replace(/:+(\d+)$/, "::$1");
    node.exec("ip", ["address", "add", `${gateway}/${bits}`, "dev", end, ...(index === 0 ? [] : ["nodad"])]);
    node.exec("ip", ["route", "add", `${address}/${bits}`, "dev", end]);
    pod.exec("ip", ["address", "add", `${address}/${bits}`, "dev", "eth0", ...(index === 0 ? [] : ["nodad"])]);
    pod.exec("ip", ["route", "add", gateway, "dev", "eth0"]);
    pod.exec("ip", ["route", "add", "default", "via", gateway, "dev", "eth0"]);
  }
}
