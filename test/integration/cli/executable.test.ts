import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { VERSION } from "../../../policyd/version.ts";
import { bundleScript } from "../../setup/bundle.mjs";
import { KOFFI, makeExecutable } from "../../setup/build_executable.mjs";
import { debianLibraries } from "../../setup/image_files.mjs";
import { CLI_DIRECTORY } from "../../support/cli/program.ts";
import { requireLongForm } from "../../support/long_form.ts";
import { requireKernel, requireProgram } from "../../support/privilege.ts";

const PROJECT = path.resolve(".");
const BUILD = "0123456789ab.20261128";
const MATRIX = ["policy", "matrix", "-f", "test/fixtures/cli/shop", "--by", "namespace"];

describe("the script in the executable of the command line", function () {
  this.timeout(60_000);

  it("RELEASE-01: run by Node 24, the script prints what the bundle prints", () => {
    const directory = mkdtempSync(path.join(os.tmpdir(), "drawbridge-script-"));
    try {
      const script = path.join(directory, "drawbridge.js");
      bundleScript(PROJECT, ["cli/main.ts", script], { architecture: process.arch, build: BUILD }, KOFFI);
      const printed = (args: readonly string[]): string =>
        spawnSync(process.execPath, args, { encoding: "utf8", env: { PATH: "" } }).stdout;
      assert.equal(printed([script, "--version"]), `${VERSION}+${BUILD}\n`);
      assert.equal(printed([script, ...MATRIX]), printed([path.join(CLI_DIRECTORY, "drawbridge.js"), ...MATRIX]));
      assert.match(printed([script, ...MATRIX]), /^from /);
    } finally {
      rmSync(directory, { recursive: true });
    }
  });
});

describe("the executable of the command line", function () {
  this.timeout(600_000);
  let directory = "";
  let executable = "";

  before(function () {
    requireLongForm(this, "making the executables takes too long");
    directory = mkdtempSync(path.join(os.tmpdir(), "drawbridge-executable-"));
    executable = path.join(directory, "drawbridge");
    makeExecutable(PROJECT, { architecture: process.arch, build: BUILD }, executable);
  });
  after(() => rmSync(directory, { recursive: true, force: true }));

  /** Runs a program where PATH has nothing. */
  const run = (program: string, args: readonly string[]) =>
    spawnSync(program, args, { encoding: "utf8", env: { PATH: "", LANG: "C" } });

  it("RELEASE-01: without a Node in PATH the executable answers as the bundle on Node does, also under kubectl's name", () => {
    const onNode = run(process.execPath, [path.join(CLI_DIRECTORY, "drawbridge.js"), ...MATRIX]);
    const alone = run(executable, MATRIX);
    assert.deepEqual([onNode.status, alone.status], [0, 0], alone.stderr);
    assert.deepEqual([alone.stdout, alone.stderr], [onNode.stdout, onNode.stderr]);
    assert.equal(run(executable, ["--version"]).stdout, `${VERSION}+${BUILD}\n`);
    symlinkSync("drawbridge", path.join(directory, "kubectl-drawbridge"));
    assert.match(run(path.join(directory, "kubectl-drawbridge"), ["--help"]).stdout, /^Usage: kubectl drawbridge /);
  });

  it("RELEASE-01: the executable asks the kernel, also where temporary files may not be executed, and leaves no file", function () {
    requireKernel(this);
    const temporary = path.join(directory, "tmp");
    mkdirSync(temporary);
    const before = readdirSync(directory);
    for (const options of ["rw", "noexec"]) {
      const mounts = `mount -t tmpfs none /run && mount -t tmpfs -o ${options} none "$TMPDIR"`;
      const script = `${mounts} && "$0" node connections && "$0" node audit && ls -A "$TMPDIR"`;
      const { stdout, stderr } = spawnSync("unshare", ["--mount", "--net", "sh", "-c", script, executable], {
        encoding: "utf8",
        env: { ...process.env, TMPDIR: temporary },
      });
      assert.deepEqual([stdout, stderr], ["no leaks\n", ""], options);
    }
    assert.deepEqual(readdirSync(directory), before);
  });

  it("RELEASE-01: the executable for the other processor gives the same answer", function () {
    const other = process.arch === "x64" ? "arm64" : "x64";
    const emulator = other === "arm64" ? "qemu-aarch64" : "qemu-x86_64";
    requireProgram(this, emulator);
    makeExecutable(PROJECT, { architecture: other }, `${executable}-${other}`);
    const args = ["-L", debianLibraries(other), `${executable}-${other}`, ...MATRIX];
    const { status, stdout, stderr } = spawnSync(emulator, args, { encoding: "utf8" });
    assert.deepEqual([status, stdout], [0, run(executable, MATRIX).stdout], stderr);
  });
});
