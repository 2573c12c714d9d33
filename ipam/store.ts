import { DrawbridgeError } from "../kernel/error.ts";
import { type Address, compareAddresses, formatAddress, tryParseAddress } from "../kernel/ip/address.ts";
import { type Allocation, allocationOf, assignRequested, candidates } from "./allocator.ts";
import { expectStoreError, type StoreFileSystem } from "./file_system.ts";
import { expectNetworkName, expectOwner, type Owner } from "./owner.ts";
import { formatRangeSet, rangeFor, type RangeSet } from "./range.ts";
import { contentOf, parseReservation, type Reservation } from "./reservation.ts";
import type { AddressStoreOptions, DuplicateCheck, FileLock, Holding, ReleaseSteps } from "./store_options.ts";

export type { Allocation } from "./allocator.ts";
export type { Owner } from "./owner.ts";
export type { FileLock, Holding, ReleaseSteps } from "./store_options.ts";

/** The requested address of each set, and the addresses to skip. */
interface Wishes {
  readonly plan: readonly (Address | undefined)[];
  readonly isForeign: (address: Address) => boolean;
}

/** Larger than any content of ours or host-local's; a larger file is foreign and not read. */
const MAX_CONTENT_BYTES = 1024;

/** After this number of taken addresses in a row, one listing is cheaper than further single tries. */
const MAX_PROBES = 8;

/**
 * More addresses in a row than a bridge has ports. Others that have that many have a whole network: trying a /64 would
 * never end, and all pods would wait.
 */
const MAX_FOREIGN = 1024;

/**
 * The address reservations of one network on disk, in the format of host-local v1.9.1 byte for byte.
 *
 *     <directory>/<network>/10.244.1.7           0600  <container id>\r\n<ifname>
 *     <directory>/<network>/last_reserved_ip.0   0600  the address last taken from range set 0
 *     <directory>/<network>/lock                 0750  flock(2)
 *     <directory>/.drawbridge/<network>.claim    0600  a claim before it has its address
 *     <directory>/.drawbridge/<network>.kept     0600  the same for a restore without the lock
 *
 * A claim is written completely under another name and then gets the address's name by link(2), which fails if the name
 * is taken. So a reservation is never empty or torn, even after SIGKILL at any point, and two processes never get the
 * same address even without the lock. The claim is beside the network's directory, since host-local reads every file in
 * there; network names begin with a letter or digit, so none is `.drawbridge`.
 *
 * The claim's name is fixed and only used under the lock. So the next process removes a claim of a killed one at the
 * cost of one failed open, without any scan. It is removed, not overwritten: it may share its inode with a reservation.
 *
 * `last_reserved_ip` is removed and written again. A process that is killed in between only loses the place in the
 * round. Replacing the file by rename or truncation would make ext4 flush it, which costs as much as everything else.
 *
 * Nothing is synced: a power loss may leave empty files, which GC removes.
 */
export class AddressStore {
  readonly #directory: string;
  readonly #scratch: string;
  readonly #network: string;
  readonly #files: StoreFileSystem;
  readonly #lock: FileLock;
  readonly #recorded: () => Iterable<Holding>;

  /** @throws DrawbridgeError ERR_CONFIGURATION when the network's name is not safe as a directory name */
  constructor(options: AddressStoreOptions) {
    expectNetworkName(options.network);
    this.#network = options.network;
    this.#directory = `${options.directory}/${options.network}`;
    this.#scratch = `${options.directory}/.drawbridge`;
    this.#files = options.fileSystem;
    this.#lock = options.lock;
    this.#recorded = options.recorded ?? (() => []);
  }

  /**
   * Reserves one address from each range set, or none at all.
   *
   * The cost does not grow with the number of reservations, unless `duplicates` is `"scan"` or several addresses in a
   * row are taken.
   *
   * @param requested addresses to take instead of the next free one; each must be served by a different set
   * @param isForeign whether anything outside this network has an address, which is then skipped
   * @returns one allocation per set, in order
   * @throws DrawbridgeError ERR_RANGE_EXHAUSTED, ERR_ADDRESS_UNAVAILABLE, ERR_DUPLICATE in host-local's words;
   *   ERR_STORE when a file operation failed; ERR_LOCK_TIMEOUT
   */
  allocate(
    sets: readonly RangeSet[],
    owner: Owner,
    requested: readonly Address[],
    duplicates: DuplicateCheck = "scan",
    isForeign: (address: Address) => boolean = () => false,
  ): readonly Allocation[] {
    const plan = assignRequested(sets, requested);
    this.#prepare(owner);
    return this.#lockedWhole(() => {
      if (duplicates === "scan") this.#refuseDuplicates(sets, plan, owner);
      return this.#claimed(owner, "claim", (claim, claimed) =>
        sets.map((set, index) => {
          const address = this.#claimFrom(set, index, { plan, isForeign }, claim);
          claimed.push(address);
          this.#writeLastReserved(index, address);
          return allocationOf(set, index, address);
        }),
      );
    });
  }

  /**
   * Reserves exactly these addresses, which another IPAM plugin has assigned, or none of them.
   *
   * @throws DrawbridgeError ERR_ADDRESS_UNAVAILABLE if one of them is held; ERR_STORE; ERR_LOCK_TIMEOUT
   */
  reserve(addresses: readonly Address[], owner: Owner): void {
    this.#prepare(owner);
    this.#lockedWhole(() =>
      this.#claimed(owner, "claim", (claim, claimed) => {
        for (const address of addresses) {
          if (!this.#files.link(claim, this.#path(address))) throw this.#heldByOther(address);
          claimed.push(address);
        }
        const [first] = addresses;
        if (first !== undefined) this.#writeLastReserved(0, first);
      }),
    );
  }

  /**
   * Writes the missing reservations of an attachment as its ADD wrote them; it needs no lock, as link(2) replaces
   * nothing.
   *
   * @param scratch the claim's first name: "claim" with the lock, "kept" for the only process that restores without it
   * @returns the number of missing ones
   * @throws DrawbridgeError ERR_STORE
   */
  restore({ owner, addresses }: Holding, scratch: "claim" | "kept"): number {
    this.#prepare(owner);
    return this.#claimed(
      owner,
      scratch,
      (claim) => addresses.filter((address) => this.#files.link(claim, this.#path(address))).length,
    );
  }

  #prepare(owner: Owner): void {
    expectOwner(owner);
    this.#files.makeDirectory(this.#directory, 0o755);
    this.#files.makeDirectory(this.#scratch, 0o700);
  }

  #heldByOther(address: Address): DrawbridgeError {
    const [holder = "another pod"] = this.#content(address)?.split("\r\n") ?? [];
    return new DrawbridgeError(
      "ERR_ADDRESS_UNAVAILABLE",
      `${formatAddress(address)} is held by ${JSON.stringify(holder)} (${this.#path(address)}); expected an address that no other pod of this network has`,
    );
  }

  /**
   * Releases every address of the owner by reading all reservations, as host-local does.
   *
   * White space around the content does not count. If none names the interface, reservations of old host-local
   * versions, which only hold the container id, are released instead.
   *
   * @returns the released addresses; none if the network has no directory
   * @throws DrawbridgeError ERR_STORE, after releasing as many as possible; any error of a step
   */
  release(owner: Owner, steps: ReleaseSteps = {}): readonly Address[] {
    return this.#release(owner, steps, () => {
      const { exact, legacy, failure } = this.#scan(owner);
      return { held: exact.length > 0 ? exact : legacy, failure };
    });
  }

  /**
   * Releases those addresses whose reservation names exactly this owner; reads nothing else.
   *
   * @returns the released addresses
   * @throws as {@link release}
   */
  releaseAddresses(owner: Owner, addresses: readonly Address[], steps: ReleaseSteps = {}): readonly Address[] {
    return this.#release(owner, steps, () => {
      const held: Address[] = [];
      for (const address of addresses) if (this.#content(address) === contentOf(owner)) held.push(address);
      return { held, failure: undefined };
    });
  }

  /**
   * Releases an address whose reservation is empty: that of a power loss. No pod has it, since a reservation is whole
   * when its process unlocks the store.
   *
   * @throws DrawbridgeError ERR_STORE; ERR_LOCK_TIMEOUT
   */
  releaseEmpty(address: Address): void {
    this.#locked(() => {
      // Some file systems leave the length of the lost content, all zeros.
      if (/^\0*$/.test(this.#content(address) ?? "foreign")) this.#files.unlink(this.#path(address));
    });
  }

  #release(
    owner: Owner,
    { early, last }: ReleaseSteps,
    find: () => { readonly held: readonly Address[]; readonly failure: DrawbridgeError | undefined },
  ): readonly Address[] {
    expectOwner(owner);
    if (!this.#files.directoryExists(this.#directory)) return [];
    if (early !== undefined) {
      const { held, failure } = find();
      if (held.length === 0) return this.#unlinkAll(held, failure);
      early(held);
    }
    return this.#locked(() => {
      // Addresses that were the owner's without the lock may have another owner by now.
      const { held, failure } = find();
      last?.(held);
      return this.#unlinkAll(held, failure);
    });
  }

  /** Returns those addresses whose reservation does not name exactly this owner; reads only their files. */
  notHeld(owner: Owner, addresses: readonly Address[]): readonly Address[] {
    return addresses.filter((address) => this.#content(address) !== contentOf(owner));
  }

  /** Returns reservations ordered by address, without the lock: all, or those whose path is wanted; reads no others. */
  reservations(isWanted: (path: string) => boolean = () => true): readonly Reservation[] {
    // The predicate comes before all slow work: there may be tens of thousands of names.
    const names = this.#files.readDirectory(this.#directory).filter((name) => isWanted(`${this.#directory}/${name}`));
    const addresses = names.map(tryParseAddress).filter((address) => address !== undefined);
    return addresses.sort(compareAddresses).map((address) => parseReservation(address, this.#content(address)));
  }

  /** Lets an action link a claim to addresses; if it fails, those that it calls claimed are free again. */
  #claimed<T>(owner: Owner, scratch: "claim" | "kept", take: (claim: string, claimed: Address[]) => T): T {
    const claim = `${this.#scratch}/${this.#network}.${scratch}`;
    const claimed: Address[] = [];
    try {
      this.#createFresh(claim, contentOf(owner));
      return take(claim, claimed);
    } catch (error) {
      for (const address of claimed) this.#tryUnlink(this.#path(address));
      throw error;
    } finally {
      this.#tryUnlink(claim);
    }
  }

  #claimFrom(set: RangeSet, index: number, { plan, isForeign }: Wishes, claim: string): Address {
    const wanted = plan[index];
    if (wanted !== undefined) {
      if (!isForeign(wanted) && this.#files.link(claim, this.#path(wanted))) return wanted;
      throw new DrawbridgeError(
        "ERR_ADDRESS_UNAVAILABLE",
        `failed to allocate for range ${index}: requested IP address ${formatAddress(wanted)} is not available in range set ${formatRangeSet(set)}`,
      );
    }
    let taken: ReadonlySet<string> | undefined;
    let probes = 0;
    let passedOver = 0;
    for (const address of candidates(set, this.#lastReserved(index))) {
      if (passedOver === MAX_FOREIGN) break;
      if (probes === MAX_PROBES) taken ??= new Set(this.#files.readDirectory(this.#directory));
      if (taken?.has(formatAddress(address)) === true) continue;
      if (isForeign(address)) passedOver++;
      else if (this.#files.link(claim, this.#path(address))) return address;
      else probes++;
    }
    throw new DrawbridgeError(
      "ERR_RANGE_EXHAUSTED",
      `failed to allocate for range ${index}: no IP addresses available in range set: ${formatRangeSet(set)}; ${this.#directory} lists their owners, and drawbridge node audit --repair frees what ended pods have left${passedOver === 0 ? "" : `, but for ${passedOver} that the node itself (ip route show table local) or pods of another plugin or network have: exclude the node's from the range; recreate those pods, and where they are gone, remove their files beside that directory`}`,
    );
  }

  #refuseDuplicates(sets: readonly RangeSet[], plan: readonly (Address | undefined)[], owner: Owner): void {
    const { exact, legacy, failure } = this.#scan(owner);
    for (const [index, set] of sets.entries()) {
      // The claim itself reports that the requested address is taken.
      const held = [...exact, ...legacy].find((address) => rangeFor(set, address) && address !== plan[index]);
      if (held === undefined) continue;
      throw new DrawbridgeError(
        "ERR_DUPLICATE",
        `failed to allocate for range ${index}: ${formatAddress(held)} has been allocated to ${owner.containerId}, duplicate allocation is not allowed`,
      );
    }
    if (failure !== undefined) throw failure;
  }

  /** Returns the addresses whose content is the owner's, by format; an unreadable file does not hide the others. */
  #scan(owner: Owner): {
    readonly exact: readonly Address[];
    readonly legacy: readonly Address[];
    readonly failure: DrawbridgeError | undefined;
  } {
    const exact: Address[] = [];
    const legacy: Address[] = [];
    let failure: DrawbridgeError | undefined;
    for (const address of this.#addresses()) {
      try {
        const content = this.#content(address);
        if (content === contentOf(owner)) exact.push(address);
        else if (content === owner.containerId) legacy.push(address);
      } catch (error) {
        failure ??= expectStoreError(error);
      }
    }
    return { exact, legacy, failure };
  }

  /** Removes as many as possible, then throws the first failure; an earlier failure only counts if there were none. */
  #unlinkAll(addresses: readonly Address[], earlier: DrawbridgeError | undefined): readonly Address[] {
    let failure = addresses.length === 0 ? earlier : undefined;
    const released: Address[] = [];
    for (const address of addresses) {
      try {
        if (this.#files.unlink(this.#path(address))) released.push(address);
      } catch (error) {
        failure ??= expectStoreError(error);
      }
    }
    if (failure !== undefined) throw failure;
    return released;
  }

  #addresses(): Address[] {
    return this.#files
      .readDirectory(this.#directory)
      .map(tryParseAddress)
      .filter((address) => address !== undefined);
  }

  #content(address: Address): string | undefined {
    const file = this.#files.readSmallFile(this.#path(address), MAX_CONTENT_BYTES);
    return file.kind === "text" ? file.text.trim() : undefined;
  }

  #lastReserved(index: number): Address | undefined {
    const file = this.#files.readSmallFile(this.#lastReservedPath(index), MAX_CONTENT_BYTES);
    return file.kind === "text" ? tryParseAddress(file.text.trim()) : undefined;
  }

  #writeLastReserved(index: number, address: Address): void {
    const path = this.#lastReservedPath(index);
    this.#files.unlink(path);
    try {
      this.#createFresh(path, formatAddress(address));
    } catch (error) {
      this.#tryUnlink(path);
      throw error;
    }
  }

  /** Creates a file, after removing one that a killed process left under its name. */
  #createFresh(path: string, content: string): void {
    if (this.#files.createFile(path, content)) return;
    this.#files.unlink(path);
    if (!this.#files.createFile(path, content)) {
      throw new DrawbridgeError("ERR_STORE", `cannot create ${path}: another process uses it without the lock`);
    }
  }

  /** Removes a file after a failure, without replacing that failure by one of the clean-up. */
  #tryUnlink(path: string): void {
    try {
      this.#files.unlink(path);
    } catch (error) {
      expectStoreError(error);
    }
  }

  #path(address: Address): string {
    return `${this.#directory}/${formatAddress(address)}`;
  }

  #lastReservedPath(index: number): string {
    return `${this.#directory}/last_reserved_ip.${index}`;
  }

  /**
   * As {@link #locked}, after restoring a lost store. If the store was removed or emptied, the address last taken is
   * missing, too, and addresses of running pods would seem free: their attachment records name them. Only the action
   * writes that address, so a restore that fails is repeated.
   */
  #lockedWhole<T>(action: () => T): T {
    return this.#locked(() => {
      const isLost = this.#files.readSmallFile(this.#lastReservedPath(0), MAX_CONTENT_BYTES).kind === "missing";
      if (isLost) for (const holding of this.#recorded()) this.restore(holding, "claim");
      return action();
    });
  }

  #locked<T>(action: () => T): T {
    const path = `${this.#directory}/lock`;
    const release = this.#lock.acquire(path);
    try {
      return action();
    } finally {
      release();
    }
  }
}
