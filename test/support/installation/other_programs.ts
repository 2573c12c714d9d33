import { createHash } from "node:crypto";
import {
  closeSync,
  existsSync,
  type FSWatcher,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  unlinkSync,
  watch,
  writeFileSync,
  writeSync,
} from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import type { JsonObject } from "../../../policyd/installation/list_text.ts";
import { listValues } from "./own_part.ts";

const LIST = "10-drawbridge.conflist";

/** A program that watches the directory of network configurations and handles one event after the other. */
abstract class Follower {
  readonly directory: string;
  /** The number of times it has written. */
  writes = 0;
  #watcher: FSWatcher | undefined;
  #turn: Promise<void> = Promise.resolve();

  constructor(directory: string) {
    this.directory = directory;
  }

  start(): void {
    this.#watcher = watch(this.directory, (_, name) => this.#next(name ?? ""));
    this.#next(LIST);
  }

  /** Ends like a container that is deleted: it removes its entry. */
  async stop(): Promise<void> {
    this.#watcher?.close();
    await this.#turn;
    await this.leave();
  }

  get place(): string {
    return `${this.directory}/${LIST}`;
  }

  abstract handle(name: string): Promise<void>;
  abstract leave(): Promise<void>;

  #next(name: string): void {
    this.#turn = this.#turn.then(() => this.handle(name));
  }

  /** Returns the text of the list; undefined while it is missing or incomplete. */
  read(): string | undefined {
    try {
      const text = readFileSync(this.place, "utf8");
      listValues(text);
      return text;
    } catch {
      return undefined;
    }
  }
}

function withEntry(text: string, entry: JsonObject, isLast: boolean): JsonObject {
  const value = listValues(text);
  const others = value.plugins.filter(({ type }) => type !== entry["type"]);
  return { ...value, plugins: isLast ? [...others, entry] : others };
}

/**
 * Edits the list as istio-cni does in chained mode: when its entry is missing or has changed, it writes it after all
 * others, into a new file beside the list that it renames. It sorts the keys of the list.
 */
export class Istio extends Follower {
  readonly entry = {
    type: "istio-cni",
    name: "istio-cni",
    log_level: "info",
    kubernetes: { exclude_namespaces: ["a"] },
  };

  override async handle(): Promise<void> {
    const text = this.read();
    if (text === undefined) return;
    const found = listValues(text).plugins.filter(({ type }) => type === this.entry.type);
    if (found.length === 1 && JSON.stringify(found[0]) === JSON.stringify(this.entry)) return;
    await pause(Math.random() * 5);
    this.#put(withEntry(text, this.entry, true));
  }

  override async leave(): Promise<void> {
    const text = this.read();
    if (text !== undefined) this.#put(withEntry(text, this.entry, false));
  }

  #put(value: JsonObject): void {
    const sorted = Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
    const beside = `${this.directory}/.${LIST}${Math.floor(Math.random() * 1e9)}`;
    writeFileSync(beside, JSON.stringify(sorted, undefined, 2), { mode: 0o644 });
    renameSync(beside, this.place);
    this.writes++;
  }
}

/**
 * Edits the list as linkerd-cni's script does: after each change of the list by another program it appends its entry
 * again, by a move from another file system, during which the name is first missing and then incomplete. When it ends
 * it writes the list in place.
 */
export class Linkerd extends Follower {
  readonly entry = { type: "linkerd-cni", name: "linkerd-cni", log_level: "info", policy: { type: "k8s" } };
  #written = "";

  override async handle(name: string): Promise<void> {
    const text = name === LIST ? this.read() : undefined;
    if (text === undefined || digest(text) === this.#written) return;
    await pause(Math.random() * 5);
    const next = `${JSON.stringify(withEntry(text, this.entry, true), undefined, 2)}\n`;
    this.#written = digest(next);
    if (existsSync(this.place)) unlinkSync(this.place);
    let descriptor: number;
    try {
      descriptor = openSync(this.place, "wx", 0o644);
    } catch {
      // Another program has created the file: mv fails, and the next event causes another attempt.
      return;
    }
    writeSync(descriptor, next.slice(0, next.length >> 1));
    await pause(1);
    writeSync(descriptor, next.slice(next.length >> 1));
    closeSync(descriptor);
    this.writes++;
  }

  override async leave(): Promise<void> {
    const text = this.read();
    if (text === undefined) return;
    truncateSync(this.place);
    await pause(1);
    writeFileSync(this.place, JSON.stringify(withEntry(text, this.entry, false), undefined, 2));
  }
}

/**
 * Writes as Multus does with a generated configuration: after each change of the list it writes a file of its own that
 * sorts before the list.
 */
export class Multus extends Follower {
  override async handle(name: string): Promise<void> {
    const text = name === LIST ? this.read() : undefined;
    if (text === undefined) return;
    const capabilities = { portMappings: true };
    const own = { cniVersion: "1.0.0", name: "multus-cni-network", type: "multus", capabilities };
    writeFileSync(`${this.directory}/00-multus.conf`, JSON.stringify({ ...own, delegates: [JSON.parse(text)] }), {
      mode: 0o600,
    });
    this.writes++;
  }

  override async leave(): Promise<void> {
    rmSync(`${this.directory}/00-multus.conf`, { force: true });
  }
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
