import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, rmSync } from "node:fs";
import process from "node:process";
import type { Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { CLI_DIRECTORY } from "../../support/cli/program.ts";
import { OLDER_NODES, olderNode } from "../../support/programs/older_node.ts";
import { suiteLab } from "../../support/suite_lab.ts";

const NOBODY = 65_534;

describe("the built program's drawbridge node", function () {
  this.timeout(60_000);
  let lab: Lab;
  let node: LabNamespace;
  let directory: string;

  before(function () {
    lab = suiteLab(this, "node-built");
    node = lab.namespace("node");
    directory = `${lab.scratch}/cli`;
    cpSync(CLI_DIRECTORY, directory, { recursive: true, verbatimSymlinks: true });
    chmodSync(lab.scratch, 0o755);
  });

  function commandOf(args: readonly string[], executable = process.execPath): readonly [string, ...string[]] {
    const places = ["conf", "bin", "data", "state", "socket"].map((name) => `${lab.scratch}/none/${name}`);
    const [conf = "", bin = "", data = "", state = "", socket = ""] = places;
    const options = ["--cni-conf-directory", conf, "--cni-bin-directory", bin, "--data-directory", data];
    const all = [`${directory}/drawbridge.js`, ...args, ...options, "--state-directory", state, "--socket", socket];
    return [executable, ...all];
  }

  /** Runs the program in the node's namespace. @param uid the user that runs it */
  function run(args: readonly string[], uid = 0) {
    const [file, ...all] = commandOf(args);
    return node.inside(() => spawnSync(file, all, { encoding: "utf8", uid, gid: uid, cwd: "/" }));
  }

  /** Runs the program as root with an empty `/run`, so that it does not see the state of this machine. */
  function runInEmptyRun(args: readonly string[], executable = process.execPath) {
    const namespace = `${lab.scratch}/namespace`;
    const script = `touch ${namespace} && mount --bind ${node.path} ${namespace} && mount -t tmpfs tmpfs /run && exec "$@"`;
    const [file, ...options] = commandOf([...args, "--network-namespace", namespace], executable);
    return spawnSync("unshare", ["--mount", "sh", "-c", script, "sh", file, ...options], {
      encoding: "utf8",
      cwd: "/",
    });
  }

  it("DOCTOR-09: a copy of the program runs in the namespace that it is given, and finds an empty node", () => {
    const { status, stdout, stderr } = runInEmptyRun(["node", "doctor", "-o", "json"]);
    assert.equal(status, 1, stderr);
    const report: unknown = JSON.parse(stdout);
    const { findings, unseen } = report as { findings: { check: string }[]; unseen: unknown[] };
    assert.deepEqual(unseen, []);
    const checks = new Set(findings.map(({ check }) => check));
    for (const check of ["tables", "daemon", "cni-configuration", "cni-plugin"]) assert.ok(checks.has(check), stdout);
    assert.equal(runInEmptyRun(["node", "cleanup"]).stdout, "nothing to remove\n");
  });

  it("CLI-12: Node 20.18 and 22.14 ask the kernel as this Node does", () => {
    for (const version of OLDER_NODES) {
      const { stdout, stderr } = runInEmptyRun(["node", "cleanup"], olderNode(version));
      assert.deepEqual([stdout, stderr], ["nothing to remove\n", ""], version);
    }
  });

  it("DOCTOR-05: the doctor, run by a user other than root, reports what it could not see, and why", () => {
    const { status, stdout, stderr } = run(["node", "doctor"], NOBODY);
    assert.equal(status, 1, stderr);
    assert.match(stdout, /^not checked: tables: .*EPERM.*; run as root$/m);
    assert.match(stdout, /^not checked: kernel-features: .*; run as root$/m);
    assert.match(stdout, /^error +cni-configuration /m);
    assert.equal(run(["node", "cleanup"], NOBODY).status, 3);
  });

  it("DOCTOR-09: doctor --list works without the modules of the kernel's interface, which the doctor itself needs", () => {
    rmSync(`${directory}/node_modules`, { recursive: true });
    const list = spawnSync(process.execPath, [`${directory}/drawbridge.js`, "node", "doctor", "--list"], {
      encoding: "utf8",
    });
    assert.equal(list.status, 0, list.stderr);
    assert.match(list.stdout, /^forwarding /m);
    assert.notEqual(run(["node", "doctor", "-o", "json"]).status, 1, "the doctor needs the modules");
  });
});
