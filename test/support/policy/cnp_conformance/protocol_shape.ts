import type { Flows, Traffic } from "./conformance_case.ts";
import type { House } from "./hogwarts.ts";
import { type Direction, houseByName, policy, protocolOf, type Rule, rule, type Tier } from "./words.ts";

/** The differences between the tests of directions and protocols. Rules name the first of two ports. */
export interface Shape {
  readonly direction: Direction;
  readonly protocol: "TCP" | "UDP" | "SCTP";
  /** The priority in the Admin tier. */
  readonly priority: number;
  readonly subject: House;
  /** The peer of rules for every port, the first of which decides. */
  readonly whole: House;
  /** The peer that is denied one port, or for which that port passes on to the next tier. */
  readonly barred: House;
  readonly barredPorts: readonly [Traffic, Traffic];
  /** The peer for which one port is accepted and no other. */
  readonly narrow: House;
  readonly narrowPorts: readonly [Traffic, Traffic];
}

type Verdicts = Pick<Flows, "allowed" | "denied">;

const TCP = {
  protocol: "TCP",
  subject: "gryffindor",
  whole: "ravenclaw",
  barred: "slytherin",
  barredPorts: ["80/TCP", "8080/TCP"],
  narrow: "hufflepuff",
} as const;

const UDP = {
  protocol: "UDP",
  subject: "hufflepuff",
  whole: "ravenclaw",
  barred: "slytherin",
  barredPorts: ["5353/UDP", "53/UDP"],
  narrow: "gryffindor",
  narrowPorts: ["53/UDP", "5353/UDP"],
} as const;

const SCTP = {
  protocol: "SCTP",
  subject: "ravenclaw",
  whole: "gryffindor",
  barred: "slytherin",
  barredPorts: ["9003/SCTP", "9005/SCTP"],
  narrow: "hufflepuff",
  narrowPorts: ["9003/SCTP", "9005/SCTP"],
} as const;

export const SHAPES = {
  ingressTcp: { ...TCP, direction: "ingress", priority: 3, narrowPorts: ["80/TCP", "8080/TCP"] },
  ingressUdp: { ...UDP, direction: "ingress", priority: 4 },
  ingressSctp: { ...SCTP, direction: "ingress", priority: 5 },
  egressTcp: { ...TCP, direction: "egress", priority: 6, narrowPorts: ["8080/TCP", "80/TCP"] },
  egressUdp: { ...UDP, direction: "egress", priority: 7 },
  egressSctp: { ...SCTP, direction: "egress", priority: 8 },
} as const satisfies Readonly<Record<string, Shape>>;

/** Returns the rules of the suite's files; those of the Baseline tier have no Pass. */
export function rulesOf(
  tier: Tier,
  { direction, whole, barred, barredPorts, narrow, narrowPorts }: Shape,
): readonly Rule[] {
  const about = (action: Rule["action"], house: House, port?: Traffic): Rule =>
    rule(direction, action, [houseByName(house)], port === undefined ? undefined : [protocolOf(port)]);
  const rules = [
    about("Accept", whole),
    about("Deny", whole),
    about("Pass", whole),
    about("Deny", barred, barredPorts[0]),
    about("Pass", barred, barredPorts[0]),
    about("Accept", narrow, narrowPorts[0]),
    about("Deny", narrow),
  ];
  return tier === "Admin" ? rules : rules.filter(({ action }) => action !== "Pass");
}

/** Returns the only policy of a test. */
export function policyOf(
  tier: Tier,
  { direction, protocol, priority, subject }: Shape,
  rules: readonly Rule[],
): object {
  const isAdmin = tier === "Admin";
  return policy(isAdmin ? `${direction}-${protocol.toLowerCase()}` : "default", {
    tier,
    priority: isAdmin ? priority : 10,
    subject: houseByName(subject),
    [direction]: rules,
  });
}

/** Returns the flows between the subject and a peer, in the direction of the rules. */
export function flowsWith({ direction, subject }: Shape, peer: House, verdicts: Verdicts): Flows {
  return direction === "egress" ? { from: subject, to: peer, ...verdicts } : { from: peer, to: subject, ...verdicts };
}
