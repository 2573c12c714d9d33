import type { Labels, LabelSelector } from "../../../../objects/model.ts";
import { nameLabel } from "../../../../objects/name.ts";
import { isSelected } from "../../compile/selector.ts";
import type { NodeGroup, PodGroup } from "../../compile/profile.ts";
import { LabelIndex } from "./label_index.ts";

/** Members that no selector distinguishes: pods of one namespace with the same labels, or nodes with the same. */
export interface Identity {
  /** Undefined for a node. */
  readonly namespace: string | undefined;
  readonly labels: Labels;
  /** The keys of its active groups. */
  readonly groups: ReadonlySet<string>;
  /** The keys of its members, as the caller enters them. */
  readonly members: ReadonlySet<string>;
}

interface OwnIdentity extends Identity {
  readonly groups: Set<string>;
  readonly members: Set<string>;
  readonly entry: NamespaceEntry;
  readonly signature: string;
}

interface NamespaceEntry {
  readonly name: string;
  labels: Labels;
  /** Whether these are the labels of a Namespace, even of one that is gone. */
  isReported: boolean;
  isObject: boolean;
  /** Holders that need its labels even if it is gone and has no pods left. */
  readonly holders: Set<string>;
  readonly identities: Map<string, OwnIdentity>;
  readonly scopes: Set<Scope>;
}

/** The namespaces in which groups select: one by its name, or those that a selector selects. */
interface Scope {
  readonly key: string;
  readonly namespace: string | undefined;
  readonly selector: LabelSelector | undefined;
  readonly namespaces: Set<NamespaceEntry>;
  readonly groups: LabelIndex<ActiveGroup>;
}

interface ActiveGroup {
  readonly key: string;
  /** Undefined selects all members of the scope. */
  readonly selector: LabelSelector | undefined;
  readonly scope: Scope;
  readonly identities: Set<OwnIdentity>;
  /** Whether it has all identities that it selects: there was room for each. */
  isComplete: boolean;
}

/** The room for the identities in groups, by the groups' keys. */
export interface GroupRoom {
  /** @returns whether one more may enter, which it then does */
  enters(key: string): boolean;
  /** Notes that one has left. */
  left(key: string): void;
}

/** The nodes stand in a namespace of their own, whose name no other can have and which no selector selects. */
const NODES = "nodes of the cluster";

/**
 * The pods and nodes of all groups that are in use. A change of a member costs the groups that select in its namespace,
 * a change of a namespace those whose scope it enters or leaves, a new group the identities of its namespaces.
 */
export class GroupIndex {
  /** The room for identities that enter active groups one by one. */
  room: GroupRoom = { enters: () => true, left: () => {} };
  readonly #namespaces = new Map<string, NamespaceEntry>();
  readonly #scopes = new Map<string, Scope>();
  readonly #groups = new Map<string, ActiveGroup>();
  /** By the keys of pods and nodes. */
  readonly #members = new Map<string, OwnIdentity>();

  /** The labels of a namespace as selectors see them. */
  namespaceLabels(name: string): Labels {
    return this.#namespaces.get(name)?.labels ?? nameLabel(name);
  }

  /** Whether these are all of its labels: its Namespace has arrived. */
  isNamespaceReported(name: string): boolean {
    return this.#namespaces.get(name)?.isReported === true;
  }

  /**
   * Sets the labels of a Namespace, undefined for one that is gone. Its pods and holders may outlive it, and keep its
   * last labels (CVE-2024-7598).
   *
   * @returns the identities whose groups have changed
   */
  setNamespace(name: string, labels: Labels | undefined): ReadonlySet<Identity> {
    const entry = this.#namespace(name);
    entry.isObject = labels !== undefined;
    if (labels !== undefined) {
      entry.labels = labels;
      entry.isReported = true;
    }
    const changed = new Set<Identity>();
    for (const scope of this.#scopes.values()) {
      if (scope.selector === undefined) continue;
      const isIn = isSelected(scope.selector, entry.labels);
      if (isIn === entry.scopes.has(scope)) continue;
      if (isIn) join(scope, entry);
      else part(scope, entry);
      for (const identity of entry.identities.values()) {
        for (const active of scope.groups.candidates(identity.labels)) {
          if (isIn ? this.#enter(active, identity) : this.#leave(active, identity)) changed.add(identity);
        }
      }
    }
    this.#forgetEmpty(entry);
    return changed;
  }

  /** Keeps the last labels of a namespace until {@link release}. */
  hold(name: string, holder: string): void {
    this.#namespace(name).holders.add(holder);
  }

  /** Does nothing for undefined, the namespace of an attachment without a pod. */
  release(name: string | undefined, holder: string): void {
    const entry = name === undefined ? undefined : this.#namespaces.get(name);
    if (entry?.holders.delete(holder) === true) this.#forgetEmpty(entry);
  }

  /** Adds a pod, or a node where there is no namespace, or changes its labels. @returns its identity */
  add(member: string, namespace: string | undefined, labels: Labels): Identity {
    const before = this.#members.get(member);
    const entry = this.#namespace(namespace ?? NODES);
    const signature = signatureOf(labels);
    let identity = entry.identities.get(signature);
    if (identity === undefined) {
      identity = { namespace, entry, labels, signature, groups: new Set(), members: new Set() };
      entry.identities.set(signature, identity);
      for (const scope of entry.scopes)
        for (const active of scope.groups.candidates(labels)) this.#enter(active, identity);
    }
    identity.members.add(member);
    this.#members.set(member, identity);
    // Only after that: a namespace that is gone would forget its labels with its last pod.
    if (before !== undefined && before !== identity) this.#takeOut(before, member);
    return identity;
  }

  /** Removes a pod or a node; does nothing for an unknown one. */
  remove(member: string): void {
    const identity = this.#members.get(member);
    this.#members.delete(member);
    if (identity !== undefined) this.#takeOut(identity, member);
  }

  /** Returns undefined for an unknown member. */
  identityOf(member: string): Identity | undefined {
    return this.#members.get(member);
  }

  /**
   * Begins to follow groups, or completes them. For thousands at once, each pod is checked once instead of once for each.
   *
   * @param most the number of identities, each counted for each of its groups, that may enter them
   * @returns how many entered; undefined if that would be more, and then none did, and no new group is followed
   */
  activate(groups: readonly (PodGroup | NodeGroup)[], most = Number.POSITIVE_INFINITY): number | undefined {
    const added = new Map<Scope, LabelIndex<ActiveGroup>>();
    const unknown = groups.filter(({ key }) => !this.#groups.has(key));
    const actives: ActiveGroup[] = [];
    for (const [group, scope] of this.#scopesOf(groups)) {
      const { key } = group;
      const selector = group.type === "nodes" ? group.selector : group.podSelector;
      const active = this.#groups.get(key) ?? { key, selector, scope, identities: new Set(), isComplete: false };
      this.#groups.set(key, active);
      actives.push(active);
      // Nearly always all groups of a scope are new, and one index suffices.
      const own = added.get(scope) ?? (scope.groups.isEmpty ? scope.groups : groupIndex());
      added.set(scope, own);
      own.add(active);
      if (own !== scope.groups) scope.groups.add(active);
    }
    const entered = enterAll(added, most);
    if (entered === undefined) for (const group of unknown) this.deactivate(group);
    else for (const active of actives) active.isComplete = true;
    return entered;
  }

  /** Stops following a group. */
  deactivate({ key }: PodGroup | NodeGroup): void {
    const active = this.#groups.get(key);
    if (active === undefined) return;
    for (const identity of active.identities) identity.groups.delete(key);
    this.#groups.delete(key);
    const { scope } = active;
    scope.groups.delete(active);
    if (!scope.groups.isEmpty) return;
    this.#scopes.delete(scope.key);
    for (const entry of scope.namespaces) entry.scopes.delete(scope);
  }

  /** The identities in an active group. */
  identitiesOf(key: string): ReadonlySet<Identity> {
    return this.#groups.get(key)?.identities ?? NO_IDENTITIES;
  }

  /** All identities. */
  *identities(): Iterable<Identity> {
    for (const { identities } of this.#namespaces.values()) yield* identities.values();
  }

  /** Whether a group is followed and has all identities that it selects. */
  isComplete(key: string): boolean {
    return this.#groups.get(key)?.isComplete === true;
  }

  /** @returns whether the identity is in the group now */
  #enter(active: ActiveGroup, identity: OwnIdentity): boolean {
    if (!selects(active, identity)) return false;
    if (this.room.enters(active.key)) put(active, identity);
    else active.isComplete = false;
    return active.identities.has(identity);
  }

  /** @returns whether the identity was in the group before */
  #leave({ key, identities }: ActiveGroup, identity: OwnIdentity): boolean {
    identity.groups.delete(key);
    if (!identities.delete(identity)) return false;
    this.room.left(key);
    return true;
  }

  #takeOut(identity: OwnIdentity, member: string): void {
    identity.members.delete(member);
    if (identity.members.size > 0) return;
    for (const key of identity.groups) {
      const active = this.#groups.get(key);
      if (active !== undefined) this.#leave(active, identity);
    }
    identity.entry.identities.delete(identity.signature);
    this.#forgetEmpty(identity.entry);
  }

  /** Returns the scope of each group, with the namespaces of new scopes. */
  #scopesOf(groups: readonly (PodGroup | NodeGroup)[]): ReadonlyMap<PodGroup | NodeGroup, Scope> {
    const scopes = new Map<PodGroup | NodeGroup, Scope>();
    const added = new LabelIndex<Scope>(({ selector }) => selector);
    for (const group of groups) {
      const ofNodes = { namespace: NODES, namespaceSelector: undefined };
      const { namespace, namespaceSelector: selector } = group.type === "nodes" ? ofNodes : group;
      const key = selector === undefined ? `name ${namespace}` : `selector ${JSON.stringify(selector)}`;
      const scope = this.#scopes.get(key) ?? { key, namespace, selector, namespaces: new Set(), groups: groupIndex() };
      scopes.set(group, scope);
      if (this.#scopes.has(key)) continue;
      this.#scopes.set(key, scope);
      if (selector !== undefined) added.add(scope);
      const own = namespace === undefined ? undefined : this.#namespaces.get(namespace);
      if (own !== undefined) join(scope, own);
    }
    if (added.isEmpty) return scopes;
    for (const entry of this.#namespaces.values()) {
      for (const scope of added.candidates(entry.labels)) if (covers(scope, entry)) join(scope, entry);
    }
    return scopes;
  }

  #namespace(name: string): NamespaceEntry {
    const known = this.#namespaces.get(name);
    if (known !== undefined) return known;
    const entry: NamespaceEntry = {
      name,
      labels: nameLabel(name),
      isReported: false,
      isObject: false,
      holders: new Set(),
      identities: new Map(),
      scopes: new Set(),
    };
    this.#namespaces.set(name, entry);
    for (const scope of this.#scopes.values()) if (covers(scope, entry)) join(scope, entry);
    return entry;
  }

  #forgetEmpty(entry: NamespaceEntry): void {
    if (entry.isObject || entry.identities.size + entry.holders.size > 0) return;
    for (const scope of entry.scopes) scope.namespaces.delete(entry);
    this.#namespaces.delete(entry.name);
  }
}

const NO_IDENTITIES: ReadonlySet<Identity> = new Set();

function groupIndex(): LabelIndex<ActiveGroup> {
  return new LabelIndex(({ selector }) => selector);
}

/** Returns the labels as a string. They are sorted by key, and neither a key nor a value contains a line end. */
function signatureOf(labels: Labels): string {
  const parts: string[] = [];
  for (const key in labels) parts.push(key, labels[key] ?? "");
  // A flat string: a concatenated one keeps its parts in memory.
  return parts.join("\n");
}

function covers({ selector, namespace }: Scope, { name, labels }: NamespaceEntry): boolean {
  return selector === undefined ? namespace === name : name !== NODES && isSelected(selector, labels);
}

function join(scope: Scope, entry: NamespaceEntry): void {
  scope.namespaces.add(entry);
  entry.scopes.add(scope);
}

function part(scope: Scope, entry: NamespaceEntry): void {
  scope.namespaces.delete(entry);
  entry.scopes.delete(scope);
}

/**
 * Enters identities into new groups after their number is known, so that too many are refused before sets are filled.
 *
 * @returns how many; undefined when that would be more than `most`
 */
function enterAll(added: ReadonlyMap<Scope, LabelIndex<ActiveGroup>>, most: number): number | undefined {
  const entering: { readonly identity: OwnIdentity; readonly into: readonly ActiveGroup[] }[] = [];
  let entered = 0;
  // A check that finds nothing costs time, but no memory.
  let checks = 4 * most;
  for (const [scope, own] of added) {
    for (const identity of [...scope.namespaces].flatMap(({ identities }) => [...identities.values()])) {
      const into: ActiveGroup[] = [];
      for (const active of own.candidates(identity.labels)) {
        if (!active.identities.has(identity) && selects(active, identity)) into.push(active);
        if (entered + into.length > most || --checks < 0) return undefined;
      }
      entered += into.length;
      if (into.length > 0) entering.push({ identity, into });
    }
  }
  for (const { identity, into } of entering) for (const active of into) put(active, identity);
  return entered;
}

function selects({ selector }: ActiveGroup, { labels }: OwnIdentity): boolean {
  return selector === undefined || isSelected(selector, labels);
}

function put({ key, identities }: ActiveGroup, identity: OwnIdentity): void {
  identities.add(identity);
  identity.groups.add(key);
}
