import type { Chain, SetDefinition, Table, TableReference } from "../../../kernel/nftables/model/object.ts";
import { type TableKey, tableKey } from "./desired_element.ts";

/**
 * Sets and chains that somebody wants in one of our tables, in addition to those of the schema.
 *
 * The name stands for the content of the object (a hash of it): everybody who provides a name provides the same object.
 */
export interface ProvidedObjects {
  readonly table: TableReference;
  readonly sets: readonly SetDefinition[];
  /** Their rules may name each other and any set of the table. A hook is added when everything it names exists. */
  readonly chains: readonly Chain[];
}

/** Names one set or chain. */
export interface ObjectPlace {
  readonly table: TableKey;
  readonly kind: "set" | "chain";
  readonly name: string;
}

interface Provided<T> {
  readonly object: T;
  owners: number;
}

/** Objects of one kind of one table. */
class Objects<T extends { readonly name: string }> {
  readonly #fixed: ReadonlyMap<string, T>;
  readonly #provided = new Map<string, Provided<T>>();

  constructor(fixed: readonly T[]) {
    this.#fixed = new Map(fixed.map((object) => [object.name, object]));
  }

  get(name: string): T | undefined {
    return this.#fixed.get(name) ?? this.#provided.get(name)?.object;
  }

  isProvided(name: string): boolean {
    return this.#provided.has(name);
  }

  *values(): Iterable<T> {
    yield* this.#fixed.values();
    for (const { object } of this.#provided.values()) yield object;
  }

  get providedCount(): number {
    return this.#provided.size;
  }

  /** @returns whether the object is new */
  enter(object: T): boolean {
    const provided = this.#provided.get(object.name);
    if (provided !== undefined) provided.owners++;
    else this.#provided.set(object.name, { object, owners: 1 });
    return provided === undefined;
  }

  /** @returns whether that was the last owner */
  leave(name: string): boolean {
    const provided = this.#provided.get(name);
    if (provided === undefined || --provided.owners > 0) return false;
    this.#provided.delete(name);
    return true;
  }
}

/** The sets and chains that our tables should have: those of the schema, and those that owners provide. */
export class DesiredObjects {
  readonly #tables: ReadonlyMap<TableKey, { readonly sets: Objects<SetDefinition>; readonly chains: Objects<Chain> }>;
  readonly #owners = new Map<string, ProvidedObjects>();

  constructor(tables: readonly Table[]) {
    this.#tables = new Map(
      tables.map((table) => [
        tableKey(table),
        { sets: new Objects(table.sets), chains: new Objects<Chain>(table.chains) },
      ]),
    );
  }

  /**
   * Sets what an owner provides; empty lists forget the owner.
   *
   * @returns the objects that are added or removed by this: those that nobody else provides
   */
  replace(owner: string, provided: ProvidedObjects): readonly ObjectPlace[] {
    const table = tableKey(provided.table);
    const objects = this.#tables.get(table);
    if (objects === undefined) throw new RangeError(`${owner} provides objects in ${table}; expected a table of ours`);
    const before = this.#owners.get(owner);
    if (provided.sets.length + provided.chains.length === 0) this.#owners.delete(owner);
    else this.#owners.set(owner, provided);
    const sets = exchange(objects.sets, before?.sets, provided.sets);
    const chains = exchange(objects.chains, before?.chains, provided.chains);
    return [
      ...sets.map((name) => ({ table, kind: "set", name }) as const),
      ...chains.map((name) => ({ table, kind: "chain", name }) as const),
    ];
  }

  set(table: TableKey, name: string): SetDefinition | undefined {
    return this.#tables.get(table)?.sets.get(name);
  }

  chain(table: TableKey, name: string): Chain | undefined {
    return this.#tables.get(table)?.chains.get(name);
  }

  /** Whether an object is desired but not part of the schema. */
  isProvided({ table, kind, name }: ObjectPlace): boolean {
    const objects = this.#tables.get(table);
    return (kind === "set" ? objects?.sets : objects?.chains)?.isProvided(name) === true;
  }

  /** All sets of a table. */
  sets(table: TableKey): Iterable<SetDefinition> {
    return this.#tables.get(table)?.sets.values() ?? [];
  }

  /** All chains of a table. */
  chains(table: TableKey): Iterable<Chain> {
    return this.#tables.get(table)?.chains.values() ?? [];
  }

  /** The number of provided objects. */
  get providedCount(): number {
    let count = 0;
    for (const { sets, chains } of this.#tables.values()) count += sets.providedCount + chains.providedCount;
    return count;
  }
}

/** Replaces an owner's objects; those in both lists stay. @returns the names that are added or removed */
function exchange<T extends { readonly name: string }>(
  objects: Objects<T>,
  before: readonly T[] = [],
  next: readonly T[],
): readonly string[] {
  const old = new Set(before.map(({ name }) => name));
  const wanted = new Map(next.map((object) => [object.name, object]));
  const added = [...wanted.values()].filter((object) => !old.has(object.name) && objects.enter(object));
  const removed = [...old].filter((name) => !wanted.has(name) && objects.leave(name));
  return [...added.map(({ name }) => name), ...removed];
}
