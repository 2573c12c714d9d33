import assert from "node:assert/strict";
import { differencesOf } from "../../cluster/uninstall/inventory.ts";
import { users } from "../../cluster/uninstall/objects.ts";

describe("test/cluster/uninstall", () => {
  it("differencesOf lists each added and each missing line of a kind, in any order", () => {
    const before = { routes: ["a", "b", "c"], links: ["lo"] };
    const after = { routes: ["c", "d", "a"], links: ["lo"] };
    assert.deepEqual(differencesOf("routes", before, after), ["- b", "+ d"]);
    assert.deepEqual(differencesOf("links", before, after), []);
    assert.deepEqual(differencesOf("files", before, { files: ["x"] }), ["+ x"]);
  });

  it("the test's pods use a host port, a bandwidth limit, a Service with a node port and a policy", () => {
    const text = JSON.stringify(users());
    for (const part of ['"hostPort":', "egress-bandwidth", '"type":"NodePort"', '"kind":"NetworkPolicy"'])
      assert.ok(text.includes(part), part);
  });
});
