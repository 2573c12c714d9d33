import { formatAddress } from "../../../kernel/ip/address.ts";
import type { Service } from "../../cluster/model.ts";
import { isSpecial } from "./endpoints.ts";
import { familiesOf } from "./frontends.ts";

/** Which addresses of a Service are no frontends, since they are no single machine's; a sentence each. */
export function fieldProblems(service: Service): readonly string[] {
  if (familiesOf(service).length === 0) return [];
  const { clusterIps, externalIps, loadBalancerIngress } = service;
  const fields = {
    "spec.clusterIPs": clusterIps,
    "spec.externalIPs": externalIps,
    "status.loadBalancer.ingress": loadBalancerIngress.map(({ address }) => address),
  };
  const addresses = Object.entries(fields).flatMap(([field, list]) =>
    list
      .filter((address) => isSpecial(address))
      .map((address) => `${field}: ${formatAddress(address)}; expected an address that a machine can have`),
  );
  return addresses.map((problem) => `Service ${service.key}: ${problem}`);
}
