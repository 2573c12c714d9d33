import type { StoreFileSystem } from "../../../ipam/file_system.ts";

const NAME = "policies-enforced";
/** A boot's id has 36 characters. */
const LARGEST_FILE = 128;

/** The place of the mark. */
export interface MarkPlace {
  /** Usually `/run/drawbridge`. */
  readonly stateDirectory: string;
  readonly files: Pick<StoreFileSystem, "readSmallFile" | "createFile" | "makeDirectory" | "unlink">;
  readonly bootId: () => string;
}

/**
 * A file that shows that a daemon has enforced policies since this boot. It distinguishes a node that has lost its
 * tables from one that never had any, whose connections go on while policies come for the first time (POL-82).
 */
export class EnforcedMark {
  readonly #place: MarkPlace;
  /** Whether this daemon has set it. */
  isOurs = false;

  constructor(place: MarkPlace) {
    this.#place = place;
  }

  /** Whether the mark exists and is from this boot. @throws DrawbridgeError ERR_STORE when it cannot be read */
  isSet(): boolean {
    const { files, bootId } = this.#place;
    const found = files.readSmallFile(this.#path, LARGEST_FILE);
    return found.kind === "text" && found.text.trim() === bootId();
  }

  /** Sets the mark if it is not set. @throws DrawbridgeError ERR_STORE when it cannot be written */
  set(): void {
    this.isOurs = true;
    if (this.isSet()) return;
    const { files, bootId, stateDirectory } = this.#place;
    files.makeDirectory(stateDirectory, 0o700);
    files.unlink(this.#path);
    files.createFile(this.#path, `${bootId()}\n`);
  }

  /** Sets the mark again if this daemon had set it and it is gone. @returns the number of files @throws as {@link set} */
  restore(): number {
    if (!this.isOurs || this.isSet()) return 0;
    this.set();
    return 1;
  }

  /** Removes the mark: policies are not enforced any more. @throws DrawbridgeError ERR_STORE when that fails */
  clear(): void {
    this.#place.files.unlink(this.#path);
  }

  get #path(): string {
    return `${this.#place.stateDirectory}/${NAME}`;
  }
}
