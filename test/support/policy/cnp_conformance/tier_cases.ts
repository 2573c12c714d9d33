import { labelled, networkPolicy } from "../manifest.ts";
import type { ConformanceCase, Flows, Traffic } from "./conformance_case.ts";
import { namespaceOf } from "./hogwarts.ts";
import { type Action, houseByLabel, podsByLabel, policy, rule, type Tier } from "./words.ts";

const PORTS: readonly Traffic[] = ["80/TCP", "8080/TCP"];

/** Returns flows from slytherin to gryffindor. */
const incoming = (verdicts: Pick<Flows, "allowed" | "denied">): Flows => ({
  from: "slytherin",
  to: "gryffindor",
  ...verdicts,
});
const outgoing = (verdicts: Pick<Flows, "allowed" | "denied">): Flows => ({
  from: "gryffindor",
  to: "slytherin",
  ...verdicts,
});

/** Cases of the order of tiers and priorities. */
export const TIER_CASES: readonly ConformanceCase[] = [
  {
    name: "CNPAdminTierIntegration",
    subtests: [
      {
        behaviour: "CNP-01",
        name: "Deny of the Admin tier wins over a NetworkPolicy at ingress",
        policies: [tierPolicy("Admin", "Deny", "Deny"), allowing(), tierPolicy("Baseline", "Deny", "Deny")],
        flows: [incoming({ denied: PORTS })],
      },
      {
        behaviour: "CNP-01",
        name: "Deny of the Admin tier wins over a NetworkPolicy at egress",
        policies: [tierPolicy("Admin", "Deny", "Deny"), allowing(), tierPolicy("Baseline", "Deny", "Deny")],
        flows: [outgoing({ denied: PORTS })],
      },
      {
        behaviour: "CNP-03",
        name: "Pass of the Admin tier leaves ingress to the NetworkPolicy",
        policies: [tierPolicy("Admin", "Pass", "Deny"), allowing(), tierPolicy("Baseline", "Deny", "Deny")],
        flows: [incoming({ allowed: PORTS })],
      },
      {
        behaviour: "CNP-03",
        name: "Pass of the Admin tier leaves egress to the NetworkPolicy",
        policies: [tierPolicy("Admin", "Pass", "Pass"), allowing(), tierPolicy("Baseline", "Deny", "Deny")],
        flows: [outgoing({ allowed: PORTS })],
      },
      {
        behaviour: "CNP-01",
        name: "without the NetworkPolicy ingress is left to the Baseline tier",
        policies: [tierPolicy("Admin", "Pass", "Pass"), tierPolicy("Baseline", "Deny", "Deny")],
        flows: [incoming({ denied: PORTS })],
      },
      {
        behaviour: "CNP-01",
        name: "without the NetworkPolicy egress is left to the Baseline tier",
        policies: [tierPolicy("Admin", "Pass", "Pass"), tierPolicy("Baseline", "Deny", "Deny")],
        flows: [outgoing({ denied: PORTS })],
      },
    ],
  },
  {
    name: "CNPAdminTierPriorityField",
    subtests: [
      {
        behaviour: "CNP-02",
        name: "Deny at 50 comes before Pass at 60 at ingress",
        policies: prioritized(60),
        flows: [incoming({ denied: PORTS })],
      },
      {
        behaviour: "CNP-02",
        name: "Deny at 50 comes before Pass at 60 at egress",
        policies: prioritized(60),
        flows: [outgoing({ denied: PORTS })],
      },
      {
        behaviour: "CNP-02",
        name: "Pass at 40 comes before Deny at 50 and leaves both ways to the Baseline tier",
        policies: prioritized(40),
        flows: [incoming({ allowed: PORTS }), outgoing({ allowed: PORTS })],
      },
    ],
  },
];

/** Returns a policy with two rules about slytherin for gryffindor. */
function tierPolicy(tier: Tier, ingress: Action, egress: Action): object {
  return policy(tier === "Admin" ? "pass-example" : "default", {
    tier,
    priority: 10,
    subject: houseByLabel("gryffindor"),
    ingress: [rule("ingress", ingress, [houseByLabel("slytherin")])],
    egress: [rule("egress", egress, [houseByLabel("slytherin")])],
  });
}

/**
 * Returns a NetworkPolicy that allows slytherin's pods, and no others, to all pods of gryffindor; the upstream file
 * leaves the selector null.
 */
function allowing(): object {
  const peers = [{ namespaceSelector: labelled({ "conformance-house": "slytherin" }) }];
  const spec = {
    podSelector: null,
    policyTypes: ["Ingress", "Egress"],
    ingress: [{ from: peers }],
    egress: [{ to: peers }],
  };
  return networkPolicy(namespaceOf("gryffindor"), spec, "allow-gress-from-to-slytherin-to-gryffindor");
}

/** Returns policies with Pass at some priority and Deny at 50, and Accept in the Baseline tier. */
function prioritized(priority: number): readonly object[] {
  const about = (name: string, tier: Tier, action: Action, at: number): object =>
    policy(name, {
      tier,
      priority: at,
      subject: podsByLabel("gryffindor"),
      ingress: [rule("ingress", action, [podsByLabel("slytherin")])],
      egress: [rule("egress", action, [podsByLabel("slytherin")])],
    });
  return [
    about("priority-50-example", "Admin", "Deny", 50),
    about("old-priority-60-new-priority-40-example", "Admin", "Pass", priority),
    about("default", "Baseline", "Accept", 10),
  ];
}
