import type { LintRule } from "./finding.ts";
import { ignoreComment } from "./silence.ts";
import { adminPolicies, exceptOutsideCidr, experimental, invalid } from "./rules/invalid.ts";
import { allowsNothing, rulesIgnored } from "./rules/allows_nothing.ts";
import { dnsForgotten } from "./rules/dns.ts";
import { enginesDiffer } from "./rules/engines.ts";
import { familyForgotten } from "./rules/family.ts";
import { notExpressible } from "./rules/not_expressible.ts";
import { andOr, hostNetwork, peersReadAs } from "./rules/peers.ts";
import { servicePort, unknownPortName } from "./rules/ports.ts";
import { redundant } from "./rules/redundant.ts";
import { namespaceTypo, peerSelectsNothing, selectsNothing, unknownNamespace } from "./rules/selects_nothing.ts";
import { externalIps, nodesReachable, serviceAddress, topologyKeys } from "./rules/services.ts";
import { inShadow, shadowAnnotation } from "./rules/shadow.ts";
import { shadowed, undefinedOrder } from "./rules/shadowed.ts";
import { tooLarge } from "./rules/too_large.ts";
import { controllerKeptOut } from "./rules/ways_in.ts";

/** All rules of lint. */
export const RULES: readonly LintRule[] = [
  invalid,
  exceptOutsideCidr,
  adminPolicies,
  experimental,
  tooLarge,
  selectsNothing,
  peerSelectsNothing,
  namespaceTypo,
  unknownNamespace,
  allowsNothing,
  rulesIgnored,
  shadowed,
  redundant,
  undefinedOrder,
  inShadow,
  shadowAnnotation,
  servicePort,
  unknownPortName,
  serviceAddress,
  andOr,
  peersReadAs,
  hostNetwork,
  dnsForgotten,
  familyForgotten,
  enginesDiffer,
  notExpressible,
  externalIps,
  nodesReachable,
  topologyKeys,
  controllerKeptOut,
  ignoreComment,
];
