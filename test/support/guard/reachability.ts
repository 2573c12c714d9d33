import assert from "node:assert/strict";
import { type Address, formatAddress } from "../../../kernel/ip/address.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import type { Flow, Prober, ProbeResult } from "../../lab/probe/prober.ts";
import { PROTOCOLS } from "../../lab/probe/protocol.ts";
import type { GuardedNode } from "./guarded_node.ts";
import { PORT } from "./virtual_addresses.ts";

/** Opens responders of every protocol in the pods, on the node and outside. */
export function listenEverywhere(prober: Prober, { attacker, victim, third, fourth, wired, nodes }: GuardedNode): void {
  const listen = (namespace: LabNamespace, address: Address): void => {
    for (const protocol of PROTOCOLS) prober.listen(protocol, { namespace, address, port: PORT });
  };
  for (const pod of [attacker, victim, third, fourth]) {
    for (const address of bothAddresses(pod)) listen(pod.namespace, address);
  }
  for (const address of wired.addresses) listen(wired.node, address);
  for (const address of wired.routerAddresses) listen(nodes.router, address);
}

/** Returns the IPv4 and the IPv6 address. */
export function bothAddresses({
  addresses,
}: {
  readonly addresses: Readonly<Record<4 | 6, Address>>;
}): readonly Address[] {
  return [addresses[4], addresses[6]];
}

export function flowsTo(
  from: LabNamespace,
  addresses: readonly Address[],
  protocols: readonly Flow["protocol"][] = PROTOCOLS,
): readonly Flow[] {
  return addresses.flatMap((address) => protocols.map((protocol) => ({ protocol, from, to: { address, port: PORT } })));
}

/** Probes flows and asserts that every one gets through. */
export async function reach(prober: Prober, flows: readonly Flow[]): Promise<readonly ProbeResult[]> {
  const results = await prober.run(flows, { timeoutMilliseconds: 20_000 });
  const lost = results.filter(({ reached }) => !reached);
  assert.deepEqual(
    lost.map(({ flow, why }) => `${flow.protocol} ${flow.from.name} to ${formatAddress(flow.to.address)}: ${why}`),
    [],
  );
  return results;
}
