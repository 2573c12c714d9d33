import assert from "node:assert/strict";
import { differencesOf } from "../../cluster/uninstall/inventory.ts";
import { users } from "../../cluster/uninstall/objects.ts";

describe("test/cluster/uninstall", () => {
  it("a kind of things of a node differs by each line that was added or is missing, in whatever order they are", () => {
    const before = { routes: ["a", "b", "c"], links: ["lo"] };
    const after = { routes: ["c", "d", "a"], links: ["lo"] };
    assert.deepEqual(differencesOf("routes", before, after), ["- b", "+ d"]);
    assert.deepEqual(differencesOf("links", before, after), []);
    assert.deepEqual(differencesOf("files", before, { files: ["x"] }), ["+ x"]);
  });

  it("pods that use the add-on have a host port, a limit of bandwidth, a Service with a node port and a policy", () => {
    const text = JSON.stringify(users());
    for (const part of ['"hostPort":', "egress-bandwidth", '"type":"NodePort"', '"kind":"NetworkPolicy"'])
      assert.ok(text.includes(part), part);
  });
});
