import assert from "node:assert/strict";
import { MOST_PROBLEMS } from "../../../../objects/problem_list.ts";
import { accepted, manifest } from "./objects.ts";

/** The problems of a Service with this number of invalid addresses. */
function problemsOf(count: number): readonly string[] {
  const externalIPs = Array.from({ length: count }, (_, i) => `none-${i}`);
  return accepted(manifest("Service", { spec: { externalIPs } })).problems;
}

describe("objects/gate: the problems of one object", () => {
  it("DAEMON-01: the first hundred problems of an object are reported one by one, of the others only their number", () => {
    const most = problemsOf(MOST_PROBLEMS);
    assert.equal(most.length, MOST_PROBLEMS);
    assert.match(most.at(-1) ?? "", /^Service default\/web: spec\.externalIPs\[99\]: "none-99" is not an IP address; /);
    const hostile = problemsOf(60_000);
    assert.equal(hostile.length, MOST_PROBLEMS + 1);
    assert.deepEqual(hostile.slice(0, MOST_PROBLEMS), most);
    assert.equal(hostile.at(-1), "Service default/web: 59900 more problems");
  });
});
