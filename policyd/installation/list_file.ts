import { createHash } from "node:crypto";
import process from "node:process";
import { isDeepStrictEqual } from "node:util";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { Clock } from "../lib/clock.ts";
import { Contest, type ContestLimits } from "../lib/contest.ts";
import type { HostFiles, SmallFile } from "./host_files.ts";
import { bytesOf, LARGEST_LIST, type NetworkList, readList } from "./list_text.ts";
import { type MergedList, mergeList, type OwnPart } from "./merged_list.ts";
import { CONFIGURATION_FILE } from "../configuration/schema.ts";
import { moveInto, writeBeside } from "./whole_file.ts";

const MODE = 0o600;
/** Milliseconds. A file that is not JSON for a shorter time may still be being written by another program. */
const GRACE = 2000;
const GRACE_STEP = 250;
/** Attempts in a pass when another program changes the file between read and rename; the next pass continues. */
const ATTEMPTS = 5;
/** How our part is restored while another program keeps changing it (CHAIN-03). */
const CONTEST: ContestLimits = { free: 3, firstPause: 1000, longestPause: 60_000, calm: 10_000 };
/** Limits the copies of unusable files, so that nobody can fill the disk with them. */
const MOST_SAVED = 8;

/** The result of a pass over the file. */
export interface ListOutcome {
  /**
   * - `in place`: it was as desired, and was not touched;
   * - `written`: it was not as desired, and is now;
   * - `waiting`: it is not as desired, because another program may be writing it or keeps changing our part.
   */
  readonly kind: "in place" | "written" | "waiting";
  /** Milliseconds until the next check is worthwhile; only while waiting. */
  readonly wait: number | undefined;
  /** Whether another program had changed or removed our part. */
  readonly isPutBack: boolean;
  /** Files that could not be used, with the reason and the place of a copy. */
  readonly replaced: readonly string[];
  readonly merged: MergedList | undefined;
}

type Judged =
  | { readonly kind: "list"; readonly list: NetworkList | undefined }
  | { readonly kind: "perhaps unfinished" | "unusable"; readonly reason: string };

/**
 * The network configuration list in the runtimes' directory, of which only our part is ours. It is written only when
 * our part differs: beside its place and renamed, and only if nobody has changed the file since it was read.
 */
export class ListFile {
  readonly #files: HostFiles;
  readonly #directory: string;
  readonly #clock: Pick<Clock, "now">;
  /** The contest over our part, which the caller may read. */
  readonly contest: Contest;
  /** The time since when the file cannot be read as a list. */
  #unfinishedSince: number | undefined;
  /** Our part as last seen or written. */
  #lastInPlace: MergedList["desired"] | undefined;

  constructor(files: HostFiles, directory: string, clock: Pick<Clock, "now">) {
    this.#files = files;
    this.#directory = directory;
    this.#clock = clock;
    this.contest = new Contest(clock, CONTEST);
  }

  /** Puts our part in place. @throws DrawbridgeError ERR_STORE */
  async reconcile(own: OwnPart): Promise<ListOutcome> {
    const replaced: string[] = [];
    let isPutBack = false;
    const outcome = (kind: ListOutcome["kind"], wait: number | undefined, merged?: MergedList): ListOutcome => ({
      kind,
      wait,
      isPutBack,
      replaced,
      merged,
    });
    const saved = new Set<string>();
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const present = await this.#files.readSmall(this.#place, LARGEST_LIST);
      const judged = judge(present);
      if (judged.kind === "perhaps unfinished" && saved.size === 0) {
        this.#unfinishedSince ??= this.#clock.now();
        if (this.#clock.now() - this.#unfinishedSince < GRACE) return outcome("waiting", GRACE_STEP);
      }
      this.#unfinishedSince = undefined;
      const list = judged.kind === "list" ? judged.list : undefined;
      const merged = mergeList(list, own);
      if (merged.isInPlace) {
        this.#lastInPlace = merged.desired;
        this.contest.held();
        return outcome("in place", undefined, merged);
      }
      if (this.#lastInPlace !== undefined && isTakenAway(this.#lastInPlace, merged)) {
        this.#lastInPlace = undefined;
        isPutBack = true;
        this.contest.lost();
      }
      const wait = this.contest.wait;
      if (wait > 0) return outcome("waiting", wait, merged);
      const reason = reasonToSave(judged);
      if (reason !== undefined && present.kind !== "missing" && !saved.has(contentOf(present))) {
        saved.add(contentOf(present));
        replaced.push(`${this.#place}: ${reason}; ${await this.#save(present)}`);
        continue;
      }
      if (!(await this.#write(merged.text, present))) continue;
      this.#lastInPlace = merged.desired;
      this.contest.written();
      return outcome("written", undefined, merged);
    }
    return outcome("waiting", GRACE_STEP);
  }

  get #place(): string {
    return `${this.#directory}/${CONFIGURATION_FILE}`;
  }

  /** @returns false when another program has changed the file since it was read */
  async #write(text: string, present: SmallFile): Promise<boolean> {
    const name = await writeBeside(this.#files, this.#directory, bytesOf(text), MODE);
    let isDone = false;
    try {
      const signature = present.kind === "missing" ? undefined : present.signature;
      isDone = await this.#files.replaceUnchanged(name, this.#place, signature);
    } finally {
      if (!isDone) await this.#files.remove(name);
    }
    if (isDone) await this.#files.syncDirectory(this.#directory);
    return isDone;
  }

  /** Saves the file under a name that no runtime reads. @returns a sentence that says where */
  async #save(present: Exclude<SmallFile, { readonly kind: "missing" }>): Promise<string> {
    const prefix = `${CONFIGURATION_FILE}.saved-`;
    const hash = createHash("sha256").update(contentOf(present)).digest("hex").slice(0, 12);
    const name = `${this.#directory}/${prefix}${hash}`;
    const saved = (await this.#files.list(this.#directory)).filter((one) => one.startsWith(prefix));
    if (saved.includes(`${prefix}${hash}`)) return `the same is in ${name} already`;
    if (saved.length >= MOST_SAVED) return `it is not kept: there are ${MOST_SAVED} copies ${prefix}* already`;
    try {
      await this.#files.link(this.#place, name);
    } catch (error) {
      // The place is a directory, or the file system has no hard links.
      if (!(error instanceof DrawbridgeError)) throw error;
      await moveInto(this.#files, this.#place, name);
    }
    return `it is kept as ${name}`;
  }
}

/**
 * Returns whether another program has changed our part since it was in place. If the list still contains what it
 * contained then, only our desired part has changed: the MTU has, or another plugin of the list has got a capability.
 */
function isTakenAway(last: MergedList["desired"], { found, desired }: MergedList): boolean {
  return isDeepStrictEqual(last, desired) || !isDeepStrictEqual(last, found);
}

/** Checks a file. Only a list that no untrusted user can write is used, since its entries are executed as root. */
function judge(present: SmallFile): Judged {
  if (present.kind === "missing") return { kind: "list", list: undefined };
  if (present.kind === "refused") return { kind: "unusable", reason: present.reason };
  const { data, mode, user, group } = present;
  if (!isTrusted(user, process.geteuid?.())) return { kind: "unusable", reason: `it belongs to user ${user}` };
  if ((mode & 0o002) !== 0) return { kind: "unusable", reason: "every user can write to it" };
  if ((mode & 0o020) !== 0 && !isTrusted(group, process.getegid?.())) {
    return { kind: "unusable", reason: `group ${group} can write to it` };
  }
  const list = readList(data);
  return "unreadable" in list ? { kind: "perhaps unfinished", reason: list.unreadable } : { kind: "list", list };
}

function isTrusted(id: number, own: number | undefined): boolean {
  return id === 0 || id === own;
}

/** Returns why the file needs a copy before it is replaced; undefined where nothing would be lost. */
function reasonToSave(judged: Judged): string | undefined {
  if (judged.kind !== "list") return judged.reason;
  const unusable = judged.list?.unusable ?? 0;
  return unusable === 0 ? undefined : `${unusable} of its plugins have no type, with which no runtime loads it`;
}

/** Returns the content of a file, or else its signature without the change time, which a further name changes. */
function contentOf(present: Exclude<SmallFile, { readonly kind: "missing" }>): string {
  if (present.kind === "file") return Buffer.from(present.data).toString("latin1");
  return present.signature.split(":").slice(0, -1).join(":");
}
