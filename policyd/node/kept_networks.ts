import type { Cidr } from "../../kernel/ip/cidr.ts";
import { cidrFamily, hostCidr, parseCidr } from "../../kernel/ip/cidr.ts";
import type { RangeDifference } from "../cluster/joined_networks.ts";
import { JoinedNetworks } from "../cluster/joined_networks.ts";
import type { JudgedNode } from "../cluster/node_verdict.ts";

const EVERYTHING = { 4: parseCidr("0.0.0.0/0"), 6: parseCidr("::/0") } as const;
/** Link-local addresses and multicast: what has them is no farther than the link, or many. */
const NEVER_HIDDEN = ["169.254.0.0/16", "224.0.0.0/4", "fe80::/10", "ff00::/8"].map((text) => parseCidr(text));

/**
 * Where pods keep their own address: in the cluster, at link-local addresses and at multicast's; everywhere in a family of
 * which no pod network is known, as then nobody can tell what is outside (POD-19).
 */
export class KeptNetworks {
  readonly #joined = new JoinedNetworks();
  readonly #podCidrs = new Map<string, readonly Cidr[]>();
  /** How many networks of pods are known. */
  readonly #known = { 4: 0, 6: 0 };

  /** @param further what else knows the way to pods, by the configuration */
  constructor(further: readonly Cidr[]) {
    this.#count(further, 1);
    this.#joined.set("configuration", [...further, ...NEVER_HIDDEN]);
  }

  /** Sets what is believed of a node; undefined for one that is gone. */
  setNode(name: string, node: JudgedNode | undefined): void {
    const { podCidrs, addresses } = node ?? { podCidrs: [], addresses: [] };
    this.#count(this.#podCidrs.get(name) ?? [], -1);
    this.#count(podCidrs, 1);
    if (podCidrs.length === 0) this.#podCidrs.delete(name);
    else this.#podCidrs.set(name, podCidrs);
    this.#joined.set(`node ${name}`, [...podCidrs, ...addresses.map((address) => hostCidr(address))]);
  }

  /** What has become of the ranges since the call before. */
  difference(): RangeDifference {
    for (const family of [4, 6] as const) {
      this.#joined.set(`everything ${family}`, this.#known[family] > 0 ? [] : [EVERYTHING[family]]);
    }
    return this.#joined.difference();
  }

  #count(cidrs: readonly Cidr[], change: 1 | -1): void {
    for (const cidr of cidrs) this.#known[cidrFamily(cidr)] += change;
  }
}
