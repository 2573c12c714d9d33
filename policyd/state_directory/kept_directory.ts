import type { StoreFileSystem } from "../../ipam/file_system.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { FileSight } from "../../kernel/file.ts";
import type { Clock } from "../clock.ts";
import { SettledSight } from "./settled_sight.ts";

/** The parts of the machine that a kept directory needs. */
export interface KeptDirectoryPlace {
  readonly files: StoreFileSystem;
  /** The directory that is there now; undefined where there is none. */
  readonly sightOf: (path: string) => FileSight | undefined;
  readonly clock: Pick<Clock, "now">;
}

/** Files of the state directory are smaller, but for policies of namespaces that have ended. */
const LARGEST_FILE = 4 * 1024 * 1024;
const MOST_FILES = 1024;
/** Milliseconds in which `rm -r` removes a directory after it has begun with the files in it. */
const REMOVAL = 5000;

/**
 * A directory of small files whose names and contents are remembered, so that all are there again when somebody removes the directory, also
 * where another program has made it again by then.
 *
 * A single file that goes is not missed: whoever owns it may have removed it. No part of Drawbridge removes such a directory.
 */
export class KeptDirectory {
  readonly path: string;
  readonly #place: KeptDirectoryPlace;
  readonly #settled = new SettledSight();
  #known = new Map<string, string>();
  /** The files that went a moment ago, and when. */
  readonly #gone = new Map<string, { readonly text: string; readonly at: number }>();

  constructor(path: string, place: KeptDirectoryPlace) {
    this.path = path;
    this.#place = place;
  }

  /**
   * Remembers the files that are there, and puts them back where the directory is gone, or another directory has its name.
   *
   * @returns the number of files that were put back
   * @throws DrawbridgeError ERR_STORE
   */
  look(): number {
    const { clock, sightOf } = this.#place;
    for (const [name, { at }] of this.#gone) if (clock.now() - at > REMOVAL) this.#gone.delete(name);
    const seen = this.#settled.see(sightOf(this.path));
    if (seen === "same") return 0;
    if (seen === "missing" || seen === "remade") return this.#restore();
    const present = this.#read();
    for (const [name, text] of this.#known) if (!present.has(name)) this.#gone.set(name, { text, at: clock.now() });
    this.#known = present;
    return 0;
  }

  #read(): Map<string, string> {
    const { files } = this.#place;
    const found = new Map<string, string>();
    for (const name of files.readDirectory(this.path).slice(0, MOST_FILES)) {
      // A leading dot marks an unfinished write.
      if (name.startsWith(".")) continue;
      const file = files.readSmallFile(`${this.path}/${name}`, LARGEST_FILE);
      if (file.kind === "text") found.set(name, file.text);
    }
    return found;
  }

  #restore(): number {
    const { files, sightOf } = this.#place;
    const lost = new Map([...[...this.#gone].map(([name, { text }]) => [name, text] as const), ...this.#known]);
    if (lost.size === 0) return 0;
    files.makeDirectory(this.path, 0o700);
    let restored = 0;
    for (const [name, text] of lost) if (files.createFile(`${this.path}/${name}`, text)) restored++;
    this.#gone.clear();
    this.#known = this.#read();
    // This directory is the one that is kept from now on.
    this.#settled.see(sightOf(this.path));
    return restored;
  }
}

/** A directory with directories below it, such as one for each network, all of which are kept. */
export class KeptTree {
  readonly #path: string;
  readonly #place: KeptDirectoryPlace;
  readonly #directories = new Map<string, KeptDirectory>();
  readonly #settled = new SettledSight();

  constructor(path: string, place: KeptDirectoryPlace) {
    this.#path = path;
    this.#place = place;
    this.#directories.set(path, new KeptDirectory(path, place));
  }

  /** As {@link KeptDirectory.look}, of all. Those that cannot be looked at are left to the next look. */
  look(): number {
    const { files, sightOf } = this.#place;
    let restored = 0;
    const seen = this.#settled.see(sightOf(this.#path));
    if (seen !== "same" && seen !== "missing") {
      for (const name of files.readDirectory(this.#path).slice(0, MOST_FILES)) {
        const path = `${this.#path}/${name}`;
        if (this.#directories.has(path) || name.startsWith(".") || !files.directoryExists(path)) continue;
        this.#directories.set(path, new KeptDirectory(path, this.#place));
      }
    }
    for (const directory of this.#directories.values()) {
      try {
        restored += directory.look();
      } catch (error) {
        if (!(error instanceof DrawbridgeError)) throw error;
      }
    }
    return restored;
  }
}
