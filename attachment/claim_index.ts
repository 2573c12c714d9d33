import type { Family } from "../kernel/ip/address.ts";
import type { KeyField } from "../kernel/nftables/model/expression.ts";
import type { HostPortClaim } from "./host_port_claim.ts";

/** The key for all addresses of the node. */
const ALL = undefined;

/** Records the holders of ports, so that a claim's overlaps are found by family, protocol and port. */
export class ClaimIndex<H extends object> {
  readonly #ports = new Map<string, Map<KeyField | undefined, H>>();

  /**
   * Adds a holder. If several have the same port and address, the first stays.
   *
   * @param port protocol and number
   * @param address undefined for all addresses of the family
   */
  add(family: Family, port: readonly KeyField[], address: KeyField | undefined, holder: H): void {
    const key = keyOf(family, port);
    const holders = this.#ports.get(key) ?? new Map<KeyField | undefined, H>();
    if (!holders.has(address)) holders.set(address, holder);
    this.#ports.set(key, holders);
  }

  /** As {@link add}, for a claim. */
  addClaim({ family, address, mapping: { protocol, hostPort } }: HostPortClaim, holder: H): void {
    this.add(family, [protocol, hostPort], address, holder);
  }

  /** Removes a claim from a holder that has it. */
  removeClaim({ family, address, mapping: { protocol, hostPort } }: HostPortClaim, holder: H): void {
    const key = keyOf(family, [protocol, hostPort]);
    const holders = this.#ports.get(key);
    if (holders?.get(address) === holder) holders.delete(address);
    if (holders?.size === 0) this.#ports.delete(key);
  }

  /**
   * Returns the holder that conflicts with a claim: one of the same port, where either has all addresses or both have
   * the same one. Of several, returns the holder of all addresses, otherwise the first.
   */
  find({ family, address, mapping: { protocol, hostPort } }: HostPortClaim): H | undefined {
    const holders = this.#ports.get(keyOf(family, [protocol, hostPort]));
    if (holders === undefined) return undefined;
    const [first] = holders.values();
    return holders.get(ALL) ?? (address === ALL ? first : holders.get(address));
  }
}

/** Not keyText of nftables: that would load the nftables writer in every call. */
function keyOf(family: Family, port: readonly KeyField[]): string {
  return [family, ...port].map(String).join(" ");
}
