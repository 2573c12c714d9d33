import type { Lab } from "../../lab/lab.ts";
import { sleep } from "../sleep.ts";
import { type BenchService, benchServices, changesOf, type ClusterSize, sizeText } from "./cluster.ts";
import { Ours, type Taken } from "./ours.ts";

/** A node that has its Services. */
export interface Loaded {
  readonly node: Ours;
  readonly size: ClusterSize;
  readonly services: readonly BenchService[];
}

/** A pause after the kernel's answer, in which it frees a ruleset of ten thousand chains. */
const SETTLE_MILLISECONDS = 500;

/** Nodes with Services: the last load of each size stays for later measurements. */
export class Stage {
  readonly #lab: Lab;
  readonly #loaded = new Map<string, Loaded>();
  #count = 0;

  constructor(lab: Lab) {
    this.#lab = lab;
    lab.atEnd(() => this.#close());
  }

  /** Loads Services on a fresh node. */
  load(size: ClusterSize): Taken {
    this.#drop(size);
    const services = benchServices(size);
    const changes = changesOf(services);
    const node = new Ours(this.#lab.namespace(`ours-${this.#count++}`));
    this.#loaded.set(sizeText(size), { node, size, services });
    return node.load(changes);
  }

  /** Returns the last load of a size, or a new one. */
  loaded(size: ClusterSize): Loaded {
    if (!this.#loaded.has(sizeText(size))) this.load(size);
    const loaded = this.#loaded.get(sizeText(size));
    if (loaded === undefined) throw new Error(`nothing is loaded at ${sizeText(size)}`);
    return loaded;
  }

  #drop(size: ClusterSize): void {
    const loaded = this.#loaded.get(sizeText(size));
    if (loaded === undefined) return;
    const { node } = loaded;
    this.#loaded.delete(sizeText(size));
    node[Symbol.dispose]();
    // The removal is awaited, or its end would fall into the next measurement.
    node.namespace.exec("nft", ["-f", "-"], "add table inet drawbridge\ndelete table inet drawbridge\n");
    this.#lab.remove(node.namespace);
    sleep(SETTLE_MILLISECONDS);
  }

  #close(): void {
    for (const { node } of this.#loaded.values()) node[Symbol.dispose]();
  }
}
