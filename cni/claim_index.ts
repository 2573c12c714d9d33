import type { Family } from "../kernel/ip/address.ts";
import type { KeyField } from "../kernel/nftables/expression.ts";
import type { Claim } from "./host_port_claim.ts";

/** Stands for all addresses of the node. */
const ALL = undefined;

/**
 * Who holds which ports, so that what overlaps with a claim is found by its family, protocol and port, and not by
 * comparing it with everything.
 */
export class ClaimIndex<H extends object | number> {
  readonly #ports = new Map<string, Map<KeyField | undefined, H>>();

  /**
   * Of several with the same, the first is kept.
   *
   * @param port protocol and number
   * @param address undefined for all of the family
   */
  add(family: Family, port: readonly KeyField[], address: KeyField | undefined, holder: H): void {
    const key = keyOf(family, port);
    const holders = this.#ports.get(key) ?? new Map<KeyField | undefined, H>();
    if (!holders.has(address)) holders.set(address, holder);
    this.#ports.set(key, holders);
  }

  /** As {@link add}, of a claim. */
  addClaim({ family, address, mapping: { protocol, hostPort } }: Claim, holder: H): void {
    this.add(family, [protocol, hostPort], address, holder);
  }

  /**
   * Whose claim cannot hold beside this one: of the same port, where either is of all addresses or both of one. Of several it is
   * who has all addresses, else who came first.
   */
  find({ family, address, mapping: { protocol, hostPort } }: Claim): H | undefined {
    const holders = this.#ports.get(keyOf(family, [protocol, hostPort]));
    if (holders === undefined) return undefined;
    const [first] = holders.values();
    return holders.get(ALL) ?? (address === ALL ? first : holders.get(address));
  }
}

/** keyText of nftables would bring the part that writes nftables into every call. */
function keyOf(family: Family, port: readonly KeyField[]): string {
  return [family, ...port].map(String).join(" ");
}
