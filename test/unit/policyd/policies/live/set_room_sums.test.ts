import assert from "node:assert/strict";
import * as fc from "fast-check";
import { isHeld, newShared, SetRoom, type SharedSet } from "../../../../../policyd/policies/live/sets/set_room.ts";

const OWNERS = ["a", "b", "c"] as const;
const SHARE = 10;
const POOL = 15;
const MOST = 20;
const BOUNDS = { share: SHARE, pool: POOL };

const step = fc.record({
  set: fc.nat(3),
  owner: fc.constantFrom(...OWNERS),
  /** A holder comes or goes, or the set grows or shrinks by a number of elements and of identities. */
  action: fc.constantFrom("hold", "hold", "hold whole", "release", "grow", "grow", "grow", "shrink"),
  elements: fc.integer({ min: 1, max: 6 }),
  selections: fc.integer({ min: 1, max: 6 }),
});
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** Sets that share room, and the holders of each, the oldest first. */
class World {
  readonly room = new SetRoom({ set: MOST, elements: BOUNDS, selections: BOUNDS, sets: BOUNDS });
  readonly sets = [0, 1, 2, 3].map(() => newShared({ name: "", key: ["ipv4_addr"] }));
  readonly holders = this.sets.map((): (readonly [owner: string, isAllowing: boolean])[] => []);

  take({ set, owner, action, elements, selections }: Step): void {
    const [one, holders] = [this.sets[set], this.holders[set]];
    assert.ok(one !== undefined && holders !== undefined);
    if (action === "grow") this.#grow(one, elements, selections);
    else if (action === "shrink") {
      this.room.change(one, -Math.min(elements, one.size), -Math.min(selections, one.selections));
    } else if (action === "release") {
      const [name, isAllowing] = holders.shift() ?? [];
      if (name === undefined || isAllowing === undefined) return;
      if (this.room.release(one, { isAllowing }, name)) this.room.change(one, -one.size, -one.selections);
    } else {
      const isAllowing = action === "hold";
      this.room.hold(one, { isAllowing }, owner);
      holders.push([owner, isAllowing]);
    }
  }

  #grow(one: SharedSet, elements: number, selections: number): void {
    if (!isHeld(one)) return;
    const sums = { size: one.size + elements, selections: one.selections + selections };
    const isFree = (owner: string): boolean =>
      owner === one.payer
        ? elements <= this.#roomOf("size", owner) && selections <= this.#roomOf("selections", owner)
        : sums.size <= this.#roomOf("size", owner) && sums.selections <= this.#roomOf("selections", owner);
    const isSmall = Math.max(sums.size, sums.selections) <= MOST;
    const expected = one.payer === undefined || (isSmall && [...one.owners.keys()].some(isFree));
    assert.equal(this.room.hasRoom(one, elements, selections), expected);
    if (expected) this.room.change(one, elements, selections);
  }

  /** Returns how much an owner may still use, from what the sets that count for it have. */
  #roomOf(of: "size" | "selections", owner: string): number {
    const used = (one: string): number => this.sets.reduce((sum, set) => sum + (set.payer === one ? set[of] : 0), 0);
    const beyond = OWNERS.reduce((sum, one) => sum + Math.max(0, used(one) - SHARE), 0);
    return Math.max(0, SHARE - used(owner)) + Math.max(0, POOL - beyond);
  }
}

describe("the room of sets that namespaces share", () => {
  it("POL-93: after any holders and sizes each set counts for one of its owners, and may grow exactly where one has room", () => {
    const property = fc.property(fc.array(step, { minLength: 40, maxLength: 80, size: "max" }), (steps) => {
      const world = new World();
      for (const one of steps) {
        world.take(one);
        for (const [i, { payer, owners, wholeHolders }] of world.sets.entries()) {
          const isCounted = wholeHolders === 0 && owners.size > 0;
          assert.equal(payer !== undefined && owners.has(payer), isCounted);
          assert.equal(wholeHolders + owners.size > 0, world.holders[i]?.length !== 0);
        }
      }
    });
    fc.assert(property, { numRuns: 300 });
  });
});
