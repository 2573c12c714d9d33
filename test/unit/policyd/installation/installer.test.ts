import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { hostFiles } from "../../../../policyd/installation/host_files.ts";
import { Installer } from "../../../../policyd/installation/installer.ts";
import { ListFile } from "../../../../policyd/installation/list_file.ts";
import { CONFIGURATION_FILE } from "../../../../policyd/configuration/schema.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { freshText, ownPartNamed } from "../../../support/installation/own_part.ts";
import { type Death, dyingFiles, Killed } from "../../../support/installation/dying_files.ts";

/** Makes an executable longer than one piece, so that it is copied in several steps. */
const PADDING = "#".repeat(300 * 1024);
const EXECUTABLES = new Map<string, string>();

/** Returns the text of a version's plugin, which is put together once since each call is compared with it. */
function executable(version: string): string {
  const text = EXECUTABLES.get(version) ?? `#!/bin/sh\necho ${version}\nexit 0\n${PADDING}`;
  EXECUTABLES.set(version, text);
  return text;
}
const NAMES = ["drawbridge", "drawbridge-ipam", "loopback"];
const CONFIGURATION = { old: freshText(ownPartNamed("old")), new: freshText(ownPartNamed("new", { mtu: 1400 })) };

type Version = keyof typeof CONFIGURATION;

describe("policyd/installation: the installer", function () {
  this.timeout(60_000);
  let root = "";
  let template = "";

  beforeEach(() => {
    root = newRoot(tmpdir());
    template = "";
  });
  afterEach(() => {
    for (const directory of [root, template]) if (directory !== "") rmSync(directory, { recursive: true, force: true });
  });

  const places = () => ({ source: `${root}/source`, binaries: `${root}/bin`, configurations: `${root}/conf` });

  function ship(version: string): void {
    mkdirSync(`${root}/source`, { recursive: true });
    writeFileSync(`${root}/source/drawbridge`, executable(version));
  }

  /** Installs in the daemon's order. */
  async function install(version: Version, files = hostFiles): Promise<readonly unknown[]> {
    const installer = new Installer(files, places());
    for (const directory of [places().binaries, places().configurations]) await files.makeDirectory(directory);
    await installer.removeLeftovers();
    const names = await installer.installExecutable();
    const clock = new FakeClock();
    const list = new ListFile(files, places().configurations, clock);
    const own = version === "old" ? ownPartNamed("old") : ownPartNamed("new", { mtu: 1400 });
    return [names, (await list.reconcile(own)).kind === "written"];
  }

  async function prepare(version: Version): Promise<void> {
    ship(version);
    await install(version);
  }

  function outputOf(name: string): string {
    return spawnSync(`${root}/bin/${name}`, { encoding: "utf8" }).stdout.trim();
  }

  /** Replaces every name of the plugin by a link to a file elsewhere. */
  function linkAway(): void {
    copyFileSync(`${root}/bin/drawbridge`, `${root}/elsewhere`);
    for (const name of NAMES) {
      rmSync(`${root}/bin/${name}`);
      symlinkSync(`${root}/elsewhere`, `${root}/bin/${name}`);
    }
  }

  /** Checks what a runtime finds at this moment. @returns the version of the configuration */
  function observe(allowed: readonly Version[]): string | undefined {
    const found = readdirSync(`${root}/conf`).filter((name) => /\.(conf|conflist|json)$/.test(name));
    const present = NAMES.filter((name) => existsSync(`${root}/bin/${name}`));
    const texts = new Map(present.map((name) => [name, seen(`${root}/bin/${name}`)]));
    for (const [name, text] of texts) {
      const isWhole = allowed.some((one) => text === executable(one));
      assert.ok(isWhole, `${name} is torn: ${text.length} bytes`);
    }
    if (found.length === 0) return undefined;
    assert.deepEqual(found, [CONFIGURATION_FILE]);
    const text = readFileSync(`${root}/conf/${CONFIGURATION_FILE}`, "utf8");
    const version = allowed.find((one) => text === CONFIGURATION[one]);
    assert.ok(version !== undefined, `the configuration is torn: ${text}`);
    assert.equal(statSync(`${root}/conf/${CONFIGURATION_FILE}`).mode & 0o7777, 0o600);
    for (const name of NAMES) assert.ok(existsSync(`${root}/bin/${name}`), `a configuration without ${name}`);
    if (version === "new") assert.equal(texts.get("drawbridge"), executable("new"));
    return version;
  }

  async function dies(
    death: Death | undefined,
    allowed: readonly Version[],
  ): Promise<ReturnType<ReturnType<typeof dyingFiles>["calls"]>> {
    // A killed installation makes the calls of the whole one up to its death: what is between them is seen there.
    const dying = dyingFiles(hostFiles, death, () => {
      if (death === undefined && existsSync(`${root}/conf`)) observe(allowed);
    });
    try {
      await install("new", dying.files);
      assert.equal(death, undefined, "the installation should have been killed");
    } catch (error) {
      assert.ok(error instanceof Killed, String(error));
    }
    return dying.calls();
  }

  for (const kind of ["a first installation", "an upgrade", "an upgrade of links"] as const) {
    it(`D5: ${kind} that is killed at any call leaves old or new files whole, and no configuration without the plugin`, async () => {
      const isUpgrade = kind !== "a first installation";
      const allowed: readonly Version[] = isUpgrade ? ["old", "new"] : ["new"];
      rmSync(root, { recursive: true });
      // Uses a file system in memory where there is one, since hundreds of installations sync their files.
      root = newRoot(existsSync("/dev/shm") ? "/dev/shm" : tmpdir());
      if (isUpgrade) await prepare("old");
      if (kind === "an upgrade of links") linkAway();
      ship("new");
      template = `${root}-template`;
      linkTree(root, template);
      const begin = (): void => {
        rmSync(root, { recursive: true });
        linkTree(template, root);
      };
      const { count, writes } = await dies(undefined, allowed);
      assert.ok(count > 20 && writes.size > 1, String(count));
      for (let call = 1; call <= count; call++) {
        for (const moment of writes.has(call)
          ? (["before", "half", "after"] as const)
          : (["before", "after"] as const)) {
          begin();
          await dies({ call, moment }, allowed);
          const found = existsSync(`${root}/conf`) ? observe(allowed) : undefined;
          if (isUpgrade) assert.ok(found !== undefined, "the configuration has gone");
          // The next start completes the installation and removes leftovers.
          await install("new");
          assert.equal(observe(["new"]), "new", `killed ${moment} call ${call}`);
          await install("new");
          assert.deepEqual(readdirSync(`${root}/bin`).sort(), NAMES);
          assert.deepEqual(readdirSync(`${root}/conf`), [CONFIGURATION_FILE]);
        }
      }
      begin();
      if (isUpgrade) assert.equal(observe(["old"]), "old", "a file was written in place");
    });
  }

  it("D5: files that are correct are not written again", async () => {
    await prepare("new");
    const stateOf = () =>
      [...NAMES.map((name) => `bin/${name}`), `conf/${CONFIGURATION_FILE}`].map(
        (name) => statSync(`${root}/${name}`).ino,
      );
    const before = [stateOf(), statSync(`${root}/bin`).mtimeMs, statSync(`${root}/conf`).mtimeMs];
    assert.deepEqual(await install("new"), [[], false]);
    assert.deepEqual([stateOf(), statSync(`${root}/bin`).mtimeMs, statSync(`${root}/conf`).mtimeMs], before);
  });

  it("STATE-01: removed, overwritten, truncated and unusable files are restored", async () => {
    const harms: readonly (readonly [harm: () => void, written: readonly unknown[]])[] = [
      [() => rmSync(`${root}/bin`, { recursive: true }), [["drawbridge-ipam", "loopback", "drawbridge"], false]],
      [() => rmSync(`${root}/bin/drawbridge`), [["drawbridge-ipam", "loopback", "drawbridge"], false]],
      [() => rmSync(`${root}/bin/drawbridge-ipam`), [["drawbridge-ipam"], false]],
      [() => rmSync(`${root}/bin/loopback`), [["loopback"], false]],
      [() => rmSync(`${root}/conf/${CONFIGURATION_FILE}`), [[], true]],
      [() => writeFileSync(`${root}/conf/${CONFIGURATION_FILE}`, CONFIGURATION.new.replace("new", "wen")), [[], true]],
      [() => chmodSync(`${root}/conf/${CONFIGURATION_FILE}`, 0o666), [[], true]],
      [() => chmodSync(`${root}/bin/drawbridge`, 0o644), [["drawbridge-ipam", "loopback", "drawbridge"], false]],
      [() => writeFileSync(`${root}/bin/drawbridge`, "torn"), [["drawbridge-ipam", "loopback", "drawbridge"], false]],
    ];
    for (const [harm, written] of harms) {
      await prepare("new");
      harm();
      assert.deepEqual(await install("new"), written, String(harm));
      assert.equal(observe(["new"]), "new");
      assert.equal(outputOf("drawbridge-ipam"), "new");
    }
  });

  it("STATE-01: links in place of the plugin's names are replaced even if they lead to a copy, and their target stays", async () => {
    await prepare("new");
    linkAway();
    assert.deepEqual(await install("new"), [["drawbridge-ipam", "loopback", "drawbridge"], false]);
    const areLinks = () => NAMES.map((name) => lstatSync(`${root}/bin/${name}`).isSymbolicLink());
    assert.deepEqual(areLinks(), [false, false, false]);
    assert.equal(readFileSync(`${root}/elsewhere`, "utf8"), executable("new"));
    for (const name of NAMES.slice(1)) {
      rmSync(`${root}/bin/${name}`);
      symlinkSync("drawbridge", `${root}/bin/${name}`);
    }
    assert.deepEqual(await install("new"), [["drawbridge-ipam", "loopback"], false]);
    assert.deepEqual(areLinks(), [false, false, false]);
    assert.deepEqual(await install("new"), [[], false]);
  });

  it("D5: another add-on's loopback stays, and ours is upgraded with the plugin, even when `cp` has put it there", async () => {
    ship("old");
    mkdirSync(`${root}/bin`);
    writeFileSync(`${root}/bin/loopback`, "#!/bin/sh\necho theirs\n", { mode: 0o755 });
    await install("old");
    ship("new");
    await install("new");
    assert.deepEqual(NAMES.map(outputOf), ["new", "new", "theirs"]);
    rmSync(`${root}/bin`, { recursive: true });
    mkdirSync(`${root}/bin`);
    writeFileSync(`${root}/bin/drawbridge`, executable("old"), { mode: 0o755 });
    for (const name of NAMES.slice(1)) symlinkSync("drawbridge", `${root}/bin/${name}`);
    await install("new");
    assert.deepEqual(NAMES.map(outputOf), ["new", "new", "new"]);
  });

  it("D4: a running plugin is replaced and keeps running", async () => {
    mkdirSync(`${root}/source`);
    copyFileSync("/bin/sleep", `${root}/source/drawbridge`);
    await install("old");
    const running = spawn(`${root}/bin/drawbridge`, ["60"], { stdio: "ignore" });
    try {
      await once(running, "spawn");
      ship("new");
      await install("new");
      assert.deepEqual(NAMES.map(outputOf), ["new", "new", "new"]);
      assert.deepEqual([running.exitCode, running.signalCode], [null, null]);
    } finally {
      running.kill("SIGKILL");
    }
  });

  it("D5: an obstacle to the installation is an error that names it, and no temporary copy stays", async () => {
    ship("new");
    mkdirSync(`${root}/bin/drawbridge`, { recursive: true });
    await assert.rejects(install("new"), {
      code: "ERR_STORE",
      message: `cannot replace ${root}/bin/drawbridge: EISDIR: illegal operation on a directory`,
    });
    assert.deepEqual(
      readdirSync(`${root}/bin`).filter((name) => name.endsWith(".tmp")),
      [],
    );
    rmSync(`${root}/source/drawbridge`);
    await assert.rejects(install("new"), /source\/drawbridge is not a file; expected .*cniSourceDirectory/);
    assert.ok(!existsSync(`${root}/conf/${CONFIGURATION_FILE}`));
  });
});

function newRoot(parent: string): string {
  return mkdtempSync(`${parent}/drawbridge-installer-`);
}

/**
 * Makes a directory like another one out of links to its files, which an installation replaces and never writes. Names of
 * one file stay names of one file.
 */
function linkTree(from: string, to: string): void {
  mkdirSync(to, { mode: statSync(from).mode });
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [`${from}/${entry.name}`, `${to}/${entry.name}`];
    if (entry.isDirectory()) linkTree(source, target);
    else if (entry.isSymbolicLink()) symlinkSync(readlinkSync(source), target);
    else linkSync(source, target);
  }
}

const KEPT_TEXTS = 8;
const texts = new Map<string, string>();

/** The text of an executable. Each state of a file is read once, since three names are mostly one file. */
function seen(name: string): string {
  const { ino, size, mode, ctimeNs } = statSync(name, { bigint: true });
  assert.equal(Number(mode) & 0o7777, 0o755, name);
  const state = [ino, size, ctimeNs].join(":");
  const text = texts.get(state) ?? readFileSync(name, "latin1");
  if (texts.size > KEPT_TEXTS) texts.clear();
  texts.set(state, text);
  return text;
}
