import { labelled } from "../manifest.ts";
import type { ConformanceCase, ConformanceSubtest, Flows, Traffic } from "./conformance_case.ts";
import type { House, PodName } from "./hogwarts.ts";
import { policyOf, rulesOf, type Shape, SHAPES } from "./protocol_shape.ts";
import { houseByName, policy, protocolOf, rangeOf, type Rule, rule, type Tier } from "./words.ts";

/** The cases that upstream has added since v0.2.0: new tests, and new subtests of existing ones. */
export const NEWER_CASES: readonly ConformanceCase[] = [
  { name: "CNPAdminTierHairpin", subtests: [hairpin()] },
  ...(["Admin", "Baseline"] as const).flatMap((tier): readonly ConformanceCase[] => [
    { name: `CNP${tier}TierEgressTCP`, subtests: [otherDirection(tier, SHAPES.egressTcp)] },
    { name: `CNP${tier}TierIngressTCP`, subtests: [otherDirection(tier, SHAPES.ingressTcp)] },
    { name: `CNP${tier}TierPodSelector`, subtests: podSelectors(tier) },
    { name: `CNP${tier}TierPortRange`, subtests: portRanges(tier) },
    { name: `CNP${tier}TierSamePriority`, subtests: samePriority(tier) },
  ]),
];

function hairpin(): ConformanceSubtest {
  return {
    behaviour: "CNP-08",
    name: "Deny at ingress applies to a pod that reaches itself or another subject through a Service",
    policies: [
      policy("hairpin-ingress-deny", {
        tier: "Admin",
        priority: 15,
        subject: houseByName("gryffindor"),
        ingress: [rule("ingress", "Deny", [houseByName("gryffindor")])],
      }),
    ],
    flows: [{ from: "gryffindor", to: "gryffindor", denied: ["80/TCP"], isThroughService: true }],
  };
}

function otherDirection(tier: Tier, shape: Shape): ConformanceSubtest {
  const peers: readonly House[] = ["ravenclaw", "slytherin"];
  const allowed: readonly Traffic[] = ["80/TCP"];
  return {
    behaviour: "CNP-01",
    name: "rules of one direction do not affect the other direction",
    policies: [policyOf(tier, shape, rulesOf(tier, shape))],
    flows: peers.map((peer): Flows =>
      shape.direction === "egress"
        ? { from: peer, to: shape.subject, allowed }
        : { from: shape.subject, to: peer, allowed },
    ),
  };
}

function podSelectors(tier: Tier): readonly ConformanceSubtest[] {
  const labels = (house: House): object => ({ pods: { podSelector: labelled({ "conformance-house": house }) } });
  const single = (pod: PodName, house: House): object => ({
    pods: {
      namespaceSelector: labelled({ "conformance-house": house }),
      podSelector: labelled({ "statefulset.kubernetes.io/pod-name": pod }),
    },
  });
  const [first, second] = tier === "Admin" ? [20, 21] : [10, 10];
  const policies = [
    policy("pod-selector-rules", {
      tier,
      priority: first,
      subject: labels("gryffindor"),
      egress: [
        rule("egress", "Deny", [labels("ravenclaw")]),
        rule("egress", "Deny", [single("cedric-diggory-0", "hufflepuff")]),
      ],
      ingress: [
        rule("ingress", "Deny", [labels("slytherin")]),
        rule("ingress", "Deny", [single("cedric-diggory-0", "hufflepuff")]),
      ],
    }),
    policy("pod-name-subject-rules", {
      tier,
      priority: second,
      subject: single("luna-lovegood-0", "ravenclaw"),
      egress: [rule("egress", "Deny", [houseByName("slytherin")])],
    }),
  ];
  const web: readonly Traffic[] = ["80/TCP"];
  return [
    {
      behaviour: "CNP-04",
      name: "egress peers select pods by labels, in all namespaces or in some",
      policies,
      flows: [
        { from: "gryffindor", to: "ravenclaw", denied: web },
        { from: "gryffindor", to: "cedric-diggory-0", denied: web },
        { from: "gryffindor", to: "cedric-diggory-1", allowed: web },
      ],
    },
    {
      behaviour: "CNP-04",
      name: "ingress peers select pods by labels, in all namespaces or in some",
      policies,
      flows: [
        { from: "slytherin", to: "gryffindor", denied: web },
        { from: "cedric-diggory-0", to: "gryffindor", denied: web },
        { from: "cedric-diggory-1", to: "gryffindor", allowed: web },
      ],
    },
    {
      behaviour: "CNP-04",
      name: "subjects select pods by labels, in all namespaces or in some",
      policies,
      flows: [
        { from: "slytherin", to: "cedric-diggory-0", allowed: web },
        { from: "luna-lovegood-0", to: "slytherin", denied: web },
        { from: "luna-lovegood-1", to: "slytherin", allowed: web },
      ],
    },
  ];
}

function portRanges(tier: Tier): readonly ConformanceSubtest[] {
  const everyHouse = { namespaces: { matchExpressions: [{ key: "conformance-house", operator: "Exists" }] } };
  const rules = (direction: "egress" | "ingress"): readonly Rule[] => [
    rule(direction, "Accept", [houseByName("ravenclaw")], [rangeOf("tcp", 80, 8080)]),
    rule(direction, "Accept", [houseByName("hufflepuff")], [rangeOf("udp", 53, 5353)]),
    rule(direction, "Accept", [houseByName("slytherin")], [rangeOf("sctp", 9003, 9005)]),
    rule(direction, "Deny", [everyHouse]),
  ];
  const policies = [
    policy("port-range-rules", {
      tier,
      priority: tier === "Admin" ? 9 : 10,
      subject: houseByName("gryffindor"),
      egress: rules("egress"),
      ingress: rules("ingress"),
    }),
  ];
  const verdicts = [
    { peer: "ravenclaw", allowed: ["80/TCP", "8080/TCP"], denied: ["53/UDP"] },
    { peer: "hufflepuff", allowed: ["53/UDP", "5353/UDP"], denied: ["80/TCP"] },
    { peer: "slytherin", allowed: ["9003/SCTP", "9005/SCTP"], denied: ["80/TCP"] },
  ] as const;
  return [
    {
      behaviour: "CNP-06",
      name: "a range of ports includes both ends and only its protocol at egress",
      policies,
      flows: verdicts.map(({ peer, ...rest }) => ({ from: "gryffindor", to: peer, ...rest })),
    },
    {
      behaviour: "CNP-06",
      name: "a range of ports includes both ends and only its protocol at ingress",
      policies,
      flows: verdicts.map(({ peer, ...rest }) => ({ from: peer, to: "gryffindor", ...rest })),
    },
  ];
}

/**
 * Returns the subtests of three policies with one priority that never contradict each other about a connection, so that
 * their order does not matter.
 */
function samePriority(tier: Tier): readonly ConformanceSubtest[] {
  const denying = (subject: House, peer: House, port: Traffic): object =>
    policy(`same-priority-${subject}-${peer}`, {
      tier,
      priority: tier === "Admin" ? 15 : 10,
      subject: houseByName(subject),
      ingress: [rule("ingress", "Deny", [houseByName(peer)], [protocolOf(port)])],
      egress: [rule("egress", "Deny", [houseByName(peer)], [protocolOf(port)])],
    });
  const policies = [
    denying("gryffindor", "slytherin", "80/TCP"),
    denying("gryffindor", "hufflepuff", "80/TCP"),
    denying("hufflepuff", "slytherin", "8080/TCP"),
  ];
  const bothWays = (one: House, other: House, verdicts: Pick<Flows, "allowed" | "denied">): readonly Flows[] => [
    { from: one, to: other, ...verdicts },
    { from: other, to: one, ...verdicts },
  ];
  return [
    {
      behaviour: "CNP-02",
      name: "all policies of one priority apply, both ways",
      policies,
      flows: [
        ...bothWays("gryffindor", "slytherin", { denied: ["80/TCP"] }),
        ...bothWays("gryffindor", "hufflepuff", { denied: ["80/TCP"] }),
        ...bothWays("hufflepuff", "slytherin", { denied: ["8080/TCP"] }),
      ],
    },
    {
      behaviour: "CNP-02",
      name: "no policy of one priority applies to another's subject",
      policies,
      flows: [
        ...bothWays("gryffindor", "slytherin", { allowed: ["8080/TCP"] }),
        ...bothWays("hufflepuff", "slytherin", { allowed: ["80/TCP"] }),
      ],
    },
    {
      behaviour: "CNP-02",
      name: "traffic that no policy of the priority matches passes",
      policies,
      flows: bothWays("gryffindor", "ravenclaw", { allowed: ["80/TCP"] }),
    },
  ];
}
