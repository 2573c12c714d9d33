import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { INSTALL, manifestObjects } from "../../support/daemon/manifest_grants.ts";
import { schemaProblems } from "../../support/programs/openapi.ts";

/** Returns the problems of install.yaml after one text in it is replaced. */
function problemsWith(text: string, replacement: string): readonly string[] {
  const install = readFileSync(INSTALL, "utf8");
  assert.ok(install.includes(text), `${text} is in ${INSTALL}`);
  return manifestObjects(install.replace(text, replacement)).flatMap(schemaProblems);
}

describe("objects checked against Kubernetes' published schema", () => {
  for (const [title, text, replacement, problems] of [
    [
      "an unknown field",
      "hostNetwork: true",
      "hostNetworking: true",
      ["spec.template.spec.hostNetworking: unknown field"],
    ],
    [
      "a text in place of a number",
      "terminationGracePeriodSeconds: 5",
      'terminationGracePeriodSeconds: "5"',
      ['spec.template.spec.terminationGracePeriodSeconds: "5"; expected int64'],
    ],
    ["a number as int-or-string", "maxUnavailable: 10%", "maxUnavailable: 1", []],
    [
      "a list in place of int-or-string",
      "maxUnavailable: 10%",
      "maxUnavailable: [10]",
      ["spec.updateStrategy.rollingUpdate.maxUnavailable: [10]; expected int-or-string"],
    ],
    [
      "a missing required field",
      "  type: RuntimeDefault",
      "  localhostProfile: drawbridge.json",
      ["spec.template.spec.securityContext.seccompProfile.type: missing"],
    ],
  ] as const) {
    it(`${title} has ${problems.length === 0 ? "no problem" : "one problem, with its place"}`, () => {
      assert.deepEqual(
        problemsWith(text, replacement),
        problems.map((problem) => `DaemonSet.${problem}`),
      );
    });
  }
});
