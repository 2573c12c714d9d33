import { namespaceOf } from "../../objects/namespace_of.ts";
import type { Service } from "../../objects/model.ts";
import { Budget, type BudgetBounds } from "../lib/budget.ts";
import { type ReachablePart, servedPart } from "./elements/service_size.ts";
import type { CompileContext } from "./rules/context.ts";

/** The state in which the compilation of a Service begins. */
export interface Begun {
  readonly size: number;
  readonly turn: number;
}

/**
 * The room that Services have in sets and maps, by their namespaces (SHARE-09): what may be served of each, the elements
 * that it uses, and which Services lack room.
 */
export class ServiceRoom {
  readonly #budget: Budget;
  readonly #parts = new Map<string, ReachablePart>();
  /** The number of elements of each Service, or if that is larger, of its frontends. */
  readonly #sizes = new Map<string, number>();
  /** The Services that are not served wholly for lack of room, each with the number of its turn, and the room for more. */
  readonly #short = new Map<string, { readonly turn: number; readonly needs: number }>();
  #lastTurn = 0;
  /** The turn that left room last. */
  #lastRelease = 0;

  constructor(bounds: BudgetBounds) {
    this.#budget = new Budget(bounds);
  }

  /** The parts of Services that may be served. */
  get parts(): ReadonlyMap<string, ReachablePart> {
    return this.#parts;
  }

  /** Reserves room for the frontends of a Service, undefined for one that is gone. @returns what may be served of it */
  cut(key: string, whole: Service | undefined, context: CompileContext): Service | undefined {
    if (whole === undefined) {
      this.#parts.delete(key);
      return undefined;
    }
    const part = servedPart(whole, { ...context, room: this.#roomOf(key) });
    this.#parts.set(key, part);
    this.#setSize(key, this.#sizes.get(key) ?? 0);
    return part.service;
  }

  /** Returns whether others have left room since a Service was cut, or taken more than was reserved for them. */
  isToBeCutAgain(key: string): boolean {
    const { count = 0, needs = Number.POSITIVE_INFINITY } = this.#parts.get(key) ?? {};
    const room = this.#roomOf(key);
    return count > room || room >= needs;
  }

  begin(key: string): Begun {
    return { size: this.#sizes.get(key) ?? 0, turn: this.#lastTurn };
  }

  /** Reserves the room that a Service may need while it is compiled. @returns the room that it has */
  reserve(key: string, rough: number): number {
    const room = Math.max(this.#parts.get(key)?.count ?? 0, this.#roomOf(key));
    this.#setSize(key, Math.min(room, rough));
    return room;
  }

  /**
   * Notes the size of a Service that was compiled.
   *
   * @returns the Services that may use room that was left, also itself
   */
  compiled(key: string, size: number, lacksRoom: boolean, begun: Begun): readonly string[] {
    const turn = ++this.#lastTurn;
    const needs = lacksRoom ? 0 : this.#parts.get(key)?.needs;
    if (needs === undefined) this.#short.delete(key);
    else this.#short.set(key, { turn, needs });
    const reserved = this.#sizes.get(key) ?? 0;
    this.#setSize(key, size);
    const now = this.#sizes.get(key) ?? 0;
    // Others may have left room since it looked.
    const isMore = needs !== undefined && needs <= this.#roomOf(key) && this.#lastRelease > begun.turn;
    const again = isMore ? [key] : [];
    // Those that were compiled meanwhile lacked what was only reserved; the others did without it before.
    if (now < begun.size) return [...again, ...this.#released(key)];
    return now < reserved ? [...again, ...this.#released(key, begun.turn)] : again;
  }

  /** Forgets a Service that is gone. @returns those that may use the room that it leaves */
  remove(key: string): readonly string[] {
    this.#short.delete(key);
    const before = this.#sizes.get(key) ?? 0;
    this.#setSize(key, 0);
    return before > 0 ? this.#released(key) : [];
  }

  /** Returns the Services that may use the room that a Service has left; only those since a turn. */
  #released(key: string, since = 0): readonly string[] {
    this.#lastRelease = this.#lastTurn;
    const others = [...this.#short].filter(([other, { turn }]) => other !== key && turn > since);
    return others.flatMap(([other, { needs }]) => (needs <= this.#roomOf(other) ? [other] : []));
  }

  /** Returns the number of elements that a Service may have beside the others. */
  #roomOf(key: string): number {
    return this.#budget.roomOf(namespaceOf(key), this.#sizes.get(key));
  }

  #setSize(key: string, elements: number): void {
    const size = Math.max(elements, this.#parts.get(key)?.count ?? 0);
    this.#budget.change(namespaceOf(key), size - (this.#sizes.get(key) ?? 0));
    if (size === 0) this.#sizes.delete(key);
    else this.#sizes.set(key, size);
  }
}
