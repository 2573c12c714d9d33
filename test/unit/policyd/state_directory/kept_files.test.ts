import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { systemFileSystem } from "../../../../ipam/file_system.ts";
import { writeAttachment } from "../../../../ipam/attachment.ts";
import { modificationTime } from "../../../../kernel/file.ts";
import { nodeSyscalls } from "../../../../kernel/syscall/node.ts";
import { AttachmentRegistry } from "../../../../policyd/attachments/registry.ts";
import { FakeClock } from "../../../../policyd/clock.ts";
import { KeptTree } from "../../../../policyd/state_directory/kept_directory.ts";
import { KeptRecords } from "../../../../policyd/state_directory/kept_records.ts";
import { useTemporaryDirectory } from "../../../support/address_store.ts";
import { podRecord } from "../../../support/node/held_daemon.ts";

const syscalls = nodeSyscalls();
const files = systemFileSystem(syscalls);
let changes = 0;
/** The kernel's times of files are too coarse for changes in a row. */
const timeOf = (path: string): number | undefined =>
  modificationTime(syscalls, path) === undefined ? undefined : ++changes;

describe("policyd/state_directory: kept directories", () => {
  const temporary = useTemporaryDirectory();

  function tree() {
    const clock = new FakeClock();
    const root = `${temporary()}/delegated`;
    mkdirSync(`${root}/net`, { recursive: true });
    for (const name of ["a", "b", "c"]) writeFileSync(`${root}/net/${name}`, name);
    const kept = new KeptTree(root, { files, modificationTime: timeOf, clock });
    assert.equal(kept.look(), 0);
    return { root, kept, clock };
  }

  it("STATE-06: a directory that is removed is there again with all files, also where the removal was seen half done", () => {
    const { root, kept, clock } = tree();
    rmSync(`${root}/net/a`);
    assert.equal(kept.look(), 0);
    clock.pass(4000);
    rmSync(root, { recursive: true });
    assert.equal(kept.look(), 3);
    assert.deepEqual(readdirSync(`${root}/net`).toSorted(), ["a", "b", "c"]);
    assert.equal(readFileSync(`${root}/net/a`, "utf8"), "a");
  });

  it("STATE-06: a file that its owner has removed or changed before is not put back as it was", () => {
    const { root, kept, clock } = tree();
    rmSync(`${root}/net/a`);
    writeFileSync(`${root}/net/b`, "new");
    assert.equal(kept.look(), 0);
    clock.pass(6000);
    assert.equal(kept.look(), 0);
    assert.ok(!existsSync(`${root}/net/a`));
    rmSync(root, { recursive: true });
    assert.equal(kept.look(), 2);
    assert.equal(readFileSync(`${root}/net/b`, "utf8"), "new");
    assert.ok(!existsSync(`${root}/net/a`));
  });

  it("STATE-06: a directory that never was is not made", () => {
    const root = `${temporary()}/settings`;
    assert.equal(new KeptTree(root, { files, modificationTime: timeOf, clock: new FakeClock() }).look(), 0);
    assert.ok(!existsSync(root));
  });
});

describe("policyd/state_directory: kept records", () => {
  const temporary = useTemporaryDirectory();

  it("STATE-06: a record is written again while its link is there, and not after a DEL that found no daemon", () => {
    const stateDirectory = temporary();
    const attachments = new AttachmentRegistry();
    const [alive, gone] = [podRecord("a"), podRecord("b")];
    for (const record of [alive, gone]) {
      attachments.add(record);
      writeAttachment(stateDirectory, record, files);
    }
    const hasLink = ({ containerId }: { readonly containerId: string }): boolean => containerId === "a";
    const kept = new KeptRecords({ stateDirectory, files, modificationTime: timeOf, attachments, hasLink });
    assert.equal(kept.look(), 0);
    rmSync(`${stateDirectory}/attachments`, { recursive: true });
    assert.equal(kept.look(), 1);
    assert.deepEqual(readdirSync(`${stateDirectory}/attachments/drawbridge`), ["a:eth0.json"]);
    assert.equal(kept.look(), 0);
    attachments.remove(alive);
    rmSync(`${stateDirectory}/attachments/drawbridge/a:eth0.json`);
    assert.equal(kept.look(), 0);
  });
});
