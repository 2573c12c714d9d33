import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { INSTALL, manifestObjects } from "../../support/daemon/manifest_grants.ts";
import { schemaProblems } from "../../support/programs/openapi.ts";

const DAEMON_SET = "kind: DaemonSet\nmetadata:\n";

/** Returns the problems of install.yaml after one text in it is replaced. */
function problemsWith(text: string, replacement: string): readonly string[] {
  const install = readFileSync(INSTALL, "utf8");
  assert.ok(install.includes(text), `${text} is in ${INSTALL}`);
  return manifestObjects(install.replace(text, replacement)).flatMap(schemaProblems);
}

describe("objects checked against Kubernetes' published schema", () => {
  it("a field in the wrong place is unknown", () => {
    assert.deepEqual(problemsWith("hostNetwork: true", "hostNetworking: true"), [
      "DaemonSet.spec.template.spec.hostNetworking: unknown field",
    ]);
    assert.deepEqual(problemsWith(DAEMON_SET, `${DAEMON_SET}  updateStrategy: {}\n`), [
      "DaemonSet.metadata.updateStrategy: unknown field",
    ]);
  });

  it("a field of another type is reported with the expected type", () => {
    assert.deepEqual(problemsWith("terminationGracePeriodSeconds: 5", 'terminationGracePeriodSeconds: "5"'), [
      'DaemonSet.spec.template.spec.terminationGracePeriodSeconds: "5"; expected int64',
    ]);
    assert.deepEqual(problemsWith("readOnlyRootFilesystem: true", "readOnlyRootFilesystem: yes"), [
      'DaemonSet.spec.template.spec.containers[0].securityContext.readOnlyRootFilesystem: "yes"; expected boolean',
    ]);
    assert.deepEqual(problemsWith("maxUnavailable: 10%", "maxUnavailable: [10]"), [
      "DaemonSet.spec.updateStrategy.rollingUpdate.maxUnavailable: [10]; expected int-or-string",
    ]);
  });

  it("a number and a text are both accepted as int-or-string", () => {
    assert.deepEqual(problemsWith("maxUnavailable: 10%", "maxUnavailable: 1"), []);
  });

  it("a missing required field is reported", () => {
    assert.deepEqual(problemsWith("  type: RuntimeDefault", "  localhostProfile: drawbridge.json"), [
      "DaemonSet.spec.template.spec.securityContext.seccompProfile.type: missing",
    ]);
  });

  it("a kind without a schema is reported", () => {
    assert.deepEqual(schemaProblems({ apiVersion: "v1", kind: "Secret" }), [
      "v1 Secret: no schema; add it to extract.ts",
    ]);
  });
});
