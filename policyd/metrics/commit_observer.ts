import type { Change } from "../../kernel/nftables/encode/change.ts";
import type { Nftables } from "../../kernel/nftables/socket.ts";

/** Observes each batch. Its methods must not throw. */
export interface CommitObserver {
  /** Called before the kernel gets these changes. */
  before?(changes: readonly Change[]): void;
  /** Called after the kernel has taken them. */
  committed(changes: readonly Change[], seconds: number): void;
}

/** Returns the same tables, with observers of each batch. */
export function observed(kernel: Nftables, ...observers: readonly CommitObserver[]): Nftables {
  return Object.freeze({
    commit: (changes: readonly Change[]) => {
      for (const observer of observers) observer.before?.(changes);
      const start = performance.now();
      kernel.commit(changes);
      const seconds = (performance.now() - start) / 1000;
      for (const observer of observers) observer.committed(changes, seconds);
    },
    head: kernel.head.bind(kernel),
    chains: kernel.chains.bind(kernel),
    sets: kernel.sets.bind(kernel),
    rulesOf: kernel.rulesOf.bind(kernel),
    elements: kernel.elements.bind(kernel),
    elementsInPieces: kernel.elementsInPieces.bind(kernel),
    generation: kernel.generation.bind(kernel),
    close: kernel.close.bind(kernel),
  });
}
