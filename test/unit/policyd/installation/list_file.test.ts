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
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import process from "node:process";
import { FakeClock } from "../../../support/fake_clock.ts";
import { type HostFiles, hostFiles } from "../../../../policyd/installation/host_files.ts";
import { ListFile } from "../../../../policyd/installation/list_file.ts";
import type { OwnPart } from "../../../../policyd/installation/merged_list.ts";
import { freshText, listValues, ownPartNamed } from "../../../support/installation/own_part.ts";

const OWN = ownPartNamed("drawbridge", { mtu: 1450 });
const NAME = "10-drawbridge.conflist";
const THEIRS = { type: "istio-cni", log_level: "info" };

describe("policyd/installation: the list's file", () => {
  let directory = "";
  let clock = new FakeClock();

  beforeEach(() => {
    directory = mkdtempSync(`${tmpdir()}/drawbridge-list-`);
    clock = new FakeClock();
  });
  afterEach(() => {
    rmSync(directory, { recursive: true });
  });

  const place = (): string => `${directory}/${NAME}`;
  const listFile = (files: HostFiles = hostFiles): ListFile => new ListFile(files, directory, clock);
  const saved = (): readonly string[] => readdirSync(directory).filter((name) => name !== NAME);
  const types = (): readonly unknown[] => listValues(readFileSync(place(), "utf8")).plugins.map(({ type }) => type);

  /** Appends an entry like a program that writes a new file and renames it. */
  function append(entry: object): void {
    const value = listValues(readFileSync(place(), "utf8"));
    writeFileSync(`${directory}/.theirs`, JSON.stringify({ ...value, plugins: [...value.plugins, entry] }));
    renameSync(`${directory}/.theirs`, place());
  }

  /** Returns files to which another program does something each time before ours is moved to its place. */
  function raced(edit: () => void): HostFiles {
    return {
      ...hostFiles,
      replaceUnchanged: (from, to, signature) => {
        edit();
        return hostFiles.replaceUnchanged(from, to, signature);
      },
    };
  }

  /** Reconciles again and again while the clock goes on, as the daemon does. */
  async function reconciled(list: ListFile, own: OwnPart = OWN): Promise<Awaited<ReturnType<ListFile["reconcile"]>>> {
    for (let turn = 0; turn < 100; turn++) {
      const outcome = await list.reconcile(own);
      if (outcome.kind !== "waiting") return outcome;
      clock.pass(outcome.wait ?? 0);
    }
    assert.fail("the list is never reconciled");
  }

  it("CHAIN-01: a file to which another program has appended its entry stays unchanged, with its mode", async () => {
    const list = listFile();
    assert.equal((await list.reconcile(OWN)).kind, "written");
    append(THEIRS);
    chmodSync(place(), 0o644);
    const before = statSync(place());
    assert.equal((await list.reconcile(OWN)).kind, "in place");
    assert.equal((await listFile().reconcile(OWN)).kind, "in place", "nor by the next daemon");
    const { ino, mtimeMs, mode } = statSync(place());
    assert.deepEqual([ino, mtimeMs, mode], [before.ino, before.mtimeMs, before.mode]);
  });

  it("CHAIN-03: an entry that another program adds between reading and renaming is not lost", async () => {
    await listFile().reconcile(OWN);
    let edits = 0;
    const files = raced(() => {
      if (edits++ === 0) append(THEIRS);
    });
    const outcome = await listFile(files).reconcile(ownPartNamed("drawbridge", { mtu: 1400 }));
    assert.deepEqual([outcome.kind, edits], ["written", 2]);
    assert.deepEqual(types(), ["drawbridge", "istio-cni"]);
    assert.match(readFileSync(place(), "utf8"), /1400/);
    assert.deepEqual(saved(), []);
  });

  it("CHAIN-03: a file that another program creates at the same moment is not replaced unread", async () => {
    const files = raced(() => {
      if (!existsSync(place())) writeFileSync(place(), JSON.stringify({ name: "x", plugins: [THEIRS] }));
    });
    assert.equal((await listFile(files).reconcile(OWN)).kind, "written");
    assert.deepEqual(types(), ["drawbridge", "istio-cni"]);
    assert.deepEqual(saved(), []);
  });

  it("CHAIN-03: a pass ends without a temporary file when another program is faster each time", async () => {
    await listFile().reconcile(OWN);
    let edits = 0;
    const files = raced(() => append({ type: `x${edits++}` }));
    const outcome = await listFile(files).reconcile(ownPartNamed("drawbridge", { mtu: 1400 }));
    assert.equal(outcome.kind, "waiting");
    assert.deepEqual(saved(), []);
  });

  it("CHAIN-07: a file that another program is still writing stays unchanged, and is merged when it is whole", async () => {
    const list = listFile();
    for (const torn of ["", '{ "plugins": [ { "type": "istio']) {
      writeFileSync(place(), torn);
      assert.equal((await list.reconcile(OWN)).kind, "waiting");
      assert.equal(readFileSync(place(), "utf8"), torn);
      clock.pass(1000);
      assert.equal((await list.reconcile(OWN)).kind, "waiting");
      writeFileSync(place(), JSON.stringify({ plugins: [THEIRS] }));
      assert.equal((await list.reconcile(OWN)).kind, "written");
      assert.deepEqual(types(), ["drawbridge", "istio-cni"]);
    }
    assert.deepEqual(saved(), []);
  });

  const unusable: readonly (readonly [what: string, make: () => void, reason: RegExp])[] = [
    ["an empty file", () => writeFileSync(place(), ""), /not JSON/],
    ["half a list", () => writeFileSync(place(), '{ "plugins": ['), /not JSON/],
    ["JSON that is not a list", () => writeFileSync(place(), "[1]"), /not a JSON object/],
    ["a file of 2 MiB", () => writeFileSync(place(), " ".repeat(2 * 1024 * 1024)), /more than 131072 bytes/],
    ["a symbolic link", () => symlinkSync(`${directory}/away`, place()), /symbolic link/],
    ["a pipe", () => void spawnSync("mkfifo", [place()]), /not a regular file/],
    ["a directory", () => mkdirSync(place()), /not a regular file/],
    [
      "a list that every user can write",
      () => {
        writeFileSync(place(), JSON.stringify({ plugins: [{ type: "evil" }] }));
        chmodSync(place(), 0o666);
      },
      /every user can write/,
    ],
  ];
  for (const [what, make, reason] of unusable) {
    it(`CHAIN-07: ${what} under our name is replaced by a fresh list, kept under another name, and reported`, async () => {
      make();
      const { ino } = lstatSync(place());
      const outcome = await reconciled(listFile());
      assert.equal(outcome.kind, "written");
      assert.equal(readFileSync(place(), "utf8"), freshText(OWN));
      assert.equal(statSync(place()).mode & 0o7777, 0o600);
      const [copy = ""] = saved();
      assert.deepEqual(saved(), [copy]);
      assert.match(copy, /^10-drawbridge\.conflist\.saved-[0-9a-f]{12}$/);
      assert.equal(lstatSync(`${directory}/${copy}`).ino, ino);
      assert.equal(outcome.replaced.length, 1);
      assert.match(outcome.replaced.join(), reason);
      assert.ok(outcome.replaced.join().includes(copy));
    });
  }

  it("CHAIN-07: a list that belongs to another user or that another group can write is not used", async function () {
    if (process.geteuid?.() !== 0) return this.skip();
    for (const own of [
      () => chownSync(place(), 1234, 0),
      () => {
        chownSync(place(), 0, 1234);
        chmodSync(place(), 0o664);
      },
    ]) {
      writeFileSync(place(), JSON.stringify({ plugins: [{ type: "evil" }, { n: Math.random() }] }));
      own();
      const outcome = await reconciled(listFile());
      assert.match(outcome.replaced.join(), /belongs to user 1234|group 1234 can write/);
      assert.deepEqual(types(), ["drawbridge"]);
      rmSync(place());
    }
  });

  it("CHAIN-07: copies of unusable files are bounded, and the same content is kept once", async () => {
    for (let turn = 0; turn < 12; turn++) {
      for (let again = 0; again < 2; again++) {
        clock.pass(3_600_000);
        writeFileSync(place(), `torn ${turn}`);
        const outcome = await reconciled(listFile());
        assert.equal(outcome.replaced.length, 1);
      }
    }
    assert.equal(saved().length, 8);
  });

  it("CHAIN-03: writes against a program that keeps changing our entry pause for up to a minute, until it stops", async () => {
    const list = listFile();
    await list.reconcile(OWN);
    const begin = clock.now();
    let writes = 0;
    let longest = 0;
    while (clock.now() - begin < 600_000) {
      writeFileSync(place(), freshText(OWN).replace("1450", "9000"));
      const { kind, wait } = await list.reconcile(OWN);
      if (kind === "written") writes++;
      assert.ok(writes < 25, `${writes} writes after ${clock.now() - begin} ms`);
      longest = Math.max(longest, wait ?? 0);
      clock.pass(1000);
    }
    assert.ok(writes >= 3, `${writes} writes in ten minutes`);
    assert.ok(longest > 50_000 && longest <= 60_000, String(longest));
    assert.equal(list.contest.isContested, true);
    clock.pass(60_000);
    assert.equal((await list.reconcile(OWN)).kind, "written");
    clock.pass(60_000);
    assert.equal((await list.reconcile(OWN)).kind, "in place");
    assert.equal(list.contest.isContested, true, "a minute of calm is not enough after pauses of a minute");
    clock.pass(60_000);
    await list.reconcile(OWN);
    assert.equal(list.contest.isContested, false);
  });

  it("CHAIN-03: programs that only add and remove their own entries are not a contest", async () => {
    const list = listFile();
    await list.reconcile(OWN);
    for (let turn = 0; turn < 50; turn++) {
      append({ type: "portmap", capabilities: { portMappings: true } });
      assert.equal((await list.reconcile(OWN)).kind, "written", "our entry leaves host ports to it");
      writeFileSync(place(), readFileSync(place(), "utf8").replace(/,\s*\{"type":"portmap"[^\]]*\}\}/, ""));
      assert.deepEqual(types(), ["drawbridge"]);
      assert.equal((await list.reconcile(OWN)).kind, "written");
    }
    assert.equal(list.contest.isContested, false);
  });

  it("CHAIN-03: two programs that undo each other's entry are a contest if one of them drops ours each time", async () => {
    const list = listFile();
    await list.reconcile(OWN);
    let writes = 0;
    for (let turn = 0; turn < 300; turn++) {
      if (turn % 2 === 0) append({ type: "portmap", capabilities: { portMappings: true } });
      else writeFileSync(place(), JSON.stringify({ name: "drawbridge", cniVersion: "1.0.0", plugins: [THEIRS] }));
      if ((await list.reconcile(OWN)).kind === "written") writes++;
      clock.pass(200);
    }
    assert.equal(list.contest.isContested, true);
    assert.ok(writes < 40, `${writes} writes in a minute`);
  });
});
