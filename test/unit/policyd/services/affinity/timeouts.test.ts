import assert from "node:assert/strict";
import fc from "fast-check";
import { keptTimeouts, MOST_TIMEOUTS, timeoutFor, usedTimeout } from "../../../../../objects/timeout_choice.ts";
import { TimeoutClasses, type TimeoutRules } from "../../../../../policyd/services/affinity/timeout_numbers.ts";
import { applyAffinity } from "../../../../../objects/semantics/services/selection.ts";
import { readScenario } from "../../../../support/services/scenario.ts";
import type { Statement } from "../../../../../kernel/nftables/model/statement.ts";

const anyTimeout = fc.oneof(
  fc.integer({ min: 1, max: 86_400 }),
  fc.integer({ min: 1, max: 150 }),
  fc.integer({ min: 1, max: 1440 }).map((minutes) => 60 * minutes),
);

/** A node's timeout rules, as they change. */
class Rules {
  readonly #rules = new Map<number, TimeoutRules>();

  /** @returns the timeouts that each number's rules write */
  take(classes: TimeoutClasses): ReadonlyMap<unknown, readonly (number | undefined)[]> {
    for (const one of classes.takeRules()) {
      if (one.chains.length === 0) this.#rules.delete(one.seconds);
      else this.#rules.set(one.seconds, one);
    }
    const all = [...this.#rules.values()];
    const numbers = all.map(({ chains, claims }) => {
      const targets = claims.map(({ element: { data } }) =>
        data !== undefined && "kind" in data && "chain" in data ? data.chain : "",
      );
      assert.deepEqual(
        targets,
        chains.map(({ name }) => name),
      );
      const keys = new Set(claims.map(({ element: { key } }) => key[0]));
      assert.equal(keys.size, 1, "two chains of a timeout have two numbers");
      const updates = chains.flatMap(({ rules }) => rules.flatMap(({ statements }) => statements.filter(isUpdate)));
      return [[...keys][0], updates.map(({ timeout }) => timeout)] as const;
    });
    assert.equal(new Set(numbers.map(([number]) => number)).size, numbers.length, "two timeouts have one number");
    return new Map(numbers);
  }
}

function isUpdate(one: Statement): one is Extract<Statement, { kind: "dynamic" }> {
  return one.kind === "dynamic";
}

describe("policyd/services: timeouts of session affinity", () => {
  it("SA-02 SA-10: up to 127 different timeouts are exact, and with more no client stays longer than its Service says", () => {
    fc.assert(
      fc.property(fc.uniqueArray(anyTimeout, { minLength: 1, maxLength: 400, size: "max" }), (used) => {
        const kept = keptTimeouts(used);
        assert.equal(kept.length, Math.min(used.length, MOST_TIMEOUTS));
        assert.deepEqual(keptTimeouts(used.toReversed()), kept);
        for (const seconds of used) {
          const served = timeoutFor(seconds, kept);
          assert.ok(kept.includes(served) && served <= seconds, `${seconds} s as ${served} s`);
          assert.ok(!kept.some((other) => other > served && other <= seconds), `${seconds} s as ${served} s`);
          if (used.length <= MOST_TIMEOUTS) assert.equal(served, seconds);
        }
      }),
    );
  });

  it("SA-10: of too many timeouts, whole hours and minutes are kept before odd ones", () => {
    const odd = Array.from({ length: 200 }, (_, i) => i + 61).filter((seconds) => seconds % 60 > 0);
    const kept = keptTimeouts([10_800, 300, 3600, ...odd]);
    for (const seconds of [61, 300, 3600, 10_800]) assert.ok(kept.includes(seconds), `${seconds} s`);
    assert.equal(
      timeoutFor(odd.at(-1) ?? 0, kept),
      kept.findLast((seconds) => seconds < 300),
    );
  });

  it("SA-10: a Service without a cluster IP uses no timeout", () => {
    assert.equal(usedTimeout({ affinitySeconds: 7, clusterIps: [] }), undefined);
  });

  it("SA-10: a Service without a timeout has the number 0, to which no rule leads", () => {
    const classes = new TimeoutClasses();
    classes.replace([["x/a", 60]]);
    const [{ number: none }, { number }] = [classes.of(undefined), classes.of(60)];
    assert.equal(none, 0);
    assert.ok(new Rules().take(classes).has(number) && number > 0);
  });

  it("SA-10: the evaluator names the timeout that clients get, beyond 127 the next shorter one", () => {
    const [template] = readScenario(
      "{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}}",
    );
    assert.ok(template?.kind === "Service");
    const world = (count: number) => ({
      services: Array.from({ length: count }, (_, i) => ({ ...template, affinitySeconds: 1001 + i })),
    });
    const timeoutOf = (count: number, affinitySeconds: number): number | undefined => {
      const nobody = { selected: [], omitted: [], hints: { type: "unused", because: "no ready endpoint" } } as const;
      const { affinity } = applyAffinity(world(count), { ...template, affinitySeconds }, nobody, undefined);
      return affinity.type === "none" ? undefined : affinity.timeoutSeconds;
    };
    assert.equal(timeoutOf(127, 1127), 1127);
    assert.equal(timeoutOf(128, 1128), 1127);
    assert.equal(timeoutOf(128, 1020), 1020);
  });

  it("SA-02 SA-10: after any changes, each Service's number leads to rules with its timeout, and changed Services are reported", () => {
    const anyService = fc.integer({ min: 0, max: 300 }).map((number) => `default/s${number}`);
    const anyChange = fc.tuple(
      anyService,
      fc.oneof(anyTimeout, fc.integer({ min: 1, max: 200 }), fc.constant(undefined)),
    );
    const anyBatch = fc.array(anyChange, { maxLength: 200, size: "max" });
    fc.assert(
      fc.property(fc.array(fc.tuple(anyBatch, fc.boolean()), { minLength: 1, maxLength: 8 }), (batches) => {
        const classes = new TimeoutClasses();
        const rules = new Rules();
        const wanted = new Map<string, number>();
        const served = new Map<string, string>();
        for (const [batch, isReleased] of batches) {
          const changed = classes.replace(batch);
          for (const [key, seconds] of batch) {
            if (seconds === undefined) wanted.delete(key);
            else wanted.set(key, seconds);
          }
          const kept = keptTimeouts(wanted.values());
          const written = rules.take(classes);
          assert.ok(written.size <= MOST_TIMEOUTS);
          const touched = new Set(batch.map(([key]) => key));
          for (const [key, seconds] of wanted) {
            const found = classes.of(seconds);
            assert.equal(found.seconds, timeoutFor(seconds, kept));
            assert.deepEqual(
              written.get(found.number),
              Array.from({ length: 3 }, () => 1000 * found.seconds),
            );
            const text = `${found.number} ${found.seconds}`;
            if (!touched.has(key) && !changed.has(key)) assert.equal(text, served.get(key), key);
            served.set(key, text);
          }
          if (!isReleased) continue;
          classes.release();
          assert.equal(rules.take(classes).size, kept.length);
        }
      }),
    );
  });

  it("SA-10: the rules of an unused timeout stay until they are released", () => {
    const [classes, rules] = [new TimeoutClasses(), new Rules()];
    classes.replace([["default/a", 125]]);
    const { number } = classes.of(125);
    classes.replace([["default/a", 126]]);
    assert.deepEqual([...rules.take(classes).keys()], [number, classes.of(126).number]);
    assert.equal(classes.hasLeaving, true);
    classes.release();
    assert.deepEqual([...rules.take(classes).keys()], [classes.of(126).number]);
    assert.equal(classes.hasLeaving, false);
    assert.throws(() => classes.of(125), RangeError);
  });

  it("SA-08 SA-10: a daemon that starts again gives the usual timeouts their former numbers, in any order of Services", () => {
    const numbersOf = (timeouts: readonly number[]): readonly number[] => {
      const classes = new TimeoutClasses();
      for (const seconds of timeouts) classes.replace([[`default/s${seconds}`, seconds]]);
      return timeouts.map((seconds) => classes.of(seconds).number);
    };
    const usual = [10_800, 60, 300, 3600, 125];
    assert.deepEqual(numbersOf(usual.toReversed()).toReversed(), numbersOf(usual));
    assert.equal(new Set(numbersOf(usual)).size, usual.length);
  });
});
