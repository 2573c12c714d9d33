import type { Change } from "../../kernel/nftables/encode/change.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";

type Calls = ConstructorParameters<typeof NftablesSocket>[0];

/** A socket of nftables that counts what its commits cost. */
export class ObservedSocket extends NftablesSocket {
  readonly #spent: { milliseconds: number };
  changedElements = 0;
  commits = 0;
  /** When the kernel acknowledged the last commit, by performance.now(). */
  lastCommit = 0;

  constructor(calls: Calls) {
    const spent = { milliseconds: 0 };
    super(timed(calls, spent));
    this.#spent = spent;
  }

  /**
   * The milliseconds within the kernel: sending the batches, each carried out before the call returns, and reading the
   * answers.
   */
  get inKernel(): number {
    return this.#spent.milliseconds;
  }

  /** Forgets all counts. */
  reset(): void {
    this.#spent.milliseconds = 0;
    this.changedElements = 0;
    this.commits = 0;
  }

  override commit(changes: readonly Change[]): void {
    for (const change of changes) if ("elements" in change) this.changedElements += change.elements.length;
    super.commit(changes);
    this.commits++;
    this.lastCommit = performance.now();
  }
}

function timed(calls: Calls, spent: { milliseconds: number }): Calls {
  const measure = (call: () => number): number => {
    const start = performance.now();
    const result = call();
    spent.milliseconds += performance.now() - start;
    return result;
  };
  return {
    ...calls,
    send: (fd, data, flags) => measure(() => calls.send(fd, data, flags)),
    receiveFrom: (fd, buffer, flags, sender) => measure(() => calls.receiveFrom(fd, buffer, flags, sender)),
  };
}
