import { formatAddress } from "../../../../kernel/ip/address.ts";
import { formatCidr } from "../../../../kernel/ip/cidr.ts";
import { seen } from "../../../../policyd/problems/check.ts";
import type { Check } from "../facts.ts";

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
