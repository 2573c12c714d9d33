import type { Cidr } from "../../kernel/ip/cidr.ts";
import { JoinedNetworks, rangeText } from "../cluster/joined_networks.ts";
import type { NodeJudge, VerdictReader } from "../cluster/node_judge.ts";
import { openNodeJudge } from "../cluster/node_judge.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { Dataplane } from "../dataplane.ts";
import type { Ruleset } from "../dataplane/ruleset.ts";
import type { ObjectChange } from "../source/object_source.ts";
import { ownRangeElement } from "./compile/table_elements.ts";

const OWNER = "own pod networks";

export interface OwnNetworksParts {
  /** Which has the table of policies. Whoever owns it starts and stops it. */
  readonly ruleset: Pick<Ruleset, "claim">;
  readonly nodeName: string;
  /** This node's pod CIDRs by the configuration. */
  readonly podCidrs: readonly Cidr[];
  /** Who judges the Nodes. */
  readonly judge: NodeJudge;
}

/** Tells the rules of policies where this node's pods are, as its Node object says, so that none is reached before it is known (POL-09). */
export class OwnNetworks implements Dataplane {
  readonly #parts: OwnNetworksParts;
  readonly #readVerdict: VerdictReader;
  readonly #networks = new JoinedNetworks();

  constructor(parts: OwnNetworksParts) {
    this.#parts = parts;
    this.#readVerdict = parts.judge.reader();
    this.#networks.set("configuration", parts.podCidrs);
    this.#claim();
  }

  apply(changes: readonly ObjectChange[]): void {
    const { judge, nodeName } = this.#parts;
    judge.apply(changes);
    if (!this.#readVerdict().has(nodeName)) return;
    this.#networks.set("node", judge.judged.nodes.get(nodeName)?.podCidrs ?? []);
    this.#claim();
  }

  synced(): void {
    this.#parts.judge.synced();
  }

  async register(): Promise<void> {}

  async unregister(): Promise<void> {}

  problems(): readonly string[] {
    return [];
  }

  async stop(): Promise<void> {}

  #claim(): void {
    const { ruleset } = this.#parts;
    const { removed, added } = this.#networks.difference();
    for (const range of removed) ruleset.claim(`${OWNER} ${rangeText(range)}`, [], "urgent");
    for (const range of added) ruleset.claim(`${OWNER} ${rangeText(range)}`, [ownRangeElement(range)], "urgent");
  }
}

/** Who tells them, as the configuration says. */
export function ownNetworks(
  configuration: Configuration,
  ruleset: Pick<Ruleset, "claim">,
  judge: NodeJudge = openNodeJudge(configuration),
): OwnNetworks {
  const { nodeName, podCIDRs } = configuration;
  return new OwnNetworks({ ruleset, nodeName, podCidrs: podCIDRs, judge });
}
