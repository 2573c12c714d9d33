import { inBoth, type Question, type Traffic } from "../lab/question.ts";
import { clusterNetworkPolicy, labelled, networkPolicy, oneOf } from "../manifest.ts";
import { A, B } from "./words.ts";
import { prefixesOf, type Row } from "./row.ts";

const TIERS = ["Admin", "Baseline"] as const;
type Tier = (typeof TIERS)[number];
type Action = "Accept" | "Deny" | "Pass";
const DIRECTIONS = ["ingress", "egress"] as const;
const PROTOCOLS = ["TCP", "UDP", "SCTP"] as const;
const TRAFFIC: readonly Traffic[] = ["80/TCP", "81/TCP", "80/UDP", "80/SCTP"];

/** One rule for each direction: an action about a peer, at these ports or at all of them. */
interface Rule {
  readonly action: Action;
  readonly peer: object;
  readonly protocols?: readonly object[];
}

const EVERYONE = { namespaces: {} };
const EVERY_ADDRESS = { networks: ["0.0.0.0/0", "::/0"] };
const namespaceOf = (name: string): object => ({ namespaces: labelled({ ns: name }) });
const podsOf = (namespaceSelector: object, podSelector: object): object => ({
  pods: { namespaceSelector, podSelector },
});
const to = (action: Action, peer: object = EVERYONE, ...protocols: readonly object[]): Rule => ({
  action,
  peer,
  ...(protocols.length === 0 ? {} : { protocols }),
});
const at = (traffic: Traffic): object => {
  const [number, protocol = ""] = traffic.toLowerCase().split("/");
  return { [protocol]: { destinationPort: { number: Number(number) } } };
};

/** The fields in which a policy differs from most others. */
interface PolicyChanges {
  readonly priority?: number;
  readonly name?: string;
  readonly subject?: object;
  readonly directions?: readonly ("ingress" | "egress")[];
}

/** Returns a policy for x/a, or for another subject, whose rules are the same in these directions. */
function policy(tier: Tier, rules: readonly Rule[], changes: PolicyChanges = {}): object {
  const { priority = 10, subject = podsOf(labelled({ ns: "x" }), A), directions = DIRECTIONS } = changes;
  const { name = tier === "Admin" ? `admin-${priority}` : "default" } = changes;
  const spec: Record<string, unknown> = { tier, priority, subject };
  for (const direction of directions) {
    spec[direction] = rules.map(({ peer, ...rest }) => ({ ...rest, [direction === "egress" ? "to" : "from"]: [peer] }));
  }
  return clusterNetworkPolicy(name, spec);
}

const isolating = (...rules: readonly object[]): object =>
  networkPolicy("x", { podSelector: A, policyTypes: ["Ingress", "Egress"], ingress: rules, egress: rules });
/** Returns flows between x/a and other pods, by default one of its node and one of the other node, both ways. */
const flows = (traffics: readonly Traffic[], ...others: readonly string[]): readonly Question[] =>
  (others.length === 0 ? ["x/b", "z/a"] : others).flatMap((other) => [
    ...inBoth(other, "x/a", ...traffics),
    ...inBoth("x/a", other, ...traffics),
  ]);

/** Tiers, priorities, rules and peers of ClusterNetworkPolicies. */
export const CLUSTER_POLICY_ROWS: readonly Row[] = [
  {
    title: "CNP-01: the Admin tier decides, Pass leaves a flow to NetworkPolicies, and these to the Baseline tier",
    steps: [
      { policies: [policy("Admin", [to("Deny")]), isolating({})], denied: flows(TRAFFIC) },
      { policies: [policy("Admin", [to("Accept")]), isolating()], allowed: flows(TRAFFIC) },
      {
        policies: [policy("Admin", [to("Pass")]), isolating({}), policy("Baseline", [to("Deny")])],
        allowed: flows(TRAFFIC),
      },
      {
        policies: [policy("Admin", [to("Pass")]), isolating(), policy("Baseline", [to("Accept")])],
        denied: flows(TRAFFIC),
      },
      { policies: [policy("Admin", [to("Pass")]), policy("Baseline", [to("Deny")])], denied: flows(TRAFFIC) },
      { policies: [policy("Admin", [to("Pass")])], allowed: flows(TRAFFIC) },
    ],
  },
  {
    title: "CNP-01: rules of one direction affect no flow of the other direction",
    steps: TIERS.flatMap((tier) => [
      {
        policies: [policy(tier, [to("Deny")], { directions: ["ingress"] })],
        denied: inBoth("z/a", "x/a", ...TRAFFIC),
        allowed: inBoth("x/a", "z/a", ...TRAFFIC),
      },
      {
        policies: [policy(tier, [to("Deny")], { directions: ["egress"] })],
        denied: inBoth("x/a", "z/a", ...TRAFFIC),
        allowed: inBoth("z/a", "x/a", ...TRAFFIC),
      },
    ]),
  },
  {
    title:
      "CNP-02: the lowest priority of a tier decides, and of its rules the first; policies of one priority all apply",
    steps: [
      ...TIERS.flatMap((tier) => [
        { policies: [policy(tier, [to("Accept"), to("Deny")])], allowed: flows(TRAFFIC) },
        { policies: [policy(tier, [to("Deny"), to("Accept")])], denied: flows(TRAFFIC) },
        {
          policies: [
            policy(tier, [to("Deny", namespaceOf("y"), at("80/TCP"))], { name: "one" }),
            policy(tier, [to("Deny", namespaceOf("z"), at("81/TCP"))], { name: "other" }),
          ],
          denied: [...flows(["80/TCP"], "y/a"), ...flows(["81/TCP"], "z/a")],
          allowed: [...flows(["81/TCP"], "y/a"), ...flows(["80/TCP"], "z/a"), ...flows(TRAFFIC, "x/b")],
        },
      ]),
      ...([60, 40] as const).map((priority) => ({
        policies: [
          policy("Admin", [to("Deny")], { priority: 50 }),
          policy("Admin", [to("Pass")], { priority }),
          policy("Baseline", [to("Accept")]),
        ],
        ...(priority === 60 ? { denied: flows(TRAFFIC) } : { allowed: flows(TRAFFIC) }),
      })),
    ],
  },
  {
    title: "CNP-01 CNP-05: a rule at a port decides only about that port of its protocol, whatever its action is",
    steps: PROTOCOLS.flatMap((protocol) => {
      const own: Traffic = `80/${protocol}`;
      const others: readonly Traffic[] = [`81/${protocol}`, protocol === "TCP" ? "80/UDP" : "80/TCP"];
      return TIERS.flatMap((tier) =>
        (["Accept", "Deny", ...(tier === "Admin" ? (["Pass"] as const) : [])] as const).map((action) =>
          action === "Deny"
            ? {
                policies: [policy(tier, [to(action, EVERYONE, at(own))])],
                denied: flows([own]),
                allowed: flows(others),
              }
            : {
                policies: [policy(tier, [to(action, EVERYONE, at(own)), to("Deny")])],
                allowed: flows([own]),
                denied: flows(others),
              },
        ),
      );
    }),
  },
  {
    title: "CNP-05: a range of ports includes both its ends, and a name means the number of the pod that is asked",
    steps: TIERS.flatMap((tier) => [
      ...PROTOCOLS.map((protocol) => ({
        policies: [
          policy(tier, [
            to("Accept", EVERYONE, {
              [protocol.toLowerCase()]: { destinationPort: { range: { start: 80, end: 81 } } },
            }),
            to("Deny"),
          ]),
        ],
        allowed: flows([`80/${protocol}`, `81/${protocol}`]),
        denied: flows([`79/${protocol}`, `82/${protocol}`]),
      })),
      {
        policies: [policy(tier, [to("Accept", EVERYONE, { destinationNamedPort: "serve-80-udp" }), to("Deny")])],
        allowed: flows(["80/UDP"]),
        denied: flows(["81/UDP", "80/TCP"]),
      },
    ]),
  },
  {
    title: "CNP-04: labels of namespaces, of pods or of both select subjects and peers",
    steps: TIERS.flatMap((tier) => [
      {
        policies: [policy(tier, [to("Deny", namespaceOf("y")), to("Deny", podsOf(labelled({ ns: "z" }), B))])],
        denied: flows(["80/TCP"], "y/a", "y/b", "z/b"),
        allowed: flows(["80/TCP"], "z/a", "x/b"),
      },
      {
        policies: [policy(tier, [to("Deny", podsOf({}, B))])],
        denied: flows(["80/TCP"], "x/b", "y/b", "z/b"),
        allowed: flows(["80/TCP"], "x/c", "y/a"),
      },
      {
        policies: [
          policy(tier, [to("Deny", namespaceOf("z"))], {
            subject: { namespaces: oneOf("kubernetes.io/metadata.name", ["y"]) },
          }),
        ],
        denied: [...inBoth("z/a", "y/c", "80/TCP"), ...inBoth("y/a", "z/b", "80/TCP")],
        allowed: flows(["80/TCP"], "z/a"),
      },
    ]),
  },
  {
    title: "CNP-05: egress peers may be networks, to which pods and hosts outside belong, and nodes by their labels",
    steps: (lab) => {
      const networks = ["y/b", "z/a"].flatMap((key) => prefixesOf(lab, key));
      const nodesOf = (system: string): object => ({ nodes: labelled({ "kubernetes.io/os": system }) });
      const toEach = (keys: readonly string[], ...traffics: readonly Traffic[]): readonly Question[] =>
        keys.flatMap((key) => inBoth("x/a", key, ...traffics));
      return TIERS.flatMap((tier) => {
        const egress = (...rules: readonly Rule[]): object => policy(tier, rules, { directions: ["egress"] });
        return [
          {
            policies: [egress(to("Accept", namespaceOf("x")), to("Accept", { networks }), to("Deny", EVERY_ADDRESS))],
            allowed: toEach(["x/b", "x/c", "y/b", "z/a"], ...TRAFFIC),
            denied: toEach(["y/a", "z/b", "outside", "node2"], ...TRAFFIC),
          },
          {
            policies: [
              egress(
                to("Deny", nodesOf("windows")),
                to("Accept", nodesOf("linux"), at("80/TCP")),
                to("Deny", nodesOf("linux")),
              ),
            ],
            allowed: [...toEach(["node2"], "80/TCP"), ...toEach(["y/a", "outside"], "81/TCP")],
            denied: toEach(["node2"], "81/TCP", "80/UDP", "80/SCTP"),
          },
        ];
      });
    },
  },
];
