import type { EndGroup } from "./end_class.ts";

const WHOLE_KINDS: Readonly<Record<EndGroup["kind"], string>> = {
  pods: "all pods",
  "new pods": "any new pod",
  nodes: "all nodes",
  outside: "outside",
  "domain names": "all domain names",
};

/** Names some of the existing groups, where it can by one name for all groups of a kind or of a larger unit. */
export class GroupNames {
  /** The number of groups of each kind, and of each larger unit within a kind. */
  readonly #kinds = new Map<string, number>();
  readonly #wholes = new Map<string, number>();

  /** @param all all existing groups */
  constructor(all: readonly EndGroup[]) {
    for (const group of all) {
      this.#kinds.set(group.kind, (this.#kinds.get(group.kind) ?? 0) + 1);
      this.#wholes.set(wholeKey(group), (this.#wholes.get(wholeKey(group)) ?? 0) + 1);
    }
  }

  /**
   * Returns the names of some groups: `shop/*` for a complete namespace with several groups; `all pods`, `all nodes`
   * and `outside` for all of those; `outside IPv4` for a complete family.
   */
  of(some: ReadonlySet<EndGroup>): readonly string[] {
    const names = [...Map.groupBy(some, ({ kind }) => kind)].flatMap(([kind, chosen]) => {
      if (chosen.length === this.#kinds.get(kind) && chosen.length > 1) return [WHOLE_KINDS[kind]];
      return [...Map.groupBy(chosen, wholeKey)].flatMap(([key, here]) => this.#ofWhole(key, here));
    });
    return names.sort();
  }

  #ofWhole(key: string, here: readonly EndGroup[]): readonly string[] {
    const [first] = here;
    const isWhole = here.length === this.#wholes.get(key) && (here.length > 1 || first?.kind === "outside");
    if (first === undefined || !isWhole) return here.map(({ name }) => name);
    if (first.kind === "new pods") return [`any new pod in ${first.whole}`];
    return [first.kind === "pods" ? `${first.whole}/*` : first.whole];
  }
}

/** The kind is part of the key because a namespace may be called "node". */
function wholeKey({ kind, whole }: EndGroup): string {
  return `${kind} ${whole}`;
}
