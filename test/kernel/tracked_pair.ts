import { type Address, parseAddress } from "../../kernel/ip/address.ts";
import { parseMac } from "../../kernel/ip/mac.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { Prober } from "../lab/probe/prober.ts";
import type { ProtocolName } from "../lab/probe/protocol.ts";
import { connect } from "../lab/topology.ts";

/** Two namespaces joined by a cable, of which the near one tracks connections. */
export interface TrackedPair {
  readonly near: LabNamespace;
  readonly far: LabNamespace;
  readonly nearAddresses: readonly [Address, Address];
  readonly farAddresses: readonly [Address, Address];
}

/** @param ruleset what nft loads in the near namespace; a rule with `ct` makes the kernel track connections there */
export function trackedPair(lab: Lab, ruleset: string): TrackedPair {
  const [near, far] = [lab.namespace("near"), lab.namespace("far")];
  const nearAddresses = [parseAddress("10.99.0.1"), parseAddress("fd00:99::1")] as const;
  const farAddresses = [parseAddress("10.99.0.2"), parseAddress("fd00:99::2")] as const;
  const end = (namespace: LabNamespace, mac: string, [v4, v6]: readonly [Address, Address]) => ({
    namespace,
    link: "cable",
    mac: parseMac(mac),
    addresses: [
      { address: v4, prefixLength: 24 },
      { address: v6, prefixLength: 64 },
    ],
  });
  connect(end(near, "02:00:00:00:99:01", nearAddresses), end(far, "02:00:00:00:99:02", farAddresses));
  near.exec("nft", ["-f", "-"], ruleset);
  return { near, far, nearAddresses, farAddresses };
}

/** Makes flows from the near to the far end and back, one after the other, and requires an answer to each. */
export async function makeFlows(
  { near, far }: TrackedPair,
  flows: readonly { readonly protocol: ProtocolName; readonly to: Address; readonly port: number }[],
): Promise<void> {
  using prober = new Prober(near);
  for (const { protocol, to, port } of flows) prober.listen(protocol, { namespace: far, address: to, port });
  for (const { protocol, to, port } of flows) {
    const [result] = await prober.run([{ protocol, from: near, to: { address: to, port } }], {
      timeoutMilliseconds: 5000,
    });
    if (result?.reached !== true) throw new Error(`${protocol} to port ${port}: ${result?.why}`);
  }
}
