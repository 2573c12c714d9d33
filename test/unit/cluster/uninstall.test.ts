import assert from "node:assert/strict";
import { users } from "../../cluster/uninstall/objects.ts";

describe("test/cluster/uninstall", () => {
  it("the test's pods use a host port, a bandwidth limit, a Service with a node port and a policy", () => {
    const text = JSON.stringify(users());
    for (const part of ['"hostPort":', "egress-bandwidth", '"type":"NodePort"', '"kind":"NetworkPolicy"'])
      assert.ok(text.includes(part), part);
  });
});
