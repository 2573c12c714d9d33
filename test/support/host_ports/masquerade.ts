import assert from "node:assert/strict";
import { type Address, formatAddress } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { podResult } from "../cni/add_result.ts";
import { add, type CallOutcome, type Configuration, del } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { Prober } from "../../lab/probe/prober.ts";
import type { TwoNodes } from "../../lab/topology.ts";
import { PORT } from "./published.ts";

/** Returns the addresses that an ADD gave; the ADD must have succeeded. */
export function addressesIn(outcome: CallOutcome): readonly Address[] {
  return podResult(outcome).ips.map(({ address }) => parseCidr(address).address);
}

/**
 * Asserts the masquerading of B11 for pods of the first node, and that nothing of it is left after their DEL.
 *
 * @param overrides of the first node's configuration
 */
export async function assertMasquerade(lab: Lab, nodes: TwoNodes, overrides: Configuration): Promise<void> {
  using prober = new Prober(lab);
  const wired = nodes.node1;
  const [near, far] = [lab.pod("near"), lab.pod("far")];
  const servers: readonly (readonly [LabNamespace, readonly Address[]])[] = [
    [nodes.router, wired.routerAddresses],
    [near, addressesIn(add(wired, near, overrides))],
    [far, addressesIn(add(nodes.node2, far))],
  ];
  for (const [namespace, addresses] of servers) {
    for (const address of addresses) prober.listen("tcp", { namespace, address, port: PORT });
  }
  const seenFrom = async (pod: LabPod): Promise<readonly string[]> => {
    const flows = servers.flatMap(([, addresses]) =>
      addresses.map((address) => ({ protocol: "tcp", from: pod, to: { address, port: PORT } }) as const),
    );
    return (await prober.run(flows)).map(({ seenSource, why }) =>
      seenSource === undefined ? why : formatAddress(seenSource),
    );
  };
  const attach = (pod: LabPod, wish: Configuration): readonly string[] =>
    addressesIn(add(wired, pod, { ...overrides, ...wish })).map(formatAddress);
  const node = wired.addresses.map(formatAddress);

  const plain = lab.pod("plain");
  const own = attach(plain, { ipMasq: false });
  assert.deepEqual(await seenFrom(plain), [...own, ...own, ...own]);

  const masqueraded = lab.pod("masq");
  const masqueradedOwn = attach(masqueraded, { ipMasq: true, ipMasqBackend: "nftables" });
  assert.deepEqual(await seenFrom(masqueraded), [...node, ...masqueradedOwn, ...node]);

  const cluster = lab.pod("cluster");
  const nonMasqueradeCIDRs = ["10.244.0.0/16", "fd00:244::/32", "10.244.1.0/24"];
  const clusterOwn = attach(cluster, { ipMasq: true, nonMasqueradeCIDRs });
  assert.deepEqual(await seenFrom(cluster), [...node, ...clusterOwn, ...clusterOwn]);

  for (const pod of [masqueraded, cluster]) assert.equal(del(wired, pod, overrides).exitCode, 0);
  assert.deepEqual(await seenFrom(plain), [...own, ...own, ...own]);
}
