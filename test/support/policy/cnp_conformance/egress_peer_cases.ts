import { labelled } from "../manifest.ts";
import type { ConformanceCase, ConformanceSubtest, Traffic } from "./conformance_case.ts";
import { addressesOf, type PodName } from "./hogwarts.ts";
import { houseByName, podsByLabel, policy, protocolOf, rangeOf, type Rule, rule, type Tier } from "./words.ts";

const EVERY_ADDRESS = { networks: ["0.0.0.0/0", "::/0"] };
const NODES = { nodes: labelled({ "kubernetes.io/os": "linux" }) };
const EACH_PROTOCOL: readonly Traffic[] = ["80/TCP", "53/UDP", "9003/SCTP"];
/** The ports that pods of the hosts' network serve; upstream configures the numbers. */
const [TCP, NEXT_TCP, UDP, OTHER_UDP, SCTP] = [36_363, 36_364, 34_345, 34_347, 9005] as const;

/** Cases with networks and nodes as peers of egress. */
export const EGRESS_PEER_CASES: readonly ConformanceCase[] = [
  { name: "CNPAdminTierEgressInlineCIDRPeers", subtests: networkSubtests("Admin") },
  { name: "CNPBaselineTierEgressInlineCIDRPeers", subtests: networkSubtests("Baseline") },
  { name: "CNPAdminTierEgressNodePeers", subtests: adminNodeSubtests() },
  { name: "CNPBaselineTierEgressNodePeers", subtests: baselineNodeSubtests() },
];

function networkSubtests(tier: Tier): readonly ConformanceSubtest[] {
  const rules = [rule("egress", "Accept", [podsByLabel("slytherin")]), rule("egress", "Deny", [EVERY_ADDRESS])];
  const accepted: readonly PodName[] = ["luna-lovegood-0", "cedric-diggory-0"];
  const others: readonly PodName[] = ["luna-lovegood-1", "cedric-diggory-1"];
  const first = rule("egress", "Accept", [{ networks: accepted.flatMap(prefixesOf) }]);
  return [
    {
      behaviour: "CNP-05",
      name: "Deny of every address denies all pods except those of an earlier Accept",
      policies: [networkPolicyOf(tier, rules)],
      flows: [
        { from: "gryffindor", to: "ravenclaw", denied: EACH_PROTOCOL },
        { from: "gryffindor", to: "hufflepuff", denied: EACH_PROTOCOL },
        { from: "gryffindor", to: "slytherin", allowed: EACH_PROTOCOL },
      ],
    },
    {
      behaviour: "CNP-05",
      name: "Accept of two pods' addresses before Deny of every address accepts only these pods",
      policies: [networkPolicyOf(tier, [first, ...rules])],
      flows: [
        ...accepted.map((to) => ({ from: "gryffindor", to, allowed: EACH_PROTOCOL }) as const),
        ...others.map((to) => ({ from: "gryffindor", to, denied: EACH_PROTOCOL }) as const),
      ],
    },
  ];
}

/** Returns the prefixes of a pod's addresses; upstream uses those of the cluster's only family. */
function prefixesOf(pod: PodName): readonly string[] {
  return addressesOf(pod).map((address) => `${address}/${address.includes(":") ? 128 : 32}`);
}

function networkPolicyOf(tier: Tier, egress: readonly Rule[]): object {
  const isAdmin = tier === "Admin";
  return policy(isAdmin ? "inline-cidr-as-peers-example" : "default", {
    tier,
    priority: isAdmin ? 85 : 10,
    subject: isAdmin ? podsByLabel("gryffindor") : houseByName("gryffindor"),
    egress,
  });
}

function adminNodeSubtests(): readonly ConformanceSubtest[] {
  const policies = [
    policy("node-and-cidr-as-peers-example", {
      tier: "Admin",
      priority: 75,
      subject: podsByLabel("gryffindor"),
      egress: [
        rule("egress", "Accept", [NODES], [protocolOf(`${TCP}/TCP`)]),
        rule("egress", "Pass", [NODES], [protocolOf(`${UDP}/UDP`)]),
        rule("egress", "Deny", [podsByLabel("slytherin"), NODES, EVERY_ADDRESS]),
      ],
    }),
  ];
  const denied: readonly Traffic[] = [`${NEXT_TCP}/TCP`, `${OTHER_UDP}/UDP`, `${SCTP}/SCTP`];
  return [
    nodeSubtest("Accept of nodes at a port accepts it", policies, { allowed: [`${TCP}/TCP`] }),
    nodeSubtest("Pass of nodes at a port leaves it to the default", policies, { allowed: [`${UDP}/UDP`] }),
    nodeSubtest("Deny of nodes denies the rest", policies, { denied }),
  ];
}

function baselineNodeSubtests(): readonly ConformanceSubtest[] {
  const policies = [
    policy("default", {
      tier: "Baseline",
      priority: 10,
      subject: houseByName("gryffindor"),
      egress: [
        rule("egress", "Accept", [NODES], [rangeOf("tcp", TCP, NEXT_TCP)]),
        rule("egress", "Deny", [NODES, EVERY_ADDRESS]),
      ],
    }),
  ];
  const allowed: readonly Traffic[] = [`${TCP}/TCP`, `${NEXT_TCP}/TCP`];
  const denied: readonly Traffic[] = [`${OTHER_UDP}/UDP`, `${SCTP}/SCTP`];
  return [
    nodeSubtest("Accept of nodes at a range of ports accepts both its ends", policies, { allowed }),
    nodeSubtest("Deny of nodes denies the rest", policies, { denied }),
  ];
}

/** A subtest with nodes as peers: pods of the hosts' network have their nodes' addresses. */
function nodeSubtest(
  name: string,
  policies: readonly object[],
  verdicts: { readonly allowed?: readonly Traffic[]; readonly denied?: readonly Traffic[] },
): ConformanceSubtest {
  return { behaviour: "CNP-05", name, policies, flows: [{ from: "gryffindor", to: "forbidden-forrest", ...verdicts }] };
}
