import type { Change } from "../../kernel/nftables/change.ts";
import type { Nftables } from "../../kernel/nftables/socket.ts";

/** Who is told of each batch. It must not throw. */
export interface CommitObserver {
  /** The kernel is about to be given these changes. */
  before(changes: readonly Change[]): void;
  /** It has taken them. */
  committed(changes: readonly Change[], seconds: number): void;
}

/** The same tables, with an observer of what is written. */
export function observed(kernel: Nftables, observer: CommitObserver): Nftables {
  return Object.freeze({
    commit: (changes: readonly Change[]) => {
      observer.before(changes);
      const start = performance.now();
      kernel.commit(changes);
      observer.committed(changes, (performance.now() - start) / 1000);
    },
    table: kernel.table.bind(kernel),
    elements: kernel.elements.bind(kernel),
    generation: kernel.generation.bind(kernel),
    close: kernel.close.bind(kernel),
  });
}
