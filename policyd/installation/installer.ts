import { IPAM, LOOPBACK, PLUGIN, SHIM } from "../../cni/executables.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { FileLook, HostFiles } from "./host_files.ts";
import { readList } from "./list_text.ts";
import { DETACH_FILE, isDetachConfiguration } from "./network_configuration.ts";
import { moveInto, TEMPORARY, temporaryIn, writeBeside } from "./whole_file.ts";

const EXECUTABLE_MODE = 0o755;
const LARGEST_LIST = 1024 * 1024;

/** Where the plugin comes from and goes to. */
export interface InstallationPlaces {
  /** The directory with the two executables that belong to this daemon. */
  readonly source: string;
  readonly binaries: string;
  readonly configurations: string;
}

/** An executable to install. */
interface Shipped {
  readonly name: typeof PLUGIN | typeof SHIM;
  readonly look: FileLook;
}

/**
 * Puts files where runtimes look for them. Whoever reads at any moment, also after the process was killed at any other, finds a
 * name's old file or its new one, whole: each is written beside its place, synced and renamed. What is there already stays
 * untouched, as a runtime loads its configuration anew at each change in the directory.
 *
 * The plugin comes before the shim, so no shim is without one. Until its shim is replaced, an old one works with the new
 * plugin, since what the two say to each other never changes; a release without a shim had the plugin itself under the
 * shim's names, which stay whole until then.
 */
export class Installer {
  readonly #files: HostFiles;
  readonly #places: InstallationPlaces;
  /** Whether a file is as the one that is shipped, for one state of both: they are large and seldom change. */
  readonly #compared = new Map<string, { readonly pair: string; readonly isEqual: boolean }>();

  constructor(files: HostFiles, places: InstallationPlaces) {
    this.#files = files;
    this.#places = places;
  }

  /** Removes what an earlier run that was killed has left. Only one may run at a time. @throws DrawbridgeError ERR_STORE */
  async removeLeftovers(): Promise<void> {
    for (const directory of [this.#places.binaries, this.#places.configurations]) {
      for (const name of await this.#files.list(directory)) {
        if (TEMPORARY.test(name)) await this.#files.remove(`${directory}/${name}`);
      }
    }
  }

  /** Removes the list that a cleanup left for pods: ours is there again, by which they are deleted. @throws DrawbridgeError ERR_STORE */
  async removeDetachList(): Promise<void> {
    const path = `${this.#places.configurations}/${DETACH_FILE}`;
    const file = await this.#files.readSmall(path, LARGEST_LIST);
    if (file.kind !== "file") return;
    const list = readList(file.data);
    if (!("unreadable" in list) && isDetachConfiguration(list)) await this.#files.remove(path);
  }

  /**
   * Has plugin and shim installed, the shim under its names, `loopback` only where nobody else's is.
   *
   * @returns the names that were written
   * @throws DrawbridgeError ERR_STORE
   */
  async installExecutables(): Promise<readonly string[]> {
    const plugin = await this.#shipped(PLUGIN);
    const shim = await this.#shipped(SHIM);
    const isWritten = await this.#installPlugin(plugin);
    return [...(isWritten ? [PLUGIN] : []), ...(await this.#installShim(shim))];
  }

  async #shipped(name: Shipped["name"]): Promise<Shipped> {
    const { source } = this.#places;
    const look = await this.#files.look(`${source}/${name}`);
    if (look?.isFile === true) return { name, look };
    throw new DrawbridgeError(
      "ERR_STORE",
      `${source}/${name} is no file; expected ${PLUGIN} and ${SHIM} there: give their directory as cniSourceDirectory`,
    );
  }

  /** @returns whether it was written; the disk has it then, before there is a shim */
  async #installPlugin(shipped: Shipped): Promise<boolean> {
    const { binaries } = this.#places;
    const place = `${binaries}/${PLUGIN}`;
    if (await this.#isCopy(place, await this.#files.look(place), shipped)) return false;
    await moveInto(this.#files, await this.#copy(shipped), place);
    await this.#files.syncDirectory(binaries);
    return true;
  }

  async #installShim(shipped: Shipped): Promise<readonly string[]> {
    const { binaries } = this.#places;
    const placeOf = (name: string): string => `${binaries}/${name}`;
    const shim = await this.#files.look(placeOf(SHIM));
    const ipam = await this.#files.look(placeOf(IPAM));
    const loopback = await this.#files.look(placeOf(LOOPBACK));
    const isCurrent = await this.#isCopy(placeOf(SHIM), shim, shipped);
    const isIpamCurrent = isNameOf(shim, ipam) || (await this.#isCopy(placeOf(IPAM), ipam, shipped));
    const aliases = aliasesToPlace({
      shim: isCurrent ? shim : undefined,
      isIpamCurrent,
      loopback,
      ours: [shim, ipam],
    });
    if (isCurrent && aliases.length === 0) return [];
    // `drawbridge` comes last: until it is the new one, its old further names tell which loopback is ours.
    const written = isCurrent ? aliases : [...aliases, SHIM];
    const origin = isCurrent ? placeOf(SHIM) : await this.#copy(shipped);
    try {
      for (const alias of aliases) await this.#placeAlias(origin, placeOf(alias), shipped);
    } catch (error) {
      if (!isCurrent) await this.#files.remove(origin);
      throw error;
    }
    if (!isCurrent) await moveInto(this.#files, origin, placeOf(SHIM));
    await this.#files.syncDirectory(binaries);
    return written;
  }

  async #placeAlias(origin: string, place: string, shipped: Shipped): Promise<void> {
    const name = temporaryIn(this.#places.binaries);
    try {
      await this.#files.link(origin, name);
    } catch (error) {
      // A file system without hard links, or a file of somebody else.
      if (!(error instanceof DrawbridgeError)) throw error;
      await moveInto(this.#files, await this.#copy(shipped), place);
      return;
    }
    await moveInto(this.#files, name, place);
    // Renaming does nothing between two names of one file.
    await this.#files.remove(name);
  }

  /** @returns the name of the executable before it gets its place */
  async #copy(shipped: Shipped): Promise<string> {
    const { source, binaries } = this.#places;
    const origin = `${source}/${shipped.name}`;
    const name = await writeBeside(this.#files, binaries, this.#files.pieces(origin), EXECUTABLE_MODE);
    if ((await this.#files.look(origin))?.signature === shipped.look.signature) return name;
    await this.#files.remove(name);
    throw new DrawbridgeError("ERR_STORE", `${origin} changed while it was copied; it is tried again`);
  }

  /**
   * Whether a file is the executable that belongs to this daemon; read only when one of the two is another than before. A
   * symbolic link is none, whatever it leads to: that is another's to change.
   */
  async #isCopy(name: string, look: FileLook | undefined, shipped: Shipped): Promise<boolean> {
    if (look?.isFile !== true || look.isLink || look.mode !== EXECUTABLE_MODE || look.size !== shipped.look.size)
      return false;
    const pair = `${look.signature} ${shipped.look.signature}`;
    const known = this.#compared.get(name);
    if (known?.pair === pair) return known.isEqual;
    const origin = `${this.#places.source}/${shipped.name}`;
    const isEqual = await areEqual(this.#files.pieces(name), this.#files.pieces(origin));
    this.#compared.set(name, { pair, isEqual });
    return isEqual;
  }
}

/**
 * Which further names the shim is to get.
 *
 * @param present.shim undefined where it is to be replaced
 * @param present.ours what a loopback of ours is one with, as long as it was not replaced
 */
function aliasesToPlace(present: {
  readonly shim: FileLook | undefined;
  readonly isIpamCurrent: boolean;
  readonly loopback: FileLook | undefined;
  readonly ours: readonly (FileLook | undefined)[];
}): readonly string[] {
  const { shim, isIpamCurrent, loopback, ours } = present;
  const isLoopbackOurs = loopback === undefined || ours.some((one) => isSame(one, loopback));
  return [
    ...(shim !== undefined && isIpamCurrent ? [] : [IPAM]),
    ...(isLoopbackOurs && !isNameOf(shim, loopback) ? [LOOPBACK] : []),
  ];
}

function isSame(a: FileLook | undefined, b: FileLook | undefined): boolean {
  return a !== undefined && a.identity === b?.identity;
}

/** Whether another name is of the same file by itself, not by a symbolic link. */
function isNameOf(file: FileLook | undefined, other: FileLook | undefined): boolean {
  return isSame(file, other) && other?.isLink === false;
}

/** Whether two files in pieces are the same; in pieces of different sizes they count as different. */
async function areEqual(first: AsyncIterable<Uint8Array>, second: AsyncIterable<Uint8Array>): Promise<boolean> {
  const others = second[Symbol.asyncIterator]();
  try {
    for await (const piece of first) {
      const other = await others.next();
      if (other.done === true || Buffer.compare(piece, other.value) !== 0) return false;
    }
    return (await others.next()).done === true;
  } finally {
    await others.return?.();
  }
}
