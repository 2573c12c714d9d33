import { IPAM, LOOPBACK_PLUGIN, PLUGIN } from "../../cni/executables.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { FileLook, HostFiles } from "./host_files.ts";
import { LARGEST_LIST, readList } from "./list_text.ts";
import { DETACH_FILE, isDetachConfiguration } from "./configuration_list.ts";
import { moveInto, TEMPORARY, temporaryIn, writeBeside } from "./whole_file.ts";

const EXECUTABLE_MODE = 0o755;

/** The directories that the plugin comes from and goes to. */
export interface InstallationPlaces {
  /** The directory with the executable of this daemon's version. */
  readonly source: string;
  readonly binaries: string;
  readonly configurations: string;
}

/**
 * Puts files where runtimes look for them. Each file is written beside its place, synced and renamed. So a reader at
 * any moment, even after the process was killed, finds the complete old or new file. Files that are as desired stay
 * untouched, since a runtime reloads its configuration at each change in the directory.
 */
export class Installer {
  readonly #files: HostFiles;
  readonly #places: InstallationPlaces;
  /** The results of comparisons with the shipped file, by the state of both: the files are large and seldom change. */
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

  get #origin(): string {
    return `${this.#places.source}/${PLUGIN}`;
  }

  async #shipped(): Promise<FileLook> {
    const look = await this.#files.look(this.#origin);
    if (look?.isFile === true) return look;
    throw new DrawbridgeError(
      "ERR_STORE",
      `${this.#origin} is not a file; expected the plugin's executable there: give its directory as cniSourceDirectory`,
    );
  }

  /**
   * Returns the names that were written: the executable is installed under all its names; `loopback` only where no other
   * program's is.
   *
   * @throws DrawbridgeError ERR_STORE
   */
  async installExecutable(): Promise<readonly string[]> {
    const shipped = await this.#shipped();
    const place = this.#placeOf(PLUGIN);
    const present = await this.#files.look(place);
    const isCurrent = await this.#isCopy(place, present, shipped);
    const aliases = await this.#aliasesToPlace(shipped, present, isCurrent);
    if (isCurrent && aliases.length === 0) return [];
    const origin = isCurrent ? place : await this.#copy(shipped);
    try {
      for (const alias of aliases) await this.#placeAlias(origin, this.#placeOf(alias), shipped);
    } catch (error) {
      if (!isCurrent) await this.#files.remove(origin);
      throw error;
    }
    // `drawbridge` comes last: until it is replaced, the other old names of its file show which loopback is ours.
    if (!isCurrent) await moveInto(this.#files, origin, place);
    await this.#files.syncDirectory(this.#places.binaries);
    return isCurrent ? aliases : [...aliases, PLUGIN];
  }

  /**
   * Returns the further names that the plugin needs.
   *
   * @param plugin the file that has its first name
   * @param isCurrent whether that file stays
   */
  async #aliasesToPlace(
    shipped: FileLook,
    plugin: FileLook | undefined,
    isCurrent: boolean,
  ): Promise<readonly string[]> {
    const ipam = await this.#files.look(this.#placeOf(IPAM));
    const loopback = await this.#files.look(this.#placeOf(LOOPBACK_PLUGIN));
    const isIpamCurrent =
      isCurrent && (isNameOf(plugin, ipam) || (await this.#isCopy(this.#placeOf(IPAM), ipam, shipped)));
    const isLoopbackCurrent = isCurrent && isNameOf(plugin, loopback);
    const isLoopbackOurs = loopback === undefined || [plugin, ipam].some((one) => isSame(one, loopback));
    return [...(isIpamCurrent ? [] : [IPAM]), ...(isLoopbackOurs && !isLoopbackCurrent ? [LOOPBACK_PLUGIN] : [])];
  }

  #placeOf(name: string): string {
    return `${this.#places.binaries}/${name}`;
  }

  async #placeAlias(origin: string, place: string, shipped: FileLook): Promise<void> {
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
  async #copy(shipped: FileLook): Promise<string> {
    const data = await this.#files.read(this.#origin);
    const name = await writeBeside(this.#files, this.#places.binaries, data, EXECUTABLE_MODE);
    if ((await this.#files.look(this.#origin))?.signature === shipped.signature) return name;
    await this.#files.remove(name);
    throw new DrawbridgeError("ERR_STORE", `${this.#origin} changed while it was copied; it is tried again`);
  }

  /**
   * Returns whether a file equals this daemon's executable; both are read only when one of them has changed. A symbolic
   * link never counts, wherever it leads: other programs may change its target.
   */
  async #isCopy(name: string, look: FileLook | undefined, shipped: FileLook): Promise<boolean> {
    if (look?.isFile !== true || look.isLink || look.mode !== EXECUTABLE_MODE || look.size !== shipped.size)
      return false;
    const pair = `${look.signature} ${shipped.signature}`;
    const known = this.#compared.get(name);
    if (known?.pair === pair) return known.isEqual;
    const isEqual = Buffer.compare(await this.#files.read(name), await this.#files.read(this.#origin)) === 0;
    this.#compared.set(name, { pair, isEqual });
    return isEqual;
  }
}

function isSame(a: FileLook | undefined, b: FileLook | undefined): boolean {
  return a !== undefined && a.identity === b?.identity;
}

/** Returns whether another name is a hard link of the same file, not a symbolic link. */
function isNameOf(file: FileLook | undefined, other: FileLook | undefined): boolean {
  return isSame(file, other) && other?.isLink === false;
}
