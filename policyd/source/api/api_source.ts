import type { ClusterObject, Kind } from "../../cluster/model.ts";
import type { ObjectChange, ObjectSink, ObjectSource } from "../object_source.ts";
import { Interner } from "./interner.ts";
import { Recovery } from "./recovery.ts";
import type { ReflectorParts } from "./reflector.ts";
import { Reflector } from "./reflector.ts";
import { RESOURCES } from "./resources.ts";

/**
 * The objects of an API server, followed as they change.
 *
 * While the server is away everything stays as it was, and it is asked again until it answers. An object of the server
 * counts as far as the gate takes it; one it refuses stays in its last good version.
 */
export class ApiSource implements ObjectSource {
  readonly #reflectors: readonly Reflector[];
  readonly #recovery: Recovery;
  #sink: ObjectSink | undefined;
  #told: ReadonlySet<string> = new Set();
  #isSynced = false;

  constructor(parts: Omit<ReflectorParts, "interner">) {
    const interner = new Interner();
    const listener = {
      changed: (changes: readonly ObjectChange[]) => this.#sink?.changed(changes),
      problem: (message: string, kind: Kind, key?: string) => this.#sink?.problem(message, kind, key),
      moved: () => this.#moved(),
    };
    this.#reflectors = RESOURCES.map((resource) => new Reflector(resource, { ...parts, interner }, listener));
    this.#recovery = new Recovery(parts, this.#reflectors);
  }

  start(sink: ObjectSink): void {
    this.#sink = sink;
    for (const reflector of this.#reflectors) reflector.start();
  }

  find(kind: Kind, key: string): ClusterObject | undefined {
    return this.#of(kind)?.objects.find(key);
  }

  count(kind: Kind): number {
    return this.#of(kind)?.objects.size ?? 0;
  }

  problems(): readonly string[] {
    return [...this.#troubles(), ...this.#reflectors.flatMap((reflector) => reflector.problems())];
  }

  /** For how many seconds what is known of each kind may have been old, by the name RBAC has for it. */
  staleness(): ReadonlyMap<string, number> {
    return new Map(this.#reflectors.map(({ resource, staleness }) => [resource.name, staleness / 1000]));
  }

  stop(): void {
    this.#sink = undefined;
    this.#recovery.stop();
    for (const reflector of this.#reflectors) reflector.stop();
  }

  #of(kind: Kind): Reflector | undefined {
    return this.#reflectors.find(({ resource }) => resource.kind === kind);
  }

  #moved(): void {
    const sink = this.#sink;
    if (sink === undefined) return;
    this.#recovery.check();
    const troubles = this.#troubles();
    for (const text of troubles) if (!this.#told.has(text)) sink.problem(text);
    this.#told = troubles;
    if (this.#isSynced || !this.#reflectors.every(({ isListed }) => isListed)) return;
    this.#isSynced = true;
    sink.synced();
  }

  /** Without repetitions: a server that is away is away for all kinds. */
  #troubles(): ReadonlySet<string> {
    return new Set(this.#reflectors.flatMap(({ trouble }) => trouble ?? []));
  }
}
