import { hostCidr } from "../../../../kernel/ip/cidr.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { newAddress } from "../../../../kernel/route/interface_address.ts";
import { waitUntilLocal } from "../../../../kernel/route/readiness.ts";
import { type Expectation, expectOf } from "../../../support/policy/lab/expectation.ts";
import { namedLab, type NamedPods, namedPods } from "../../../support/policy/lab/named_lab.ts";
import { NODE_NAMES } from "../../../support/policy/lab/place.ts";
import type { PolicyLab } from "../../../support/policy/lab/policy_lab.ts";
import { inBoth, type Traffic } from "../../../support/policy/lab/question.ts";
import { clusterNetworkPolicy, networkPolicy } from "../../../support/policy/manifest.ts";
import { requireBridgeNetfilter, requireKernel } from "../../../support/privilege.ts";

const PODS: NamedPods = {
  "x/a": { node: "node1" },
  "x/b": { node: "node2" },
  "y/a": { node: "node1" },
};
const PORTS = [53, 80, 81] as const;
const DNS = ["169.254.20.10", "fd00:20::10"] as const;
const OPTIONS = { policePodToOwnNode: true, nodeLocalDNS: DNS.map((text) => parseAddress(text)) };
const DENY_X = networkPolicy("x", { podSelector: {}, policyTypes: ["Ingress", "Egress"] });

/** Exempts DNS from connection tracking, as NodeLocal DNSCache does for its addresses, and port 81 between pods. */
const UNTRACKED = `table inet lab-untracked {
  chain prerouting {
    type filter hook prerouting priority raw;
    ip daddr ${DNS[0]} meta l4proto { tcp, udp } th dport 53 notrack
    ip6 daddr ${DNS[1]} meta l4proto { tcp, udp } th dport 53 notrack
    meta l4proto { tcp, udp, sctp } th dport 81 notrack
    meta l4proto { tcp, udp, sctp } th sport 81 notrack
  }
  chain output {
    type filter hook output priority raw;
    ip saddr ${DNS[0]} meta l4proto { tcp, udp } th sport 53 notrack
    ip6 saddr ${DNS[1]} meta l4proto { tcp, udp } th sport 53 notrack
  }
}`;

describe("policies and a pod's own node, with policePodToOwnNode and nodeLocalDNS, with packets", function () {
  this.timeout(300_000);
  let lab: PolicyLab;

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    lab = await namedLab("own-node", PODS, PORTS, { policePodToOwnNode: true, nodeLocalDNS: DNS });
    for (const name of NODE_NAMES) {
      const { node } = lab.wired(name);
      node.exec("nft", ["-f", "-"], UNTRACKED);
      for (const text of DNS) {
        const address = parseAddress(text);
        node.route.request(newAddress(node.link("lo").index, hostCidr(address)));
        waitUntilLocal(node.route, address);
        for (const protocol of ["tcp", "udp"] as const) {
          for (const port of PORTS) lab.prober.listen(protocol, { namespace: node, address, port });
        }
      }
    }
  });
  after(() => lab?.close());

  const hold = (policies: readonly object[], expectation: Expectation) =>
    expectOf(lab, [...namedPods(lab, PODS), ...policies], expectation, OPTIONS);
  const toDns = (from: string, ...traffics: readonly Traffic[]) => DNS.flatMap((to) => inBoth(from, to, ...traffics));

  it("POL-07: with policePodToOwnNode egress rules apply to a pod's own node, and packets from that node always pass", async () => {
    const traffics: readonly Traffic[] = ["80/TCP", "80/UDP", "80/SCTP", "ICMP"];
    await hold([DENY_X], {
      allowed: [
        ...inBoth("node1", "x/a", ...traffics),
        ...inBoth("node2", "x/b", ...traffics),
        ...inBoth("y/a", "node1", ...traffics),
      ],
      denied: [
        ...inBoth("x/a", "node1", ...traffics),
        ...inBoth("x/b", "node2", ...traffics),
        ...inBoth("node2", "x/a", ...traffics),
      ],
    });
    const nodes = ["192.0.2.10/32", "2001:db8:0:1::2/128"].map((cidr) => ({ ipBlock: { cidr } }));
    await hold(
      [
        networkPolicy("x", {
          podSelector: {},
          policyTypes: ["Egress"],
          egress: [{ to: nodes, ports: [{ port: 80 }] }],
        }),
      ],
      {
        allowed: inBoth("x/a", "node1", "80/TCP"),
        denied: [...inBoth("x/a", "node1", "80/UDP", "53/TCP", "ICMP"), ...inBoth("x/b", "node2", "80/TCP")],
      },
    );
  });

  it("POL-72: no NetworkPolicy keeps a pod from the node's untracked DNS, and its other ports are closed", async () => {
    await hold([DENY_X], {
      allowed: ["x/a", "x/b", "y/a"].flatMap((pod) => toDns(pod, "53/UDP", "53/TCP")),
      denied: ["x/a", "x/b"].flatMap((pod) => toDns(pod, "80/UDP", "80/TCP")),
    });
  });

  it("POL-72 CNP-05: an Admin Deny keeps a pod from the node's own DNS", async () => {
    const deny = clusterNetworkPolicy("no-dns", {
      tier: "Admin",
      priority: 1,
      subject: { namespaces: { matchLabels: { project: "x" } } },
      egress: [{ action: "Deny", to: [{ networks: DNS.map((address, index) => `${address}/${[32, 128][index]}`) }] }],
    });
    await hold([deny], {
      allowed: toDns("y/a", "53/UDP", "53/TCP"),
      denied: ["x/a", "x/b"].flatMap((pod) => toDns(pod, "53/UDP", "53/TCP", "80/TCP")),
    });
  });

  it("POL-02 POL-08: policies check each packet without connection tracking, in each direction", async () => {
    const traffics: readonly Traffic[] = ["81/TCP", "81/UDP", "81/SCTP"];
    const all = ["x/a", "x/b"].flatMap((pod) => [
      ...inBoth("y/a", pod, ...traffics),
      ...inBoth(pod, "y/a", ...traffics),
    ]);
    await hold([], { allowed: all });
    await hold([DENY_X], { denied: all });
    // Answers are packets like others here: a pod that may receive and not send gives none, so the probe gets nothing.
    const both = networkPolicy("x", {
      podSelector: {},
      policyTypes: ["Ingress", "Egress"],
      ingress: [{}],
      egress: [{}],
    });
    await hold([both], { allowed: all });
  });
});
