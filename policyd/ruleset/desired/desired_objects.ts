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

/** The sets and chains of one owner, all in one table. */
interface Holding {
  readonly sets: ReadonlyMap<string, SetDefinition>;
  readonly chains: ReadonlyMap<string, Chain>;
}

/** The sets and chains that our tables should have: those of the schema, and those that owners provide. */
export class DesiredObjects {
  readonly #tables: ReadonlyMap<TableKey, { readonly sets: Objects<SetDefinition>; readonly chains: Objects<Chain> }>;
  readonly #owners = new Map<string, Holding>();

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
  replace(owner: string, { table: reference, sets, chains }: ProvidedObjects): readonly ObjectPlace[] {
    const table = tableKey(reference);
    const objects = this.#tables.get(table);
    if (objects === undefined) throw new RangeError(`${owner} provides objects in ${table}; expected a table of ours`);
    const before = this.#owners.get(owner);
    const next: Holding = { sets: byName(sets), chains: byName(chains) };
    if (next.sets.size + next.chains.size === 0) this.#owners.delete(owner);
    else this.#owners.set(owner, next);
    return [
      ...exchange(objects.sets, before?.sets, next.sets).map((name): ObjectPlace => ({ table, kind: "set", name })),
      ...exchange(objects.chains, before?.chains, next.chains).map((name): ObjectPlace => ({
        table,
        kind: "chain",
        name,
      })),
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

function byName<T extends { readonly name: string }>(objects: readonly T[]): ReadonlyMap<string, T> {
  return new Map(objects.map((object) => [object.name, object]));
}

/** Replaces an owner's objects; those in both lists stay. @returns the names that are added or removed */
function exchange<T extends { readonly name: string }>(
  objects: Objects<T>,
  before: ReadonlyMap<string, T> | undefined,
  next: ReadonlyMap<string, T>,
): readonly string[] {
  const changed: string[] = [];
  for (const object of next.values()) {
    if (before?.has(object.name) !== true && objects.enter(object)) changed.push(object.name);
  }
  for (const name of before?.keys() ?? []) if (!next.has(name) && objects.leave(name)) changed.push(name);
  return changed;
}
