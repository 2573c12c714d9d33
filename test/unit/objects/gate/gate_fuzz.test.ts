import assert from "node:assert/strict";
import fc from "fast-check";
import { judge } from "../../../../objects/gate/gate.ts";
import { KINDS } from "../../../../objects/model.ts";
import { manifest } from "./objects.ts";
import { countedSeed, roundsFor } from "../../../support/long_form.ts";

/** Names of fields that the gates read, so that hostile values are placed where they are read. */
const FIELDS =
  "labels annotations spec status podIPs addresses endpoints ports conditions hints ingress egress from _from to podSelector matchLabels matchExpressions ipBlock except namespaces pods nodes networks protocols tcp destinationPort clusterIPs externalIPs cidrs".split(
    " ",
  );

const hostile = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.jsonValue({ maxDepth: 1 }),
    fc.constantFrom("10.0.0.1", "fd00::1", "10.0.0.0/8", "TCP", "None", -1, 2 ** 53, "__proto__", "\u0000"),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(fc.oneof(fc.constantFrom(...FIELDS), fc.string({ maxLength: 5 })), tie("value"), { maxKeys: 4 }),
  ),
})).value;

function isDeepFrozen(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return true;
  return Object.isFrozen(value) && Object.values(value).every(isDeepFrozen);
}

const VALUES = roundsFor("values", 1500, 20_000);

describe("objects/gate with hostile objects", () => {
  it("DAEMON-01: the gate gives a verdict for every value, and what it accepts is deeply frozen", () => {
    let used = 0;
    fc.assert(
      fc.property(fc.constantFrom(...KINDS), hostile, hostile, hostile, (kind, spec, status, labels) => {
        const parts = { spec, status, addressType: "IPv4", endpoints: spec, ports: status };
        const verdict = judge(manifest(kind, parts, { labels }));
        assert.notEqual(verdict.type, "ignored");
        if (verdict.type === "accepted") {
          used++;
          assert.ok(isDeepFrozen(verdict.object));
          for (const problem of verdict.problems) assert.ok(problem.startsWith(`${kind} `), problem);
        }
      }),
      { numRuns: VALUES, seed: countedSeed() },
    );
    assert.ok(used > VALUES / 50, `only ${used} of ${VALUES} were accepted: nothing was tested`);
  });

  it("DAEMON-01: the gate gives a verdict for nesting far beyond any real object", () => {
    const deep: unknown = JSON.parse(`${'{"a":['.repeat(50_000)}${"]}".repeat(50_000)}`);
    for (const kind of KINDS) assert.notEqual(judge(manifest(kind, { spec: deep, status: deep })).type, "ignored");
    assert.equal(judge(manifest("Pod", { spec: { nodeName: deep } })).type, "refused");
  });
});
