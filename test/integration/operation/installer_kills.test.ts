import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import process from "node:process";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { roundsFor } from "../../support/long_form.ts";

const PROGRAM = fileURLToPath(new URL("../../support/installation/install_main.ts", import.meta.url));
const VERSIONS = ["old", "new"] as const;
const KILLS = roundsFor("kills", 12, 200);
const PADDING = "#".repeat(400 * 1024);

describe("the installer and SIGKILL", function () {
  this.timeout(240_000);
  let root = "";

  beforeEach(() => {
    root = mkdtempSync(`${tmpdir()}/drawbridge-kills-`);
    for (const version of VERSIONS) {
      mkdirSync(`${root}/${version}`);
      writeFileSync(
        `${root}/${version}/drawbridge`,
        `#!/bin/sh\necho "{ \\"version\\": \\"${version}\\" }"\nexit 0\n${PADDING}`,
      );
    }
  });
  afterEach(() => {
    rmSync(root, { recursive: true });
  });

  function versionIn(text: string, member: "name" | "version"): string {
    const value: unknown = JSON.parse(text);
    assert.ok(typeof value === "object" && value !== null && member in value);
    return String((value as Readonly<Record<string, unknown>>)[member]);
  }

  /**
   * Reads the configuration and, if asked, executes the plugin, as a runtime does.
   *
   * @returns whether there was a configuration
   */
  function look(doesExecute: boolean): boolean {
    const directory = `${root}/conf`;
    const names = existsSync(directory)
      ? readdirSync(directory).filter((name) => /\.(conf|conflist|json)$/.test(name))
      : [];
    if (names.length === 0) return false;
    assert.deepEqual(names, ["10-drawbridge.conflist"]);
    const name = versionIn(readFileSync(`${directory}/10-drawbridge.conflist`, "utf8"), "name");
    assert.ok(VERSIONS.some((version) => version === name));
    if (!doesExecute) return true;
    for (const plugin of ["drawbridge", "drawbridge-ipam", "loopback"]) {
      const { error, stdout, status } = spawnSync(`${root}/bin/${plugin}`, { encoding: "utf8" });
      assert.deepEqual([error, status], [undefined, 0], plugin);
      assert.ok(VERSIONS.some((version) => version === versionIn(stdout, "version")));
    }
    return true;
  }

  it(`D5: while the installer is killed ${KILLS} times at any moment, a runtime always finds the old or the new plugin, and never a busy file`, async () => {
    let [looks, executions, installations] = [0, 0, 0];
    for (let kill = 0; kill < KILLS; kill++) {
      const child = spawn(
        process.execPath,
        [PROGRAM, `${root}/bin`, `${root}/conf`, ...VERSIONS.map((version) => `${root}/${version}`)],
        {
          stdio: ["ignore", "pipe", "inherit"],
        },
      );
      child.stdout.on("data", (dots: Buffer) => (installations += dots.length));
      const ended = once(child, "close");
      // The installer writes once it has installed, so it is at work by now.
      await once(child.stdout, "data");
      const moment = 5 + Math.random() * 200;
      for (const start = performance.now(); performance.now() - start < moment; looks++) {
        const doesExecute = looks % 5 === 0;
        assert.ok(look(doesExecute), "the configuration was there and has gone");
        if (doesExecute) executions++;
        await pause(1);
      }
      assert.equal(child.exitCode, null);
      child.kill("SIGKILL");
      await ended;
      assert.ok(look(true));
    }
    assert.ok(looks > KILLS && executions >= 5 && installations > KILLS, `${looks} ${executions} ${installations}`);
  });
});
