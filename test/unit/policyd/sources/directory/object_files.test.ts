import assert from "node:assert/strict";
import { judge } from "../../../../../objects/gate/gate.ts";
import { ObjectFiles } from "../../../../../policyd/sources/directory/object_files.ts";
import { manifest } from "../../../objects/gate/objects.ts";

const pod = (name: string, ip: string, phase = "Running") =>
  manifest("Pod", { status: { phase, podIP: ip } }, { name });

describe("policyd/sources/directory/object_files", () => {
  let files: ObjectFiles;
  beforeEach(() => {
    files = new ObjectFiles();
  });

  const put = (name: string, ...values: readonly unknown[]): readonly string[] => {
    files.put(name, values.map(judge));
    return taken();
  };
  const taken = (): readonly string[] => files.takeChanges().map(({ type, kind, key }) => `${type} ${kind} ${key}`);

  it("only changes of fields that we use are reported", () => {
    assert.deepEqual(put("a", pod("x", "10.0.0.1"), pod("y", "10.0.0.2")), ["set Pod default/x", "set Pod default/y"]);
    assert.deepEqual(put("a", pod("x", "10.0.0.1"), { ...pod("y", "10.0.0.2"), data: 1 }), []);
    assert.deepEqual([files.count("Pod"), files.count("Node")], [2, 0]);
    assert.deepEqual(put("a", pod("x", "10.0.0.9")), ["set Pod default/x", "delete Pod default/y"]);
    assert.equal(files.find("Pod", "default/x")?.key, "default/x");
    assert.equal(files.find("Pod", "default/y"), undefined);
    files.remove("a");
    assert.deepEqual(taken(), ["delete Pod default/x"]);
  });

  it("an object in two files comes from the file that is first by name, whichever is read first", () => {
    assert.deepEqual(put("b", pod("x", "10.0.0.2")), ["set Pod default/x"]);
    assert.deepEqual(put("a", pod("x", "10.0.0.1")), ["set Pod default/x"]);
    assert.match(files.problems().join(), /^b: Pod default\/x: also in a, which counts/);
    assert.deepEqual(put("b", pod("x", "10.0.0.3")), []);
    assert.deepEqual(put("a", pod("x", "10.0.0.1", "Ready")), [], "its last good version stays");
    files.remove("a");
    assert.deepEqual(taken(), ["set Pod default/x"]);
    assert.deepEqual(files.problems(), []);
  });

  it("BAD-01: each problem has the kind of its object, if the kind is known", () => {
    const service = { apiVersion: "v1", kind: "Service", metadata: { name: "s" }, spec: { externalIPs: ["1.2.3"] } };
    put("a", service, { ...service, metadata: { name: "S" } }, pod("x", "10.0.0.1", "Ready"), { kind: "Pod" });
    put("b", pod("y", "10.0.0.1"));
    put("c", pod("y", "10.0.0.1"));
    files.keep("d", "line 1: nonsense");
    assert.deepEqual(
      files.problemsByKind().map(({ text, kind }) => [text.slice(0, 2), kind]),
      [
        ["d:", undefined],
        ["a:", "Service"],
        ["a:", "Service"],
        ["a:", "Pod"],
        ["a:", undefined],
        ["c:", "Pod"],
      ],
    );
  });

  it("an object that is twice in one file is read from its first place", () => {
    assert.deepEqual(put("a", pod("x", "10.0.0.1"), pod("x", "10.0.0.2")), ["set Pod default/x"]);
    assert.deepEqual(files.problems(), ["a: Pod default/x: twice in this file; the first counts"]);
    assert.deepEqual(put("a", pod("x", "10.0.0.1")), []);
  });
});
