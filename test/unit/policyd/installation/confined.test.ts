import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { Removal } from "../../../../cli/node/cleanup/removal.ts";
import { daemonSet } from "../../../support/daemon/daemon_set.ts";
import { rendered } from "../../../support/programs/kustomize.ts";
import { requireKernel } from "../../../support/privilege.ts";

const PROGRAM = fileURLToPath(new URL("../../../support/installation/confined_main.ts", import.meta.url));
const SOMEBODY = 1000;

describe("installation and cleanup with the manifests' capabilities", function () {
  this.timeout(60_000);
  let root = "";
  /** The capabilities of the daemon's container, which the cleanup's has, too. */
  let capabilities: readonly string[] = [];

  before(function () {
    requireKernel(this);
    const [daemon] = daemonSet(rendered("manifests/base")).pod.containers;
    const [cleanup] = daemonSet(rendered("manifests/cleanup")).pod.initContainers ?? [];
    capabilities = daemon?.securityContext?.capabilities.add ?? [];
    assert.deepEqual(cleanup?.securityContext?.capabilities.add, capabilities);
    assert.deepEqual(daemon?.securityContext?.capabilities.drop, ["ALL"]);
  });
  beforeEach(() => {
    root = mkdtempSync(`${tmpdir()}/drawbridge-confined-`);
    for (const name of ["source", "bin", "conf", "run"]) mkdirSync(`${root}/${name}`);
    writeFileSync(`${root}/source/drawbridge`, "#!/bin/sh\n");
  });
  afterEach(() => rmSync(root, { recursive: true }));

  /** Runs a program as root with only the manifest's capabilities, so that file permissions apply to it. */
  function confined(...args: readonly string[]): unknown {
    const set = ["-all", ...capabilities.map((name) => `+${name.toLowerCase()}`)].join(",");
    const own = [`--bounding-set=${set}`, `--inh-caps=${set}`, "--no-new-privs", process.execPath];
    const { status, stdout, stderr } = spawnSync("setpriv", [...own, ...args], { encoding: "utf8" });
    assert.equal(status, 0, stderr);
    return JSON.parse(stdout);
  }

  const install = (): unknown => confined(PROGRAM, "install", `${root}/source`, `${root}/bin`, `${root}/conf`);
  const remove = (...removals: readonly Removal[]): unknown => confined(PROGRAM, "remove", JSON.stringify(removals));
  const configuration = (): string => `${root}/conf/10-drawbridge.conflist`;

  /** Gives a file to another user, so that only that user may read it. */
  function giveAway(file: string): void {
    chownSync(file, SOMEBODY, SOMEBODY);
    chmodSync(file, 0o600);
  }

  it("DEPLOY-05: the program has the manifest's capabilities, and file permissions apply to it", () => {
    writeFileSync(`${root}/secret`, "x");
    giveAway(`${root}/secret`);
    const script = `const { readFileSync } = require("fs"); let code = ""; try { readFileSync("${root}/secret"); } catch (error) { code = error.code; }
      const [, caps] = /^CapEff:\\s*(\\S+)/m.exec(readFileSync("/proc/self/status", "utf8")); console.log(JSON.stringify([code, caps]));`;
    assert.deepEqual(confined("-e", script), ["EACCES", "0000000000001000"]);
  });

  it("STATE-01 DEPLOY-05: the program replaces files that belong to another user in directories of root", () => {
    install();
    for (const name of readdirSync(`${root}/bin`)) giveAway(`${root}/bin/${name}`);
    writeFileSync(`${root}/source/drawbridge`, "#!/bin/sh\n# 2\n");
    writeFileSync(`${root}/conf/.drawbridge.0123456789abcdef.tmp`, "");
    giveAway(`${root}/conf/.drawbridge.0123456789abcdef.tmp`);
    install();
    assert.match(readFileSync(`${root}/bin/drawbridge`, "utf8"), /2$/m);
    assert.deepEqual(readdirSync(`${root}/conf`), ["10-drawbridge.conflist"]);
    assert.deepEqual(readdirSync(`${root}/bin`).sort(), ["drawbridge", "drawbridge-ipam", "loopback"]);
  });

  for (const directory of ["bin", "conf"])
    it(`DEPLOY-05: where the directory ${directory} belongs to another user, the error names the user and the way out`, () => {
      chownSync(`${root}/${directory}`, SOMEBODY, SOMEBODY);
      assert.throws(install, (error: Error) =>
        error.message.includes(
          `EACCES: permission denied; ${root}/${directory} belongs to user 1000: chown root ${root}/`,
        ),
      );
    });

  it("CHAIN-07: another user's list, which the program may not read, is replaced and kept as a copy", () => {
    writeFileSync(configuration(), JSON.stringify({ plugins: [{ type: "evil" }] }));
    giveAway(configuration());
    const { ino } = lstatSync(configuration());
    const replaced =
      /"written","replaced":\[".*it belongs to user 1000, and policyd may not read it; it is kept as .*saved-/;
    assert.match(JSON.stringify(install()), replaced);
    assert.doesNotMatch(readFileSync(configuration(), "utf8"), /evil/);
    const copies = readdirSync(`${root}/conf`).filter((name) => name.includes(".saved-"));
    assert.deepEqual(
      copies.map((name) => lstatSync(`${root}/conf/${name}`).ino),
      [ino],
    );
  });

  it("UNINSTALL-01 DEPLOY-05: a cleanup removes the files of the installation, the daemon and the plugin", () => {
    install();
    const replacement = `${root}/conf/zz-drawbridge-detach.conflist`;
    mkdirSync(`${root}/run/attachments/drawbridge`, { recursive: true, mode: 0o700 });
    writeFileSync(`${root}/run/attachments/drawbridge/a:eth0.json`, "{}", { mode: 0o600 });
    assert.deepEqual(remove({ kind: "list", path: configuration(), replacement, text: "{}" }), [""]);
    assert.deepEqual(readdirSync(`${root}/conf`), ["zz-drawbridge-detach.conflist"]);
    const files = readdirSync(`${root}/bin`).map((name): Removal => ({ kind: "file", path: `${root}/bin/${name}` }));
    const outcome = remove({ kind: "file", path: replacement }, ...files, { kind: "directory", path: `${root}/run` });
    assert.deepEqual(outcome, ["", "", "", "", ""]);
    assert.deepEqual(
      [readdirSync(`${root}/conf`), readdirSync(`${root}/bin`), existsSync(`${root}/run`)],
      [[], [], false],
    );
  });

  it("DOCTOR-07 DEPLOY-05: a cleanup names the files that it may not remove, and goes on", () => {
    mkdirSync(`${root}/foreign`);
    writeFileSync(`${root}/foreign/x`, "");
    chownSync(`${root}/foreign`, SOMEBODY, SOMEBODY);
    writeFileSync(`${root}/mine`, "");
    const outcome = remove({ kind: "file", path: `${root}/foreign/x` }, { kind: "file", path: `${root}/mine` });
    assert.match(JSON.stringify(outcome), /^\["EACCES: permission denied.*foreign\/x'",""\]$/);
    assert.ok(!existsSync(`${root}/mine`));
  });
});
