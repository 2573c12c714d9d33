import assert from "node:assert/strict";
import { negotiateVersion, supportedVersions, versionResult } from "../../../cni/version.ts";
import { assertRefusal } from "../../support/cni/cni.ts";

describe("cni/version", () => {
  it("prints 1.1.0 and every released version, oldest first (P1)", () => {
    assert.deepEqual(JSON.parse(versionResult()), {
      cniVersion: "1.1.0",
      supportedVersions: ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"],
    });
  });

  it("an absent, null or empty version means 0.1.0 (P9)", () => {
    for (const absent of [undefined, null, ""]) assert.equal(negotiateVersion(absent), "0.1.0");
  });

  it("each supported version is negotiated as it is", () => {
    for (const version of supportedVersions) assert.equal(negotiateVersion(version), version);
  });

  it("any other value is refused with code 1, which names it and the supported versions (P7)", () => {
    for (const requested of ["foo", "99.0.0", "1.1", "1.1.0 ", "v1.1.0", "1.0.1", 1, true, [], ["1.1.0"], {}]) {
      assertRefusal(() => negotiateVersion(requested), {
        code: 1,
        says: ["incompatible CNI versions", `config is ${JSON.stringify(requested)}`, '["0.1.0",', '"1.1.0"]'],
      });
    }
  });
});
