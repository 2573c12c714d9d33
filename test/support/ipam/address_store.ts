import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { storeError, type StoreFileSystem, systemFileSystem } from "../../../ipam/file_system.ts";
import { canonicalRangeSets, type RangeInput, type RangeSet } from "../../../ipam/range.ts";
import { AddressStore, type FileLock, type Owner } from "../../../ipam/store.ts";
import { type Address, formatAddress, parseAddress, tryParseAddress } from "../../../kernel/ip/address.ts";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";

/** The real file system, through the system calls of Node's backend. */
export const realFileSystem: StoreFileSystem = systemFileSystem(nodeSyscalls());

/** A lock for one process: it throws when it is taken twice at once, and records the paths it was taken for. */
export class FakeLock implements FileLock {
  readonly paths: string[] = [];
  held = false;

  acquire(path: string): () => void {
    if (this.held) throw new Error("the lock is taken twice at once");
    this.held = true;
    this.paths.push(path);
    return () => {
      this.held = false;
    };
  }
}

/** Stands for SIGKILL: no Drawbridge code may catch it. */
export class Killed extends Error {}

/** One call of a {@link StoreFileSystem}: its method, and the path that the call is about. */
export interface FileCall {
  readonly method: keyof StoreFileSystem;
  readonly path: string;
}

/**
 * Returns the real file system with a hook before each call.
 *
 * When the hook throws in `createFile`, half of the content has already reached the disk, as with a full disk or a
 * process killed between open and write.
 */
export function hookedFileSystem(before: (call: FileCall) => void): StoreFileSystem {
  return {
    directoryExists(path) {
      before({ method: "directoryExists", path });
      return realFileSystem.directoryExists(path);
    },
    makeDirectory(path, mode) {
      before({ method: "makeDirectory", path });
      realFileSystem.makeDirectory(path, mode);
    },
    createFile(path, content) {
      try {
        before({ method: "createFile", path });
      } catch (error) {
        realFileSystem.createFile(path, content.slice(0, content.length / 2));
        throw error;
      }
      return realFileSystem.createFile(path, content);
    },
    link(existing, name) {
      before({ method: "link", path: name });
      return realFileSystem.link(existing, name);
    },
    rename(from, to) {
      before({ method: "rename", path: to });
      realFileSystem.rename(from, to);
    },
    unlink(path) {
      before({ method: "unlink", path });
      return realFileSystem.unlink(path);
    },
    readDirectory(path) {
      before({ method: "readDirectory", path });
      return realFileSystem.readDirectory(path);
    },
    readSmallFile(path, limit) {
      before({ method: "readSmallFile", path });
      return realFileSystem.readSmallFile(path, limit);
    },
  };
}

/** Returns the real file system, which appends each call to `calls`. */
export function recordingFileSystem(calls: FileCall[]): StoreFileSystem {
  return hookedFileSystem((call) => calls.push(call));
}

/** Fails the `index`-th call (from 0) with an errno, and with `"from"` all later ones too. */
export function failingFileSystem(
  index: number,
  extent: "once" | "from",
  code: keyof typeof constants.errno,
): StoreFileSystem {
  let next = 0;
  return hookedFileSystem(({ method, path }) => {
    const current = next++;
    if (current === index || (extent === "from" && current > index)) {
      throw storeError(method, path, constants.errno[code]);
    }
  });
}

/** Throws {@link Killed} before the `index`-th call (from 0) and each later one, as if the process had died. */
export function killedFileSystem(index: number): StoreFileSystem {
  let next = 0;
  return hookedFileSystem(() => {
    if (next++ >= index) throw new Killed();
  });
}

/** A directory of its own for each test of the suite, removed after it. */
export function useTemporaryDirectory(): () => string {
  let directory = "";
  beforeEach(() => {
    directory = mkdtempSync(`${tmpdir()}/drawbridge-ipam-`);
  });
  afterEach(() => rmSync(directory, { recursive: true, force: true }));
  return () => directory;
}

/** The tools of a test of the address store: a store in a temporary directory, and views of its files. */
export interface StoreFixture {
  readonly directory: () => string;
  /** The path of a file in the network's directory. */
  readonly path: (name: string) => string;
  readonly open: (fileSystem?: StoreFileSystem, lock?: FileLock) => AddressStore;
  /** The reservations: content by address. */
  readonly held: () => Readonly<Record<string, string>>;
  /** The names in the scratch directory beside the network's. */
  readonly scratch: () => readonly string[];
}

/** A store of the network `podnet` for each test of the suite. */
export function useAddressStore(): StoreFixture {
  const directory = useTemporaryDirectory();
  const network = "podnet";
  const path = (name: string) => `${directory()}/${network}/${name}`;
  return {
    directory,
    path,
    open: (fileSystem = realFileSystem, lock = new FakeLock()) =>
      new AddressStore({ directory: directory(), network, fileSystem, lock }),
    held: () => {
      const names = readdirSync(`${directory()}/${network}`).filter((name) => tryParseAddress(name) !== undefined);
      return Object.fromEntries(names.map((name) => [name, readFileSync(path(name), "utf8")]));
    },
    scratch: () => readdirSync(`${directory()}/.drawbridge`),
  };
}

/** One range set per family. */
export function dualStack(): readonly RangeSet[] {
  return rangeSets(["10.1.2.0/24"], ["2001:db8:1::/64"]);
}

/** The owner with this number. */
export function pod(number: number): Owner {
  return { containerId: `pod-${number}`, ifname: "eth0" };
}

/** Writes a file as another program would. */
export function writeForeign(path: string, content: string): void {
  writeFileSync(path, content, { mode: 0o600 });
}

/** Range sets from short texts: a subnet, or a whole range. */
export function rangeSets(...sets: readonly (readonly (string | RangeInput)[])[]): readonly RangeSet[] {
  return canonicalRangeSets(
    sets.map((set) => set.map((range) => (typeof range === "string" ? { subnet: range } : range))),
    "ipam.ranges",
  );
}

/** One range set from short texts. */
export function rangeSet(...ranges: readonly (string | RangeInput)[]): RangeSet {
  const [set] = rangeSets(ranges);
  if (set === undefined) throw new Error("no range set");
  return set;
}

export function addresses(...list: readonly string[]): readonly Address[] {
  return list.map((text) => parseAddress(text));
}

export function texts(list: Iterable<Address>): readonly string[] {
  return Array.from(list, formatAddress);
}
