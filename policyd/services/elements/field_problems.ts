import { type Address, formatAddress } from "../../../kernel/ip/address.ts";
import type { Service } from "../../../objects/model.ts";
import { isSpecial } from "./endpoints.ts";
import { familiesOf } from "./frontends.ts";

/** Returns a sentence for each address of a Service that cannot be a frontend, since no single machine can have it. */
export function fieldProblems(service: Service): readonly string[] {
  if (familiesOf(service).length === 0) return [];
  const { key, clusterIps, externalIps, loadBalancerIngress } = service;
  const problems: string[] = [];
  const check = (field: string, address: Address): void => {
    if (!isSpecial(address)) return;
    const text = formatAddress(address);
    problems.push(`Service ${key}: ${field}: ${text}; expected an address that a machine can have`);
  };
  for (const address of clusterIps) check("spec.clusterIPs", address);
  for (const address of externalIps) check("spec.externalIPs", address);
  for (const { address } of loadBalancerIngress) check("status.loadBalancer.ingress", address);
  return problems;
}
