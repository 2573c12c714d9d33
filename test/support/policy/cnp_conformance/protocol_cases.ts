import type { ConformanceCase, ConformanceSubtest } from "./conformance_case.ts";
import { flowsWith, policyOf, rulesOf, type Shape, SHAPES } from "./protocol_shape.ts";
import { type Rule, swapped, type Tier } from "./words.ts";

/** One test for each tier, direction and protocol. */
export const PROTOCOL_CASES: readonly ConformanceCase[] = Object.values(SHAPES).flatMap((shape: Shape) => {
  const name = `${shape.direction === "egress" ? "Egress" : "Ingress"}${shape.protocol}` as const;
  return [
    { name: `CNPAdminTier${name}`, subtests: [...orderAndPorts("Admin", shape), ...passing(shape)] },
    { name: `CNPBaselineTier${name}`, subtests: orderAndPorts("Baseline", shape) },
  ];
});

function orderAndPorts(tier: Tier, shape: Shape): readonly ConformanceSubtest[] {
  const { whole, barred, barredPorts, narrow, narrowPorts } = shape;
  const rules = rulesOf(tier, shape);
  const before = [policyOf(tier, shape, rules)];
  const after = [policyOf(tier, shape, swapped(rules, 0, 1))];
  return [
    {
      behaviour: "CNP-02",
      name: "Accept before Deny accepts every port",
      policies: before,
      flows: [flowsWith(shape, whole, { allowed: barredPorts })],
    },
    {
      behaviour: "CNP-06",
      name: "Accept at a port before Deny accepts only that port",
      policies: before,
      flows: [flowsWith(shape, narrow, { allowed: [narrowPorts[0]], denied: [narrowPorts[1]] })],
    },
    {
      behaviour: "CNP-02",
      name: "Deny before Accept denies every port",
      policies: after,
      flows: [flowsWith(shape, whole, { denied: barredPorts })],
    },
    {
      behaviour: "CNP-06",
      name: "Deny at a port does not affect other ports",
      policies: after,
      flows: [flowsWith(shape, barred, { allowed: [barredPorts[1]], denied: [barredPorts[0]] })],
    },
  ];
}

function passing(shape: Shape): readonly ConformanceSubtest[] {
  const { whole, barred, barredPorts } = shape;
  const first = swapped(swapped(rulesOf("Admin", shape), 0, 1), 0, 2);
  const admin = (rules: readonly Rule[]): readonly object[] => [policyOf("Admin", shape, rules)];
  return [
    {
      behaviour: "CNP-03",
      name: "Pass before Accept and Deny leaves every port to the default",
      policies: admin(first),
      flows: [flowsWith(shape, whole, { allowed: barredPorts })],
    },
    {
      behaviour: "CNP-03",
      name: "Pass at a port before its Deny leaves the port to the default",
      policies: admin(swapped(first, 3, 4)),
      flows: [flowsWith(shape, barred, { allowed: barredPorts })],
    },
  ];
}
