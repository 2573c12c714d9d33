import type { ConformanceCase, ConformanceSubtest, Flows, Traffic } from "./conformance_case.ts";
import type { House } from "./hogwarts.ts";
import { type Direction, houseByName, policy, protocolOf, type Rule, rule, swapped, type Tier } from "./words.ts";

const BARRED: readonly Traffic[] = ["80/TCP", "53/UDP", "9003/SCTP"];
const OPEN: readonly Traffic[] = ["8080/TCP", "5353/UDP", "9005/SCTP"];
const NARROW: Readonly<Record<Direction, readonly Traffic[]>> = {
  egress: ["8080/TCP", "5353/UDP", "9003/SCTP"],
  ingress: ["80/TCP", "5353/UDP", "9003/SCTP"],
};

/** Cases of one policy with rules of both directions over all protocols. */
export const GRESS_CASES: readonly ConformanceCase[] = [
  { name: "CNPAdminTierGress", subtests: [...orderAndPorts("Admin"), ...passing()] },
  { name: "CNPBaselineTierGress", subtests: orderAndPorts("Baseline") },
];

function orderAndPorts(tier: Tier): readonly ConformanceSubtest[] {
  const before = [policyOf(tier, (rules) => rules)];
  const after = [policyOf(tier, (rules) => swapped(rules, 0, 1))];
  return [
    {
      behaviour: "CNP-02",
      name: "Accept before Deny accepts every port, both ways",
      policies: before,
      flows: bothWays("ravenclaw", { allowed: [...BARRED, ...OPEN] }),
    },
    {
      behaviour: "CNP-06",
      name: "Accept at ports before Deny accepts only these ports, others in each direction",
      policies: before,
      flows: [
        { from: "gryffindor", to: "hufflepuff", allowed: NARROW.egress, denied: ["80/TCP", "53/UDP", "9005/SCTP"] },
        { from: "hufflepuff", to: "gryffindor", allowed: NARROW.ingress, denied: ["8080/TCP", "53/UDP", "9005/SCTP"] },
      ],
    },
    {
      behaviour: "CNP-02",
      name: "Deny before Accept denies every port, both ways",
      policies: after,
      flows: bothWays("ravenclaw", { denied: [...BARRED, ...OPEN] }),
    },
    {
      behaviour: "CNP-06",
      name: "Deny at ports does not affect other ports, both ways",
      policies: after,
      flows: bothWays("slytherin", { allowed: OPEN, denied: BARRED }),
    },
  ];
}

function passing(): readonly ConformanceSubtest[] {
  const first = (rules: readonly Rule[]): readonly Rule[] => swapped(swapped(rules, 0, 1), 0, 2);
  return [
    {
      behaviour: "CNP-03",
      name: "Pass before Accept and Deny leaves every port to the default, both ways",
      policies: [policyOf("Admin", first)],
      flows: bothWays("ravenclaw", { allowed: [...BARRED, ...OPEN] }),
    },
    {
      behaviour: "CNP-03",
      name: "Pass at ports before their Deny leaves them to the default, both ways",
      policies: [policyOf("Admin", (rules) => swapped(first(rules), 3, 4))],
      flows: bothWays("slytherin", { allowed: [...BARRED, ...OPEN] }),
    },
  ];
}

function policyOf(tier: Tier, arrange: (rules: readonly Rule[]) => readonly Rule[]): object {
  const isAdmin = tier === "Admin";
  return policy(isAdmin ? "gress-rules" : "default", {
    tier,
    priority: isAdmin ? 15 : 10,
    subject: houseByName("gryffindor"),
    egress: arrange(rulesOf(tier, "egress")),
    ingress: arrange(rulesOf(tier, "ingress")),
  });
}

function rulesOf(tier: Tier, direction: Direction): readonly Rule[] {
  const about = (action: Rule["action"], house: House, ports?: readonly Traffic[]): Rule =>
    rule(direction, action, [houseByName(house)], ports?.map(protocolOf));
  const rules = [
    about("Accept", "ravenclaw"),
    about("Deny", "ravenclaw"),
    about("Pass", "ravenclaw"),
    about("Deny", "slytherin", BARRED),
    about("Pass", "slytherin", BARRED),
    about("Accept", "hufflepuff", NARROW[direction]),
    about("Deny", "hufflepuff"),
  ];
  return tier === "Admin" ? rules : rules.filter(({ action }) => action !== "Pass");
}

function bothWays(house: House, verdicts: Pick<Flows, "allowed" | "denied">): readonly Flows[] {
  return [
    { from: "gryffindor", to: house, ...verdicts },
    { from: house, to: "gryffindor", ...verdicts },
  ];
}
