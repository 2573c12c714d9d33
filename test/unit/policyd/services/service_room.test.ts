import assert from "node:assert/strict";
import type { Service } from "../../../../objects/model.ts";
import { ServiceRoom } from "../../../../policyd/services/service_room.ts";
import { readScenario } from "../../../support/services/scenario.ts";

const context = { nodeName: "n1", zone: undefined, primaryAddresses: [], refuseExternalIps: false };

/** A Service with 40 pairs of a port and an address, 4 of them at its cluster IP. */
function service(): Service {
  const externalIPs = Array.from({ length: 9 }, (_, i) => `203.0.113.${i}`);
  const ports = Array.from({ length: 4 }, (_, i) => ({ name: `p${i}`, port: i + 1 }));
  const spec = { clusterIP: "10.96.0.1", clusterIPs: ["10.96.0.1"], externalIPs, ports };
  const [object] = readScenario(JSON.stringify({ apiVersion: "v1", kind: "Service", metadata: { name: "s" }, spec }));
  assert.ok(object?.kind === "Service");
  return object;
}

describe("policyd/services/service_room", () => {
  it("SHARE-09: a Service whose room another has taken before its turn is cut again, and is served wholly when the room is left", () => {
    const room = new ServiceRoom({ share: 100, pool: 0 });
    const counts = (): readonly (number | undefined)[] => ["t/a", "t/b"].map((key) => room.parts.get(key)?.count);
    for (const key of ["t/a", "t/b"]) room.cut(key, service(), context);
    assert.deepEqual(counts(), [40, 40]);
    const ofA = room.begin("t/a");
    assert.equal(room.reserve("t/a", 80), 60, "the other one has reserved 40");
    // The elements of the last endpoints may exceed the room.
    assert.deepEqual(room.compiled("t/a", 61, false, ofA), []);
    assert.deepEqual([room.isToBeCutAgain("t/a"), room.isToBeCutAgain("t/b")], [false, true]);
    room.cut("t/b", service(), context);
    assert.deepEqual(counts(), [40, 4]);
    const ofB = room.begin("t/b");
    assert.equal(room.reserve("t/b", 8), 39);
    assert.deepEqual(room.compiled("t/b", 5, false, ofB), [], "it has the least that it needs");
    assert.ok(!room.isToBeCutAgain("t/b"));
    // One element less is just enough.
    assert.deepEqual(room.compiled("t/a", 60, false, room.begin("t/a")), ["t/b"]);
    assert.ok(room.isToBeCutAgain("t/b"));
    room.cut("t/b", service(), context);
    assert.deepEqual(counts(), [40, 40]);
    room.cut("t/a", undefined, context);
    assert.deepEqual(room.remove("t/a"), ["t/b"], "until it is compiled it may need room");
    assert.equal(room.reserve("t/b", 1000), 100);
  });

  it("SHARE-09: a Service with fewer elements than frontends leaves no room each time it is compiled", () => {
    const room = new ServiceRoom({ share: 80, pool: 0 });
    for (const key of ["t/a", "t/b"]) room.cut(key, service(), context);
    assert.deepEqual(room.compiled("t/a", 5, true, room.begin("t/a")), []);
    for (const key of ["t/b", "t/a", "t/b"]) {
      const begun = room.begin(key);
      room.reserve(key, 5);
      assert.deepEqual(room.compiled(key, 5, true, begun), [], `${key} would enqueue the other one for ever`);
    }
  });

  it("SHARE-09: external IPs that are refused need no room", () => {
    const room = new ServiceRoom({ share: 10, pool: 0 });
    room.cut("t/a", service(), { ...context, refuseExternalIps: true });
    const { count, problems } = room.parts.get("t/a") ?? assert.fail();
    assert.deepEqual([count, problems], [4, []]);
  });
});
