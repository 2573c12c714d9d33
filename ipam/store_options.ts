import type { Release } from "../kernel/file_lock.ts";
import type { Address } from "../kernel/ip/address.ts";
import type { StoreFileSystem } from "./file_system.ts";
import type { Owner } from "./owner.ts";

/**
 * An exclusive flock(2) between processes, the kind host-local takes (not fcntl, not OFD).
 *
 * `acquire` creates the file if need be (O_CREAT|O_RDONLY, mode 0750) and throws DrawbridgeError ERR_LOCK_TIMEOUT
 * rather than wait without bound.
 */
export interface FileLock {
  acquire(path: string): Release;
}

/**
 * Who proves that the owner holds no address yet.
 *
 * `"scan"` reads every reservation, as host-local does. `"caller"` costs nothing: the plugin knows by its attachment
 * record and by the interface itself.
 */
export type DuplicateCheck = "scan" | "caller";

/** What is done about the owner's addresses before they are released; when a step throws, they stay reserved. */
export interface ReleaseSteps {
  /**
   * What may take long, before the lock is taken, and only where there are any: the reservations themselves keep others
   * off the addresses.
   */
  readonly early?: (held: readonly Address[]) => void;
  /** With the lock, right before the addresses are free. */
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
   * Tells what pods of the network hold by their attachment records. It is asked for where the store has lost its files: without it a store
   * has none to look for.
   */
  readonly recorded?: () => Iterable<Holding>;
}

/** The addresses that an attachment holds. */
export interface Holding {
  readonly owner: Owner;
  readonly addresses: readonly Address[];
}
