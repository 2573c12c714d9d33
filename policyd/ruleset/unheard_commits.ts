import type { Change } from "../../kernel/nftables/encode/change.ts";
import type { Nftables } from "../../kernel/nftables/socket.ts";
import type { RulesetWatch } from "./ruleset_watch.ts";

/** The number of elements above which a batch is not listened to. Fewer take less than 10 MB. */
const MOST_HEARD = 1000;

/**
 * Keeps the watch over the ruleset from being notified of our own large batches. While anybody listens, the kernel
 * reserves some 6 KB for each element of a batch until all of it is committed, though our own socket ignores them.
 *
 * The generation of the ruleset shows whether another program has committed meanwhile: then all tables are checked.
 */
export class UnheardCommits {
  readonly #kernel: Pick<Nftables, "generation">;
  /** Undefined until the watch is there. */
  watch: Pick<RulesetWatch, "deafFor" | "lookAtAll"> | undefined;

  constructor(kernel: Pick<Nftables, "generation">) {
    this.#kernel = kernel;
  }

  /** Carries out a commit of changes. @throws what it throws */
  around(changes: readonly Change[], commit: () => void): void {
    const { watch } = this;
    if (watch === undefined || elementsIn(changes) <= MOST_HEARD) return commit();
    const before = this.#kernel.generation();
    watch.deafFor(commit);
    if (this.#kernel.generation() !== before + 1) watch.lookAtAll();
  }
}

function elementsIn(changes: readonly Change[]): number {
  return changes.reduce((sum, change) => ("elements" in change ? sum + change.elements.length : sum), 0);
}
