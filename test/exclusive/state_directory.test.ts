import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { add, del } from "../lab/cni.ts";
import type { Lab } from "../lab/lab.ts";
import { HarmedNode } from "../support/node_state/harmed_node.ts";
import { startDaemon } from "../support/daemon/policyd.ts";
import { suiteLab } from "../support/suite_lab.ts";
import { until } from "../support/until.ts";

const BACK_MILLISECONDS = 1000;
/** The daemon may make a file again in a directory that is just being removed. */
const REMOVAL = { recursive: true, force: true, maxRetries: 20 };

describe("the daemon's files, removed while it runs", function () {
  this.timeout(120_000);
  let lab: Lab;
  let harmed: HarmedNode;
  let runDir = "";
  let socketPath = "";

  before(async function () {
    lab = suiteLab(this, "state-directory");
    harmed = new HarmedNode(lab);
    await harmed.start();
    ({ runDir } = harmed.wired.node);
    ({ socketPath } = harmed.policyd);
    // An ADD with an IPAM plugin of others, and a namespace that has ended, leave such files.
    for (const [name, text] of [
      ["delegated/other/10.9.0.1", "c\r\neth0"],
      ["settings/net.example", "{}"],
    ] as const) {
      mkdirSync(path.dirname(`${runDir}/${name}`), { recursive: true });
      writeFileSync(`${runDir}/${name}`, text);
    }
  });

  /** Returns all files below the state directory, with their contents. */
  function files(): Readonly<Record<string, string>> {
    const names = existsSync(runDir) ? readdirSync(runDir, { recursive: true, encoding: "utf8" }) : [];
    const found = names.filter((name) => statSync(`${runDir}/${name}`, { throwIfNoEntry: false })?.isFile() === true);
    // The next call that needs this lock makes it. A leading dot marks an unfinished write.
    const kept = found.filter((name) => name !== "nftables.lock" && !/(^|\/)\./.test(name)).toSorted();
    return Object.fromEntries(kept.map((name) => [name, readFileSync(`${runDir}/${name}`, "utf8")]));
  }

  function doesAnswer(): boolean {
    try {
      return harmed.daemon.status().attachments === 3;
    } catch {
      return false;
    }
  }

  const isSame = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other);

  it("without the daemon nothing restores its records, and the pods are cut off once the next daemon starts", async () => {
    await harmed.policyd.kill();
    const records = `${runDir}/attachments`;
    const kept = `${lab.scratch}/kept`;
    const { node } = harmed.wired;
    node.exec("mv", [records, kept]);
    await harmed.restart();
    // The daemon's rules come after its status.
    await until(async () => (await harmed.lost()).length >= 6, "the pods are cut off", 5000);
    await harmed.policyd.kill();
    node.exec("mv", [kept, records]);
    await harmed.restart();
    const repaired = performance.now() + 5000;
    let lost = await harmed.lost();
    while (lost.length > 0 && performance.now() < repaired) lost = await harmed.lost();
    assert.deepEqual(lost, [], "the records are back");
  });

  const harms: readonly (readonly [string, () => void])[] = [
    [
      "the directories of state and socket are removed",
      () => {
        for (const directory of [runDir, path.dirname(socketPath)]) rmSync(directory, REMOVAL);
      },
    ],
    [
      "everything in them is removed",
      () => {
        for (const directory of [runDir, path.dirname(socketPath)]) {
          for (const name of readdirSync(directory)) rmSync(`${directory}/${name}`, REMOVAL);
        }
      },
    ],
    ["the socket is removed", () => rmSync(socketPath)],
    ["the socket's lock is removed", () => rmSync(`${socketPath}.lock`)],
    ["the directory of records is removed", () => rmSync(`${runDir}/attachments`, { recursive: true })],
    [
      "one record is removed",
      () => {
        const directory = `${runDir}/attachments/drawbridge`;
        rmSync(`${directory}/${readdirSync(directory)[1]}`);
      },
    ],
    ["the original settings are removed", () => rmSync(`${runDir}/settings`, { recursive: true })],
    ["the mark of enforced policies is removed", () => rmSync(`${runDir}/policies-enforced`)],
  ];
  /** Waits until the daemon has seen all files, after which it restores them. */
  async function seen(): Promise<void> {
    await until(() => doesAnswer() && Object.keys(files()).length > 5, "all is there");
    await new Promise((resolve) => setTimeout(resolve, 600));
  }

  for (const [index, [what, harm]] of harms.entries()) {
    // All these harms leave the same files, byte by byte, so one restart after the loss of everything is enough.
    const isLoss = index === 0;
    it(`STATE-01: when ${what}, socket and files are back within a second${isLoss ? ", and the next daemon knows all pods" : ""}`, async () => {
      await seen();
      const before = files();
      harm();
      await until(() => isSame(files(), before) && existsSync(`${socketPath}.lock`), what, BACK_MILLISECONDS);
      await until(doesAnswer, "the daemon answers", BACK_MILLISECONDS);
      assert.equal(statSync(socketPath).mode & 0o777, 0o600);
      assert.deepEqual(await harmed.lost(), []);
      if (!isLoss) return;
      await harmed.policyd.kill();
      await harmed.restart();
      assert.equal(harmed.daemon.status().attachments, 3);
      assert.deepEqual(await harmed.lost(), []);
    });
  }

  it("STATE-01: a pod's ADD and DEL succeed while all files are removed again and again, and leave nothing", async () => {
    await seen();
    // An ADD makes the directories of settings and delegations again, so they count as present (docs/limits.md).
    const kept = (): readonly string[] =>
      Object.keys(files()).filter((name) => !/^(?:settings|delegated)\//.test(name));
    const before = kept();
    const pod = lab.pod("late");
    const { overrides } = harmed.policyd;
    const remove = (): void => {
      for (const directory of [runDir, path.dirname(socketPath)]) rmSync(directory, REMOVAL);
    };
    for (let round = 0; round < 3; round++) {
      remove();
      const { error } = add(harmed.wired, pod, overrides);
      assert.equal(error, undefined, JSON.stringify(error));
      remove();
      assert.equal(del(harmed.wired, pod, overrides).exitCode, 0);
      await until(() => isSame(kept(), before), "the others' records are back, and this one's is not", 2000);
    }
    assert.deepEqual(await harmed.lost(), []);
    await until(doesAnswer, "the daemon has forgotten the pod whose DEL found no daemon", 20_000);
  });

  it("STATE-01: a second daemon is refused after the lock was removed and is back", async () => {
    await until(doesAnswer, "the daemon answers after what the test before removed", 20_000);
    rmSync(`${socketPath}.lock`);
    await until(() => existsSync(`${socketPath}.lock`), "the lock is back", BACK_MILLISECONDS);
    const { node } = harmed.wired;
    const second = startDaemon(socketPath, [
      "--node-name=second",
      `--objects=${lab.scratch}`,
      `--state-directory=${runDir}`,
      `--network-namespace=${node.path}`,
    ]);
    assert.equal((await second.ended).code, 1);
    assert.match(second.log(), /another policyd is running/);
    assert.ok(doesAnswer());
  });
});
