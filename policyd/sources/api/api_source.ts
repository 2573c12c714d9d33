import type { ClusterObject, Kind } from "../../../objects/model.ts";
import type { ObjectSink, ObjectSource } from "../object_source.ts";
import { Collection } from "./collection.ts";
import { KindDefinition } from "./definition.ts";
import { Interner } from "./interner.ts";
import { Recovery } from "./recovery.ts";
import { Reflector, type ReflectorParts } from "./reflector.ts";
import { CLUSTER_POLICY_DEFINITION, type Resource, RESOURCES, versionsOf } from "./resources.ts";
import { REQUIRED, type Serving } from "./serving.ts";

/** A kind that is followed, and its objects in force. */
interface FollowedKind {
  readonly resource: Resource;
  readonly collection: Collection;
  readonly reflector: Reflector;
}

const OPTIONAL: Serving = { type: "unknown", versions: [0] };
/** Logged under a ClusterRole of an earlier release, which lacks this right. */
const UNSEEN =
  `customresourcedefinitions/${CLUSTER_POLICY_DEFINITION.objectName ?? ""}: policyd has no right to list and watch it; ` +
  "apply the ClusterRole of manifests/install.yaml: without it ClusterNetworkPolicies are in force up to a minute after " +
  "their definition is installed, not within seconds";
const RESTORED =
  "the API server has an older state than before, as after a restore of etcd; its objects are in force, and newer ones are not";
const DISPENSABLE: Serving = { type: "dispensable", versions: [0] };

/**
 * Follows the objects of an API server.
 *
 * While the server is unavailable all known objects stay, and requests are retried until it answers. Each object passes
 * the gate; one that the gate refuses stays in its last good version.
 *
 * ClusterNetworkPolicies may come, change their version and go with their CustomResourceDefinition, which is followed
 * as well. Without the right to read the definition, the answers to their own list decide.
 */
export class ApiSource implements ObjectSource {
  readonly #parts: ReflectorParts;
  readonly #notes: () => readonly string[];
  readonly #kinds: readonly FollowedKind[];
  readonly #definition: KindDefinition;
  readonly #definitions: Reflector;
  readonly #recovery: Recovery;
  #sink: ObjectSink | undefined;
  #reported: ReadonlySet<string> = new Set();
  /** The version of each kind that was reported last. */
  readonly #served = new Map<Kind, string>();
  readonly #restored = new Map<string, number>();
  #isSynced = false;

  /** @param notes returns further problems, which keep nothing from being followed yet */
  constructor(parts: ReflectorParts, notes: () => readonly string[] = () => []) {
    this.#parts = parts;
    this.#notes = notes;
    const interner = new Interner();
    const moved = (): void => this.#moved();
    this.#kinds = RESOURCES.map((resource) => this.#follow(resource, interner, moved));
    this.#definition = new KindDefinition(
      CLUSTER_POLICY_DEFINITION,
      this.#of("ClusterNetworkPolicy").resource,
      () => {
        this.#of("ClusterNetworkPolicy").reflector.redefine();
        this.#moved();
      },
      () => this.#sink?.noticed(UNSEEN),
    );
    this.#definitions = new Reflector(
      {
        versions: [CLUSTER_POLICY_DEFINITION],
        objects: this.#definition,
        flush: () => this.#definition.flush(),
        serving: () => DISPENSABLE,
        moved,
      },
      parts,
    );
    this.#recovery = new Recovery(parts, this.#reflectors);
  }

  start(sink: ObjectSink): void {
    this.#sink = sink;
    // The definition comes first: if the server answers in order, its versions are known before the first list.
    this.#definitions.start();
    for (const { reflector } of this.#kinds) reflector.start();
  }

  find(kind: Kind, key: string): ClusterObject | undefined {
    return this.#of(kind).collection.find(key);
  }

  count(kind: Kind): number {
    return this.#of(kind).collection.size;
  }

  problems(): readonly string[] {
    return [...this.#troubles(), ...this.#notes(), ...this.#kinds.flatMap(({ collection }) => collection.problems())];
  }

  /** Returns for how many seconds the objects of each kind may have been out of date, by the kind's name in RBAC. */
  staleness(): ReadonlyMap<string, number> {
    return new Map(this.#kinds.map(({ resource, reflector }) => [resource.name, reflector.staleness / 1000]));
  }

  /** Returns the number of lists that were older than the known objects, by the kind's name in RBAC. */
  restored(): ReadonlyMap<string, number> {
    return this.#restored;
  }

  stop(): void {
    this.#sink = undefined;
    this.#recovery.stop();
    for (const reflector of this.#reflectors) reflector.stop();
  }

  get #reflectors(): readonly Reflector[] {
    return [this.#definitions, ...this.#kinds.map(({ reflector }) => reflector)];
  }

  #follow(resource: Resource, interner: Interner, moved: () => void): FollowedKind {
    const collection = new Collection(resource, interner);
    const objects = { objects: collection, flush: () => this.#pass(resource.kind, collection) };
    const serving = (): Serving => this.#servingOf(resource);
    const restored = (): void => {
      this.#restored.set(resource.name, (this.#restored.get(resource.name) ?? 0) + 1);
      this.#sink?.sourceProblem(`${resource.name}: ${RESTORED}`);
    };
    return {
      resource,
      collection,
      reflector: new Reflector({ versions: versionsOf(resource), ...objects, serving, moved, restored }, this.#parts),
    };
  }

  #servingOf({ kind, isOptional }: Resource): Serving {
    if (!isOptional) return REQUIRED;
    if (kind !== "ClusterNetworkPolicy") return OPTIONAL;
    // While requests for the definition fail, no answer about it is expected.
    return this.#definition.serving(this.#definitions.trouble === undefined);
  }

  #of(kind: Kind): FollowedKind {
    const found = this.#kinds.find(({ resource }) => resource.kind === kind);
    if (found === undefined) throw new Error(`${kind} is not followed`);
    return found;
  }

  #pass(kind: Kind, collection: Collection): void {
    const changes = collection.takeChanges();
    if (changes.length > 0) this.#sink?.changed(changes);
    for (const { text, key } of collection.takeNewProblems()) this.#sink?.problem(text, kind, key);
  }

  #moved(): void {
    const sink = this.#sink;
    if (sink === undefined) return;
    this.#recovery.check();
    const troubles = this.#troubles();
    for (const text of troubles) if (!this.#reported.has(text)) sink.sourceProblem(text);
    this.#reported = troubles;
    for (const { resource, reflector } of this.#kinds) {
      if (resource.isOptional) this.#compareServed(resource.kind, reflector.servedVersion, sink);
    }
    if (this.#isSynced || !this.#kinds.every(({ reflector }) => reflector.isListed)) return;
    this.#isSynced = true;
    sink.synced();
  }

  #compareServed(kind: Kind, version: string | undefined, sink: ObjectSink): void {
    const before = this.#served.get(kind);
    if (version === before) return;
    if (version === undefined) {
      this.#served.delete(kind);
      return sink.noticed(`${kind}: the API server does not serve it any more; none is in force`);
    }
    this.#served.set(kind, version);
    const instead = before === undefined ? "" : ` instead of ${before}`;
    sink.noticed(`${kind}: the API server serves it as ${version}${instead}; what it has is in force`);
  }

  /** Returns each trouble once: a server that is unavailable is so for all kinds. */
  #troubles(): ReadonlySet<string> {
    const texts = this.#reflectors.flatMap(({ trouble }) => trouble ?? []);
    return new Set([...texts, ...(this.#definition.problem === undefined ? [] : [this.#definition.problem])]);
  }
}
