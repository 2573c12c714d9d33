import { TUNNEL } from "../routes/tunnel.ts";
import { type Check, type Remark, seen } from "../problems/check.ts";

export const tunnel: Check = {
  id: "tunnel",
  summary: "Nobody else uses the port of the VXLAN tunnel, and the device is as it should be.",
  needs: ["links"],
  examine: ({ links, udpPorts }) => {
    const vxlans = (seen(links) ?? []).flatMap(({ name, vxlan }) => (vxlan === undefined ? [] : [{ name, vxlan }]));
    const remarks: Remark[] = [];
    for (const { name, vxlan } of vxlans) {
      if (name === TUNNEL.name) {
        if (vxlan.port !== TUNNEL.port) remarks.push(otherTunnel(`port ${vxlan.port}`));
        else if (vxlan.vni !== TUNNEL.vni) remarks.push(otherTunnel(`VNI ${vxlan.vni}`));
      } else if (vxlan.port === TUNNEL.port) {
        const isRefused = vxlan.vni === TUNNEL.vni || vxlan.hasOwnSocket;
        remarks.push({
          severity: isRefused ? "error" : "info",
          what: `the VXLAN device ${name} uses UDP port ${TUNNEL.port} with VNI ${vxlan.vni}`,
          why: isRefused
            ? "two networks on one port share a socket: with the same VNI, or with external metadata or policies, the kernel refuses the second one"
            : "it works beside ours, but only between the InternalIPs of nodes",
          way: `remove it if its add-on (flannel, Calico, Antrea) is gone: ip link delete ${name}; else give that one another port`,
        });
      }
    }
    if (udpPorts.has(TUNNEL.port) && !vxlans.some(({ vxlan }) => vxlan.port === TUNNEL.port)) {
      remarks.push({
        severity: "error",
        what: `a socket is bound to UDP port ${TUNNEL.port}`,
        why: `the device ${TUNNEL.name} cannot be brought up, so pods do not reach those of other nodes`,
        way: `ss -lunp sport = :${TUNNEL.port}, and stop the program that has it`,
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
