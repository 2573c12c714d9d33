import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import { requireKernel } from "../../support/privilege.ts";
import { confined, type Confinement } from "./confined.ts";

describe("test/lab/confined", () => {
  let directory = "";

  before(function () {
    requireKernel(this);
    directory = mkdtempSync(`${os.tmpdir()}/confined-`);
  });
  after(() => {
    if (directory !== "") rmSync(directory, { recursive: true });
  });

  function run(confinement: Confinement, script: string): { readonly code: number | null; readonly text: string } {
    const { file, args } = confined(confinement, "/bin/sh", ["-c", script]);
    const { status, stdout, stderr } = spawnSync(file, args, { encoding: "utf8", cwd: "/" });
    return { code: status, text: (stdout + stderr).trim() };
  }

  it("leaves one capability, and no way to another", () => {
    const { text } = run(
      { capabilities: ["NET_ADMIN"], writable: [] },
      "grep -E '^(CapPrm|CapEff|CapBnd|NoNewPrivs)' /proc/self/status",
    );
    const netAdmin = "0000000000001000";
    const expected = `CapPrm: ${netAdmin} CapEff: ${netAdmin} CapBnd: ${netAdmin} NoNewPrivs: 1`;
    assert.equal(text.replaceAll(/\s+/g, " "), expected);
  });

  it("refuses to write anywhere else", () => {
    const inside = run({ capabilities: [], writable: [directory] }, `echo x > ${directory}/a && cat ${directory}/a`);
    assert.deepEqual(inside, { code: 0, text: "x" });
    for (const path of ["/a", "/tmp/a", "/run/a", "/proc/sys/net/ipv4/ip_forward"]) {
      assert.match(run({ capabilities: [], writable: [directory] }, `echo 1 > ${path}`).text, /Read-only file system/);
    }
  });

  it("obeys a profile, by call and by argument", () => {
    const profile = {
      defaultAction: "SCMP_ACT_ALLOW",
      syscalls: [
        { names: ["mkdir", "mkdirat", "no_such_call"], action: "SCMP_ACT_ERRNO", errnoRet: 38 },
        { names: ["kill"], action: "SCMP_ACT_ERRNO", args: [{ index: 1, value: 10, op: "SCMP_CMP_EQ" }] },
      ],
    };
    writeFileSync(`${directory}/profile.json`, JSON.stringify(profile));
    const confinement = { capabilities: ["KILL"], writable: [directory], seccompProfile: `${directory}/profile.json` };
    assert.match(run(confinement, `mkdir ${directory}/new`).text, /Function not implemented/);
    assert.match(run(confinement, "kill -USR1 $$").text, /Operation not permitted/);
    assert.equal(run(confinement, `kill -0 $$ && touch ${directory}/b`).code, 0);
  });

  it("refuses a profile with what it does not know", () => {
    writeFileSync(`${directory}/profile.json`, JSON.stringify({ defaultAction: "SCMP_ACT_SOME", syscalls: [] }));
    const confinement = { capabilities: [], writable: [], seccompProfile: `${directory}/profile.json` };
    assert.match(run(confinement, "true").text, /SCMP_ACT_SOME; expected SCMP_ACT_ALLOW/);
  });
});
