import assert from "node:assert/strict";
import { accepted, manifest } from "./objects.ts";

/** The endpoints that a slice with one endpoint ends up with, and the problems without the object's name. */
function judged(endpoint: object): { readonly endpoints: unknown; readonly problems: readonly string[] } {
  const { object, problems } = accepted(manifest("EndpointSlice", { addressType: "IPv4", endpoints: [endpoint] }));
  return {
    endpoints: object["endpoints"],
    problems: problems.map((text) => text.replace("EndpointSlice default/web: endpoints[0].", "")),
  };
}

const PLAIN = { addresses: ["10.1.1.1"] };

describe("objects/gate: an endpoint of a slice", () => {
  it("DAEMON-01 EPS-02: an endpoint with an invalid targetRef is kept without its pod's name, which is reported", () => {
    const { endpoints } = judged(PLAIN);
    const odd: readonly (readonly [unknown, RegExp])[] = [
      [{ kind: "Pod" }, /^targetRef\.name: missing; expected a string .* \(ignored\)$/],
      [{ kind: "Pod", name: "vm_1" }, /^targetRef\.name: "vm_1"; expected .* \(ignored\)$/],
      [{ kind: "Pod", name: "web-0", namespace: "Shop" }, /^targetRef\.namespace: "Shop"; expected .* \(ignored\)$/],
      ["web-0", /^targetRef: "web-0"; expected an object \(ignored\)$/],
    ];
    for (const [targetRef, message] of odd) {
      const found = judged({ ...PLAIN, targetRef });
      assert.deepEqual(found.endpoints, endpoints);
      assert.equal(found.problems.length, 1);
      assert.match(found.problems[0] ?? "", message);
    }
  });

  it("DAEMON-01 EPS-06: an endpoint with an invalid nodeName is omitted, as the node decides who is sent to it", () => {
    const { endpoints, problems } = judged({ ...PLAIN, nodeName: "no node" });
    assert.deepEqual(endpoints, []);
    assert.match(problems.join(), /^nodeName: "no node"; expected /);
  });
});
