import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import os from "node:os";
import { parseProfile, type SeccompProfile } from "../../lab/confined/seccomp.ts";
import { SECCOMP_PROFILE } from "../../support/programs/podman.ts";
import { requireKernel, requireProgram } from "../../support/privilege.ts";
import { OciRuntime } from "../../support/runtimes/oci_runtime.ts";

const RUNTIMES = ["runc", "crun"];
const USERS = [0, 65_534];
/** The answer to a call that the profile does not name. */
const NOT_THERE = /unshare.*Function not implemented/;
const SCRIPT = `echo "$(unshare -n true 2>&1)"; echo ready; exec sleep 60`;

function without(profile: SeccompProfile, call: string): SeccompProfile {
  const syscalls = profile.syscalls.map((rule) => ({ ...rule, names: rule.names.filter((name) => name !== call) }));
  return { ...profile, syscalls };
}

for (const program of RUNTIMES) {
  describe(`${program} with manifests/seccomp/drawbridge.json`, function () {
    this.timeout(300_000);
    const profile = parseProfile(readFileSync(SECCOMP_PROFILE, "utf8"));
    let directory: string;
    let runtime: OciRuntime;

    before(function () {
      requireKernel(this);
      for (const one of [program, "busybox", "unshare"]) requireProgram(this, one);
      directory = mkdtempSync(`${os.tmpdir()}/seccomp-`);
      runtime = new OciRuntime(program, directory);
    });
    after(() => {
      if (directory !== undefined) rmSync(directory, { recursive: true });
    });

    for (const noNewPrivileges of [true, false]) {
      const title = noNewPrivileges
        ? "with noNewPrivileges"
        : "without noNewPrivileges, which sets the filter earlier,";
      it(`DEPLOY-15: ${title} a container starts as any user under the profile and runs further programs`, async () => {
        for (const user of USERS) {
          const container = { noNewPrivileges, user, script: SCRIPT };
          const ended = await runtime.withContainer({ ...container, profile }, (exec) => {
            const further = exec("unshare -n true 2>&1; exit 9");
            assert.equal(further.status, 9, `exec as ${user}: ${further.output}`);
            assert.match(further.output, NOT_THERE);
          });
          assert.ok(ended.output.includes("ready"), `start as ${user}: ${ended.output}`);
          assert.match(ended.output, NOT_THERE);
        }
      });
    }

    it("DEPLOY-15: a container does not start under a profile that lacks a call of the runtime's own start, so these tests can fail", async () => {
      const container = { noNewPrivileges: false, user: 0, script: SCRIPT };
      assert.match((await runtime.withContainer(container)).output, /ready/, "without a profile");
      const { output } = await runtime.withContainer({ ...container, profile: without(profile, "capset") });
      assert.doesNotMatch(output, /ready/);
      assert.match(output, /[Ff]unction not implemented/);
    });
  });
}
