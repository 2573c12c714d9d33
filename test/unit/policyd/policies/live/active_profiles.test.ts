import assert from "node:assert/strict";
import type { DesiredElement } from "../../../../../policyd/ruleset/desired/desired_element.ts";
import type { NetworkPolicy } from "../../../../../objects/model.ts";
import { compileProfile } from "../../../../../policyd/policies/compile/compile_profile.ts";
import { MOST_PAIRS, MOST_PROFILE_PAIRS } from "../../../../../policyd/policies/policy_size.ts";
import { DEFAULT_POLICY_OPTIONS } from "../../../../../policyd/policies/compile/options.ts";
import type { Profile } from "../../../../../policyd/policies/compile/profile.ts";
import { type ActiveProfile, ActiveProfiles } from "../../../../../policyd/policies/live/sets/active_profiles.ts";
import { SetRoom } from "../../../../../policyd/policies/live/sets/set_room.ts";
import { objectOf } from "../../../../support/policy/live/objects.ts";

const BLOCKS = 2500;

/** Allows a number of blocks, no two of which touch, and nothing else. */
function allowing(name: string, blocks: number): NetworkPolicy {
  const from = Array.from({ length: blocks }, (_, index) => ({
    ipBlock: { cidr: `10.${index >> 14}.${(index >> 6) & 255}.${(index & 63) << 2}/32` },
  }));
  return objectOf("NetworkPolicy", {
    metadata: { name, namespace: "x" },
    spec: { podSelector: {}, ingress: blocks === 0 ? [] : [{ from }] },
  });
}

function profileOf(...policies: readonly NetworkPolicy[]): Profile {
  const profile = compileProfile("ingress", policies, []);
  assert.ok(profile !== undefined);
  return profile;
}

function setUp(room = new SetRoom()) {
  const claims = new Map<string, readonly DesiredElement[]>();
  const sets = new Map<string, readonly string[]>();
  const active = new ActiveProfiles({
    rules: {
      claim: (owner, wanted) => void (wanted.length === 0 ? claims.delete(owner) : claims.set(owner, wanted)),
      provide: (owner, objects) =>
        void sets.set(
          owner,
          objects.sets.map(({ name }) => name),
        ),
    },
    memberSets: {
      hold: () => {},
      missing: () => new Set(),
      filled: () => {},
      release: () => new Set(),
      room,
    },
    options: DEFAULT_POLICY_OPTIONS,
  });
  const claimed = (): number => [...claims.values()].reduce((sum, { length }) => sum + length, 0);
  const provided = (): number => [...sets.values()].flat().length;
  return { active, claims, claimed, provided };
}

describe("policyd/policies/live/active_profiles", () => {
  it("POL-28: a set of blocks that several profiles use is claimed once, in pieces, until the last profile goes", () => {
    const { active, claims, claimed, provided } = setUp();
    const shared = allowing("shared", BLOCKS);
    const profiles = ["a", "b", "c"].map((name) => profileOf(shared, allowing(name, 0)));
    assert.equal(new Set(profiles.map(({ key }) => key)).size, profiles.length);
    const held = profiles.map((profile) => active.hold(profile, () => {}));
    assert.deepEqual([claimed(), provided()], [BLOCKS, 1]);
    const pieces = [...claims.values()].map(({ length }) => length);
    assert.ok(pieces.length > 1 && Math.max(...pieces) <= 1000, pieces.join());
    for (const [index, profile] of held.entries()) {
      assert.deepEqual([claimed(), provided()], [BLOCKS, 1], `${index} released`);
      active.release(profile, () => {});
    }
    assert.deepEqual([claimed(), provided()], [0, 0]);
  });

  it("POL-73: beyond the pairs of a profile the last policies allow nothing, which is reported while it is so", () => {
    const { active } = setUp();
    const half = MOST_PROFILE_PAIRS / 2;
    assert.ok(half <= MOST_PAIRS);
    const fits = profileOf(allowing("a", half), allowing("b", half));
    const tooLarge = profileOf(allowing("c", 1), allowing("a", half), allowing("b", half));
    active.hold(fits, () => {});
    assert.deepEqual([active.restrictions().size, active.problems()], [0, []]);
    assert.deepEqual(tooLarge.isolation?.policies, ["x/a", "x/b", "x/c"]);
    assert.deepEqual(tooLarge.isolation.omitted, ["x/c"]);
    assert.deepEqual(new Set(tooLarge.isolation.rules.map(({ origin }) => origin.policy)), new Set(["x/a", "x/b"]));
    const held = active.hold(tooLarge, () => {});
    active.hold(tooLarge, () => {});
    const other = active.hold(
      profileOf(allowing("c", 1), allowing("a", half), allowing("b", half), allowing("d", 0)),
      () => {},
    );
    assert.deepEqual([...active.restrictions().keys()], ["x/c"]);
    assert.equal(active.problems().length, 2);
    for (const problem of active.problems()) {
      assert.match(problem, /^NetworkPolicies x\/c: ingress: .* more than 8192 pairs .* allows these pods nothing/);
    }
    active.release(held, () => {});
    active.release(held, () => {});
    assert.deepEqual([...active.restrictions().keys()], ["x/c"]);
    active.release(other, () => {});
    assert.deepEqual([active.restrictions().size, active.problems()], [0, []]);
  });

  it("POL-93: a list of policies that needs no more sets than the one it replaces has room once, and not again while the replaced one is there", () => {
    const plenty = { share: 100_000, pool: 0 };
    const { active } = setUp(
      new SetRoom({ set: plenty.share, elements: plenty, selections: plenty, sets: { share: 1, pool: 0 } }),
    );
    const hold = (blocks: number, replaced?: ActiveProfile): ActiveProfile =>
      active.hold(profileOf(allowing("a", 100 + blocks)), () => {}, replaced);
    const first = hold(1);
    const second = hold(2, first);
    assert.equal(active.closed, 0);
    const third = hold(3, second);
    assert.deepEqual([active.closed, [...active.restrictions().keys()]], [1, ["x/a"]]);
    active.release(first, () => {});
    const pods = [first, second, third].map((egress) => ({ wanted: { egress, ingress: undefined } }));
    assert.deepEqual(active.takeOpenable(pods), [], "the second is still there");
    active.release(second, () => {});
    assert.deepEqual([active.takeOpenable(pods), active.takeOpenable(pods)], [pods.slice(2), []]);
    assert.notEqual(hold(3, third), third);
    active.release(third, () => {});
    assert.deepEqual([active.closed, active.restrictions().size], [0, 0]);
  });
});
