import type { ConformanceCase, Traffic } from "./conformance_case.ts";
import { flowsWith, policyOf, rulesOf, type Shape, SHAPES } from "./protocol_shape.ts";
import type { Tier } from "./words.ts";

/** The cases by protocol, in which the only rule that accepts a port has the port's name instead. */
export const NAMED_PORT_CASES: readonly ConformanceCase[] = [
  namedPortCase("CNPAdminTierEgressNamedPort", "Admin", SHAPES.egressTcp, "web", ["80/TCP", "8080/TCP"]),
  namedPortCase("CNPAdminTierIngressNamedPort", "Admin", SHAPES.ingressUdp, "dns", ["53/UDP", "5353/UDP"]),
  namedPortCase("CNPBaselineTierEgressNamedPort", "Baseline", SHAPES.egressUdp, "dns", ["53/UDP", "5353/UDP"]),
  namedPortCase("CNPBaselineTierIngressNamedPort", "Baseline", SHAPES.ingressTcp, "web", ["80/TCP", "8080/TCP"]),
];

function namedPortCase(
  name: ConformanceCase["name"],
  tier: Tier,
  shape: Shape,
  portName: string,
  [named, other]: readonly [Traffic, Traffic],
): ConformanceCase {
  const rules = rulesOf(tier, shape).map((rule) =>
    rule.action === "Accept" && rule.protocols !== undefined
      ? { ...rule, protocols: [{ destinationNamedPort: portName }] }
      : rule,
  );
  return {
    name,
    subtests: [
      {
        behaviour: "CNP-06",
        name: "Accept at a port's name before Deny accepts only that port",
        policies: [policyOf(tier, shape, rules)],
        flows: [flowsWith(shape, shape.narrow, { allowed: [named], denied: [other] })],
      },
    ],
  };
}
