import type { Configuration } from "../../configuration/configuration.ts";
import type { PolicyOptions } from "../../policies/compile/options.ts";
import type { ServiceRules } from "../../services/rules/context.ts";

/** Returns the configured options of policies; undefined where policies are not enforced. */
export function policyOptions({
  policies,
  bridge,
  policePodToOwnNode,
  nodeLocalDNS,
  policyReset,
  dropLog,
  dropLogGroup,
}: Configuration): PolicyOptions | undefined {
  if (!policies) return undefined;
  return { bridge, policePodToOwnNode, nodeLocalDNS, policyReset, dropLog, dropLogGroup };
}

/**
 * Returns the configured options of Services' rules, which do not depend on objects; undefined where another program
 * serves Services.
 */
export function serviceRules({ services, markBits, tcpReset, dropInvalid }: Configuration): ServiceRules | undefined {
  if (!services) return undefined;
  return { masqueradeBit: markBits.masquerade, tcpReset, dropInvalid };
}
