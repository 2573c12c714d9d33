import type { LabelSelector, Node, PodPeer } from "../../model.ts";
import type { Identity } from "./identity.ts";
import { selects } from "./selector.ts";

/** The selected identities: 1 at the number of each. */
export type Members = Uint8Array;

/** Returns the numbers of the selected identities, in ascending order. Most selectors select few of thousands. */
export function numbersIn(members: Members): readonly number[] {
  const numbers: number[] = [];
  for (let number = members.indexOf(1); number >= 0; number = members.indexOf(1, number + 1)) numbers.push(number);
  return numbers;
}

interface NamespaceGroup {
  readonly name: string;
  readonly identities: readonly Identity[];
}

/** Looks up the pods and nodes that selectors select; equal selectors are looked up once. */
export class PeerSelection {
  readonly #size: number;
  readonly #groups: readonly NamespaceGroup[];
  readonly #nodes: ReadonlyMap<string, Node>;
  readonly #known = new Map<string, Members>();

  constructor(identities: readonly Identity[], nodes: ReadonlyMap<string, Node>) {
    this.#size = identities.length;
    this.#groups = [...Map.groupBy(identities, ({ namespace }) => namespace)].map(([name, group]) => ({
      name,
      identities: group,
    }));
    this.#nodes = nodes;
  }

  /**
   * Returns the pods of a peer or a subject.
   *
   * @param ownNamespace the policy's namespace, in which a peer without a namespaceSelector selects
   */
  pods({ podSelector, namespaceSelector }: Omit<PodPeer, "type" | "index">, ownNamespace: string): Members {
    const scope = namespaceSelector === undefined ? ownNamespace : canonical(namespaceSelector);
    const key = `${scope} ${podSelector === undefined ? "" : canonical(podSelector)}`;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const members = new Uint8Array(this.#size);
    for (const { name, identities } of this.#groups) {
      const [first] = identities;
      const isInScope =
        namespaceSelector === undefined
          ? name === ownNamespace
          : first !== undefined && selects(namespaceSelector, first.namespaceLabels);
      if (!isInScope) continue;
      for (const { number, labels } of identities) {
        if (podSelector === undefined || selects(podSelector, labels)) members[number] = 1;
      }
    }
    this.#known.set(key, members);
    return members;
  }

  /** Returns the names of the nodes that a selector selects. */
  nodes(selector: LabelSelector): ReadonlySet<string> {
    return new Set([...this.#nodes.values()].flatMap(({ name, labels }) => (selects(selector, labels) ? [name] : [])));
  }
}

function canonical({ matchLabels, matchExpressions }: LabelSelector): string {
  return JSON.stringify([matchLabels, matchExpressions]);
}
