import assert from "node:assert/strict";
import { judge } from "../../../../policyd/cluster/gate.ts";
import { ObjectFiles } from "../../../../policyd/source/object_files.ts";
import { manifest } from "../cluster/objects.ts";

const pod = (name: string, ip: string, phase = "Running") =>
  manifest("Pod", { status: { phase, podIP: ip } }, { name });

describe("policyd/source/object_files", () => {
  let files: ObjectFiles;
  beforeEach(() => {
    files = new ObjectFiles();
  });

  const put = (name: string, ...values: readonly unknown[]): readonly string[] => {
    files.put(name, values.map(judge));
    return taken();
  };
  const taken = (): readonly string[] => files.takeChanges().map(({ type, kind, key }) => `${type} ${kind} ${key}`);

  it("tells what changed, and nothing where the change is none we use", () => {
    assert.deepEqual(put("a", pod("x", "10.0.0.1"), pod("y", "10.0.0.2")), ["set Pod default/x", "set Pod default/y"]);
    assert.deepEqual(put("a", pod("x", "10.0.0.1"), { ...pod("y", "10.0.0.2"), data: 1 }), []);
    assert.deepEqual([files.count("Pod"), files.count("Node")], [2, 0]);
    assert.deepEqual(put("a", pod("x", "10.0.0.9")), ["set Pod default/x", "delete Pod default/y"]);
    assert.equal(files.find("Pod", "default/x")?.key, "default/x");
    assert.equal(files.find("Pod", "default/y"), undefined);
    files.remove("a");
    assert.deepEqual(taken(), ["delete Pod default/x"]);
  });

  it("DAEMON-02: a refused object stays in its last good version, beside others that change", () => {
    put("a", pod("x", "10.0.0.1"), pod("y", "10.0.0.2"));
    assert.deepEqual(put("a", pod("x", "10.0.0.1", "Ready"), pod("y", "10.0.0.3")), ["set Pod default/y"]);
    assert.match(files.problems().join(), /a: Pod default\/x: status\.phase.*its last good version stays/);
    assert.deepEqual(put("a", pod("x", "10.0.0.1", "Ready"), pod("y", "10.0.0.3")), [], "twice over");
    assert.deepEqual(put("a", pod("y", "10.0.0.3")), ["delete Pod default/x"]);
    assert.deepEqual(files.problems(), []);
  });

  it("DAEMON-02: an unreadable file keeps its objects until it is gone", () => {
    put("a", pod("x", "10.0.0.1"));
    files.keep("a", "line 1: nonsense");
    assert.deepEqual(taken(), []);
    assert.deepEqual(files.problems(), ["a: line 1: nonsense (its last good version stays)"]);
    files.remove("a");
    assert.deepEqual(taken(), ["delete Pod default/x"]);
    assert.deepEqual(files.problems(), []);
  });

  it("an object in two files is the first file's, whichever is read first", () => {
    assert.deepEqual(put("b", pod("x", "10.0.0.2")), ["set Pod default/x"]);
    assert.deepEqual(put("a", pod("x", "10.0.0.1")), ["set Pod default/x"]);
    assert.match(files.problems().join(), /^b: Pod default\/x: also in a, which counts/);
    assert.deepEqual(put("b", pod("x", "10.0.0.3")), []);
    assert.deepEqual(put("a", pod("x", "10.0.0.1", "Ready")), [], "its last good version counts on");
    files.remove("a");
    assert.deepEqual(taken(), ["set Pod default/x"]);
    assert.deepEqual(files.problems(), []);
  });

  it("an object that was never valid in one file is the next file's", () => {
    put("b", pod("x", "10.0.0.2"));
    assert.deepEqual(put("a", pod("x", "10.0.0.1", "Ready")), []);
  });

  it("an object that moves to another file does not change", () => {
    put("a", pod("x", "10.0.0.1"));
    files.put("b", [judge(pod("x", "10.0.0.1"))]);
    files.remove("a");
    assert.deepEqual(taken(), []);
    files.remove("b");
    files.put("c", [judge(pod("x", "10.0.0.1"))]);
    assert.deepEqual(taken(), []);
  });

  it("BAD-01: tells of what kind a problem is, as far as that can be told", () => {
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

  it("an object twice in one file is the first of the two", () => {
    assert.deepEqual(put("a", pod("x", "10.0.0.1"), pod("x", "10.0.0.2")), ["set Pod default/x"]);
    assert.deepEqual(files.problems(), ["a: Pod default/x: twice in this file; the first counts"]);
    assert.deepEqual(put("a", pod("x", "10.0.0.1")), []);
  });
});
