import { oversizes } from "../../size.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { oversizedServices } from "../../../cluster/service_world.ts";
import { type LintContext, remark } from "../context.ts";
import type { LintRule, Remark } from "../finding.ts";

/** An address of 240.0.0.0/4, reserved (RFC 1112): no cluster has it. */
const STAND_IN = parseAddress("240.0.0.1");

export const tooLarge: LintRule = {
  id: "too-large",
  severity: "error",
  summary: "A policy has more peers and ports, or a Service more addresses, ports and endpoints, than nodes take.",
  reason:
    "Nodes isolate the pods of the policy and let it allow nothing (POL-73); of the Service they serve a part (BAD-01).",
  check: (context) => [...largePolicies(context), ...largeServices(context)],
};

function largePolicies({ index, networkPolicies }: LintContext): readonly Remark[] {
  return oversizes(index).flatMap(({ policy, direction, text, fix }) =>
    networkPolicies
      .filter((linted) => linted.policy === policy)
      .map(({ manifest }) => remark(manifest, ["spec", direction], `${direction}: ${text}`, fix)),
  );
}

/** Reports Services that are too large with their slices' endpoints, and an address if they have none yet. */
function largeServices({ services, store, settings }: LintContext): readonly Remark[] {
  const whole = services.map(({ service }) =>
    service.clusterIps.length > 0 ? service : { ...service, clusterIps: [STAND_IN] },
  );
  const found = oversizedServices(whole, [...store.endpointSlices.values()], settings.refuseExternalIps);
  return services.flatMap(({ manifest, service }) =>
    (found.get(service.key)?.problems ?? []).map((problem) =>
      remark(
        manifest,
        ["spec"],
        problem.slice(`Service ${service.key}: `.length),
        "make several Services of it, or give it fewer addresses and ports",
      ),
    ),
  );
}
