import { FAMILIES } from "../../../kernel/ip/address.ts";
import { type Cidr, cidrFamily, hostCidr } from "../../../kernel/ip/cidr.ts";
import { bothFamilies, EVERY_ADDRESS, LINK_LOCAL, MULTICAST } from "../../../kernel/ip/special.ts";
import { JoinedNetworks, type RangeDifference } from "../../../objects/nodes/joined_networks.ts";
import type { JudgedNode } from "../../../objects/nodes/node_verdict.ts";

/** Link-local addresses, which are on the link itself, and multicast. */
const NEVER_HIDDEN = bothFamilies(LINK_LOCAL, MULTICAST);

/**
 * The networks where pods keep their own address: the cluster, link-local addresses and multicast. In a family without
 * a known pod network pods keep it everywhere, since nothing then says what is outside the cluster (POD-19).
 */
export class UnmasqueradedNetworks {
  readonly #joined = new JoinedNetworks();
  readonly #podCidrs = new Map<string, readonly Cidr[]>();
  /** Number of known pod networks, by family. */
  readonly #known = { 4: 0, 6: 0 };

  /** @param further configured networks that know a route to pods */
  constructor(further: readonly Cidr[]) {
    this.#count(further, 1);
    this.#joined.set("configuration", [...further, ...NEVER_HIDDEN]);
  }

  /** Sets the accepted networks and addresses of a node; undefined removes it. */
  setNode(name: string, node: JudgedNode | undefined): void {
    const { podCidrs, addresses } = node ?? { podCidrs: [], addresses: [] };
    this.#count(this.#podCidrs.get(name) ?? [], -1);
    this.#count(podCidrs, 1);
    if (podCidrs.length === 0) this.#podCidrs.delete(name);
    else this.#podCidrs.set(name, podCidrs);
    this.#joined.set(`node ${name}`, [...podCidrs, ...addresses.map((address) => hostCidr(address))]);
  }

  /** Returns the ranges added and removed since the previous call. */
  difference(): RangeDifference {
    for (const family of FAMILIES) {
      this.#joined.set(`everything ${family}`, this.#known[family] > 0 ? [] : [EVERY_ADDRESS[family]]);
    }
    return this.#joined.difference();
  }

  #count(cidrs: readonly Cidr[], change: 1 | -1): void {
    for (const cidr of cidrs) this.#known[cidrFamily(cidr)] += change;
  }
}
