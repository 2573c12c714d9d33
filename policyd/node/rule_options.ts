import type { Configuration } from "../configuration/configuration.ts";
import type { PolicyOptions } from "../policy/compile/options.ts";
import type { ServiceRules } from "../services/compile/context.ts";

/** How the configuration has policies enforced; undefined where they are not. */
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
 * How the configuration has Services served: what the rules depend on, apart from what is in the cluster; undefined where
 * another program serves them.
 */
export function serviceRules({ services, markBits, tcpReset, dropInvalid }: Configuration): ServiceRules | undefined {
  if (!services) return undefined;
  return { masqueradeBit: markBits.masquerade, tcpReset, dropInvalid };
}
