import type { Lab } from "../../lab/lab.ts";
import { sleep } from "../sleep.ts";
import { type BenchService, benchServices, changesOf, type ClusterSize, sizeText } from "./cluster.ts";
import { Ours, type Taken } from "./ours.ts";
import { type Load, Peer, runNft } from "./peer.ts";
import { Wire } from "./wire.ts";

/** A contestant that has its Services. */
export interface Loaded<T> {
  readonly contestant: T;
  readonly size: ClusterSize;
  readonly services: readonly BenchService[];
  /** The pods on its node. */
  readonly wire: Wire;
}

/** A pause after the kernel's answer, in which it frees a ruleset of ten thousand chains. */
const SETTLE_MILLISECONDS = 500;

/** Nodes with Services: the last load of each contestant and size stays for later measurements. */
export class Stage {
  readonly #lab: Lab;
  readonly #ours = new Map<string, Loaded<Ours>>();
  readonly #peers = new Map<string, Loaded<Peer>>();
  #count = 0;

  constructor(lab: Lab) {
    this.#lab = lab;
    lab.atEnd(() => this.#close());
  }

  /** Loads our layout on a fresh node. */
  loadOurs(size: ClusterSize): Taken {
    this.#dropOurs(size);
    const services = benchServices(size);
    const changes = changesOf(services);
    const contestant = new Ours(this.#lab.namespace(`ours-${this.#count++}`));
    this.#ours.set(sizeText(size), { contestant, size, services, wire: new Wire(this.#lab, contestant.namespace) });
    return contestant.load(changes);
  }

  /** Loads kube-proxy's layout on a fresh node. */
  loadPeer(size: ClusterSize): Load {
    this.#dropPeer(size);
    const services = benchServices(size);
    const contestant = new Peer(this.#lab.namespace(`peer-${this.#count++}`));
    const wire = new Wire(this.#lab, contestant.namespace);
    this.#peers.set(sizeText(size), { contestant, size, services, wire });
    return contestant.load(services, this.#lab.scratch);
  }

  ours(size: ClusterSize): Loaded<Ours> {
    if (!this.#ours.has(sizeText(size))) this.loadOurs(size);
    const loaded = this.#ours.get(sizeText(size));
    if (loaded === undefined) throw new Error(`nothing is loaded at ${sizeText(size)}`);
    return loaded;
  }

  peer(size: ClusterSize): Loaded<Peer> {
    if (!this.#peers.has(sizeText(size))) this.loadPeer(size);
    const loaded = this.#peers.get(sizeText(size));
    if (loaded === undefined) throw new Error(`nothing of kube-proxy is loaded at ${sizeText(size)}`);
    return loaded;
  }

  #dropOurs(size: ClusterSize): void {
    const loaded = this.#ours.get(sizeText(size));
    if (loaded === undefined) return;
    this.#ours.delete(sizeText(size));
    loaded.contestant[Symbol.dispose]();
    this.#remove(loaded, "inet drawbridge");
  }

  #dropPeer(size: ClusterSize): void {
    const loaded = this.#peers.get(sizeText(size));
    if (loaded === undefined) return;
    this.#peers.delete(sizeText(size));
    this.#remove(loaded, "ip kube-proxy");
  }

  #remove({ contestant, wire }: Loaded<Ours | Peer>, table: string): void {
    wire[Symbol.dispose]();
    // The removal is awaited, or its end would fall into the next measurement.
    runNft(contestant.namespace, `add table ${table}\ndelete table ${table}\n`);
    this.#lab.remove(contestant.namespace);
    sleep(SETTLE_MILLISECONDS);
  }

  #close(): void {
    for (const { contestant, wire } of this.#ours.values()) {
      wire[Symbol.dispose]();
      contestant[Symbol.dispose]();
    }
    for (const { wire } of this.#peers.values()) wire[Symbol.dispose]();
  }
}
