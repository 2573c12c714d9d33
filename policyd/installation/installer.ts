import { IPAM, LOOPBACK_PLUGIN, PLUGIN, SHIM } from "../../cni/executables.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { FileLook, HostFiles } from "./host_files.ts";
import { readList } from "./list_text.ts";
import { DETACH_FILE, isDetachConfiguration } from "./network_configuration.ts";
import { moveInto, TEMPORARY, temporaryIn, writeBeside } from "./whole_file.ts";

const EXECUTABLE_MODE = 0o755;
const LARGEST_LIST = 1024 * 1024;

/** The directories that the plugin comes from and goes to. */
export interface InstallationPlaces {
  /** The directory with the two executables of this daemon's version. */
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
 * Puts files where runtimes look for them. Each file is written beside its place, synced and renamed. So a reader at
 * any moment, even after the process was killed, finds the complete old or new file. Files that are as desired stay
 * untouched, since a runtime reloads its configuration at each change in the directory.
 *
 * The plugin is written before the shim, so no shim exists without one. An old shim works with the new plugin until it
 * is replaced, since their protocol never changes. A release without a shim had the plugin itself under the shim's
 * names; those files stay complete until then.
 */
export class Installer {
  readonly #files: HostFiles;
  readonly #places: InstallationPlaces;
  /** The results of comparisons with the shipped files, by the state of both: the files are large and seldom change. */
  readonly #compared = new Map<string, { readonly pair: string; readonly isEqual: boolean }>();

  constructor(files: HostFiles, places: InstallationPlaces) {
    this.#files = files;
    this.#places = places;
  }

  /** Removes what a killed run left. Only one installer may run at a time. @throws DrawbridgeError ERR_STORE */
  async removeLeftovers(): Promise<void> {
    for (const directory of [this.#places.binaries, this.#places.configurations]) {
      for (const name of await this.#files.list(directory)) {
        if (TEMPORARY.test(name)) await this.#files.remove(`${directory}/${name}`);
      }
    }
  }

  /** Removes the list that a cleanup left to delete pods with: ours does that now. @throws DrawbridgeError ERR_STORE */
  async removeDetachList(): Promise<void> {
    const path = `${this.#places.configurations}/${DETACH_FILE}`;
    const file = await this.#files.readSmall(path, LARGEST_LIST);
    if (file.kind !== "file") return;
    const list = readList(file.data);
    if (!("unreadable" in list) && isDetachConfiguration(list)) await this.#files.remove(path);
  }

  /**
   * Installs plugin and shim, the shim under all its names; `loopback` only where no other program's is.
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
      `${source}/${name} is not a file; expected ${PLUGIN} and ${SHIM} there: give their directory as cniSourceDirectory`,
    );
  }

  /** @returns whether it was written; it is then on disk before the shim is written */
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
    const loopback = await this.#files.look(placeOf(LOOPBACK_PLUGIN));
    const isCurrent = await this.#isCopy(placeOf(SHIM), shim, shipped);
    const isIpamCurrent = isNameOf(shim, ipam) || (await this.#isCopy(placeOf(IPAM), ipam, shipped));
    const aliases = aliasesToPlace({
      shim: isCurrent ? shim : undefined,
      isIpamCurrent,
      loopback,
      ours: [shim, ipam],
    });
    if (isCurrent && aliases.length === 0) return [];
    // `drawbridge` comes last: until it is replaced, the other old names of its file show which loopback is ours.
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
      // The file system has no hard links, or the file belongs to another user.
      if (!(error instanceof DrawbridgeError)) throw error;
      await moveInto(this.#files, await this.#copy(shipped), place);
      return;
    }
    await moveInto(this.#files, name, place);
    // A rename between two names of the same file does nothing.
    await this.#files.remove(name);
  }

  /** @returns the temporary name of the executable */
  async #copy(shipped: Shipped): Promise<string> {
    const { source, binaries } = this.#places;
    const origin = `${source}/${shipped.name}`;
    const name = await writeBeside(this.#files, binaries, this.#files.pieces(origin), EXECUTABLE_MODE);
    if ((await this.#files.look(origin))?.signature === shipped.look.signature) return name;
    await this.#files.remove(name);
    throw new DrawbridgeError("ERR_STORE", `${origin} changed while it was copied; it is tried again`);
  }

  /**
   * Returns whether a file equals this daemon's executable; both are read only when one of them has changed. A symbolic
   * link never counts, wherever it leads: other programs may change its target.
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
 * Returns the further names that the shim needs.
 *
 * @param present.shim undefined where it will be replaced
 * @param present.ours the files that a loopback of ours is identical to until it is replaced
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
    ...(isLoopbackOurs && !isNameOf(shim, loopback) ? [LOOPBACK_PLUGIN] : []),
  ];
}

function isSame(a: FileLook | undefined, b: FileLook | undefined): boolean {
  return a !== undefined && a.identity === b?.identity;
}

/** Returns whether another name is a hard link of the same file, not a symbolic link. */
function isNameOf(file: FileLook | undefined, other: FileLook | undefined): boolean {
  return isSame(file, other) && other?.isLink === false;
}

/** Returns whether two files are equal; files in pieces of different sizes count as different. */
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
