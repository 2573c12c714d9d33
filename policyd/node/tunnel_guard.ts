import type { NodeJudge } from "../../objects/nodes/node_judge.ts";
import { type Address, formatAddress } from "../../kernel/ip/address.ts";
import type { Node, ObjectChange } from "../../objects/model.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { ObjectConsumer } from "../component.ts";
import type { Ruleset } from "../ruleset/ruleset.ts";
import { isReserved } from "../../objects/nodes/node_claims.ts";
import { hasTunnel, type TunnelEnd, tunnelEndElements } from "./tables/tunnel_guard.ts";

/** Claims the ends of the tunnel as Node objects change (GUARD-09, GUARD-17). The ruleset's owner starts and stops it. */
export class TunnelGuard implements ObjectConsumer {
  readonly #ruleset: Pick<Ruleset, "claim">;
  /** The claim of each Node, as text: Nodes change every few seconds in other fields. */
  readonly #claimed = new Map<string, string>();

  readonly #hasTunnel: boolean;
  readonly #judge: Pick<NodeJudge, "keptOf">;

  /**
   * @param ruleset whose tables have the part `tunnelNodes()`
   * @param isTunnel whether they have the part `tunnelGuard()`, too
   * @param judge knows the addresses that stay in use
   */
  constructor(ruleset: Pick<Ruleset, "claim">, isTunnel: boolean, judge: Pick<NodeJudge, "keptOf">) {
    this.#judge = judge;
    this.#ruleset = ruleset;
    this.#hasTunnel = isTunnel;
  }

  /** Claims as urgent: until then packets of a new node are dropped. */
  apply(changes: readonly ObjectChange[]): void {
    for (const change of changes) {
      if (change.kind !== "Node") continue;
      const isThere = change.type === "set" && change.object.kind === "Node";
      const end = isThere ? tunnelEnd(change.object, this.#judge.keptOf(change.key)) : { internal: [], external: [] };
      const text = textOf(end);
      if ((this.#claimed.get(change.key) ?? textOf({ internal: [], external: [] })) === text) continue;
      if (isThere) this.#claimed.set(change.key, text);
      else this.#claimed.delete(change.key);
      this.#ruleset.claim(`tunnel end ${change.key}`, tunnelEndElements(end, this.#hasTunnel), "urgent");
    }
  }
}

/** Returns the component that fills the sets of `tunnelNodes()`, and those of `tunnelGuard()` where there is a tunnel. */
export function openTunnelGuard(
  configuration: Pick<Configuration, "encapsulation">,
  ruleset: Pick<Ruleset, "claim">,
  judge: NodeJudge,
): TunnelGuard {
  return new TunnelGuard(ruleset, hasTunnel(configuration), judge);
}

function tunnelEnd({ addresses }: Node, kept: readonly Address[]): TunnelEnd {
  const of = (kind: Node["addresses"][number]["type"]): readonly Address[] =>
    addresses.flatMap(({ type, address }) => (type === kind && !isReserved(address) ? [address] : []));
  return { internal: [...of("InternalIP"), ...kept], external: of("ExternalIP") };
}

function textOf({ internal, external }: TunnelEnd): string {
  return [internal, external].map((addresses) => addresses.map(formatAddress).join()).join("|");
}
