import { DIRECTIONS } from "../../../../objects/semantics/policies/flow.ts";
import { type Family, familyOf } from "../../../../kernel/ip/address.ts";
import { cidrFamily } from "../../../../kernel/ip/cidr.ts";
import type { Pod } from "../../../../objects/model.ts";
import { isolates, type LintContext, remark } from "../context.ts";
import type { LintRule } from "../finding.ts";

export const familyForgotten: LintRule = {
  id: "family-forgotten",
  severity: "warning",
  summary: "A policy of dual-stack pods has ipBlocks of one family only: the other stays closed.",
  reason: "A connection may be cut or slow depending on the name.",
  check: (context) =>
    context.networkPolicies.flatMap(({ manifest, policy, pods }) =>
      DIRECTIONS.filter((direction) => isolates(policy, direction)).flatMap((direction) => {
        if (!areDualStack(context, pods)) return [];
        const blocks = policy[direction].flatMap(({ index, peers }) =>
          (peers ?? []).flatMap((peer) => (peer.type === "ipBlock" ? [{ rule: index, peer }] : [])),
        );
        const [first] = blocks;
        const families = new Set(blocks.map(({ peer }) => cidrFamily(peer.cidr)));
        // A rule without peers includes both families.
        if (first === undefined || families.size > 1 || policy[direction].some(({ peers }) => peers === undefined))
          return [];
        const [here = 4] = families;
        const message = `the pods have IPv4 and IPv6 addresses, and its ipBlocks are all of IPv${here}`;
        const path = ["spec", direction, first.rule, direction === "egress" ? "to" : "from", first.peer.index];
        return [remark(manifest, path, message, `add the ipBlocks of IPv${other(here)}`)];
      }),
    ),
};

function other(family: Family): Family {
  return family === 4 ? 6 : 4;
}

/** Returns whether pods are dual-stack, by their addresses; if none has any yet, by those of nodes and Services. */
function areDualStack({ nodes, services }: LintContext, pods: readonly Pod[]): boolean {
  const known = pods.filter(({ addresses }) => addresses.length > 0);
  if (known.length > 0) return known.some(({ addresses }) => new Set(addresses.map(familyOf)).size > 1);
  if (pods.length === 0) return false;
  const ranges = nodes.map(({ podCidrs }) => new Set(podCidrs.map(cidrFamily)));
  const frontends = services.map(({ service }) => new Set(service.clusterIps.map(familyOf)));
  return [...ranges, ...frontends].some(({ size }) => size > 1);
}
