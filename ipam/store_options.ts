import type { Release } from "../kernel/file_lock.ts";
import type { Address } from "../kernel/ip/address.ts";
import type { StoreFileSystem } from "./file_system.ts";
import type { Owner } from "./owner.ts";

/**
 * An exclusive flock(2) between processes, the kind that host-local takes (not fcntl, not OFD).
 *
 * `acquire` creates the file if necessary (O_CREAT|O_RDONLY, mode 0750) and throws DrawbridgeError ERR_LOCK_TIMEOUT
 * instead of waiting without bound.
 */
export interface FileLock {
  acquire(path: string): Release;
}

/**
 * The way to prove that the owner holds no address yet.
 *
 * `"scan"` reads every reservation, as host-local does. `"caller"` costs nothing: the plugin knows it from its
 * attachment record and from the interface itself.
 */
export type DuplicateCheck = "scan" | "caller";

/** Steps that deal with the owner's addresses before they are released; if a step throws, they stay reserved. */
export interface ReleaseSteps {
  /** A slow step before the lock is taken, if the owner has addresses: reservations still protect them. */
  readonly early?: (held: readonly Address[]) => void;
  /** A step with the lock held, right before the addresses are free. */
  readonly last?: (held: readonly Address[]) => void;
}

export interface AddressStoreOptions {
  /** host-local's `dataDir`. */
  readonly directory: string;
  /** The network's name: the directory below `directory`. */
  readonly network: string;
  readonly fileSystem: StoreFileSystem;
  readonly lock: FileLock;
  /**
   * Returns the addresses that pods of the network hold by their attachment records. It is called if the store has lost
   * its files; without it the store restores nothing.
   */
  readonly recorded?: () => Iterable<Holding>;
}

/** The addresses that an attachment holds. */
export interface Holding {
  readonly owner: Owner;
  readonly addresses: readonly Address[];
}
