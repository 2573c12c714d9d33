import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { writeAttachment } from "../../../../attachment/attachment_writer.ts";
import { systemFileSystem } from "../../../../ipam/file_system.ts";
import type { Holding } from "../../../../ipam/store.ts";
import { type FileSight, sightOf } from "../../../../kernel/file.ts";
import { nodeSyscalls } from "../../../../kernel/syscall/koffi.ts";
import { attachmentPresence } from "../../../../policyd/attachments/attachment_exists.ts";
import type { LinkWriter } from "../../../../policyd/attachments/link_removal.ts";
import { AttachmentRegistry } from "../../../../policyd/attachments/registry.ts";
import { DirectoryChanges } from "../../../../policyd/state_directory/directory_changes.ts";
import { KeptTree } from "../../../../policyd/state_directory/directory_repair.ts";
import { PodFiles } from "../../../../policyd/state_directory/pod_files.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { attachmentRecord } from "../../../support/cni/attachment_record.ts";
import { useTemporaryDirectory } from "../../../support/ipam/address_store.ts";
import { podRecord } from "../../../support/node/held_daemon.ts";

const syscalls = nodeSyscalls();
const files = systemFileSystem(syscalls);
let changes = 0;
/** Counts up the times of change, since the kernel's own are too coarse for successive changes. */
const seen = (path: string): FileSight | undefined => {
  const sight = sightOf(syscalls, path);
  return sight === undefined ? undefined : { ...sight, changedAt: BigInt(++changes) };
};

describe("policyd/state_directory: kept directories", () => {
  const temporary = useTemporaryDirectory();

  function tree() {
    const clock = new FakeClock();
    const root = `${temporary()}/delegated`;
    mkdirSync(`${root}/net`, { recursive: true });
    for (const name of ["a", "b", "c"]) writeFileSync(`${root}/net/${name}`, name);
    const kept = new KeptTree(root, { files, sightOf: seen, clock });
    assert.equal(kept.look(), 0);
    return { root, kept, clock };
  }

  it("STATE-01: when a directory was removed, a file is restored as its owner last changed it, and one that its owner had removed is not", () => {
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
});

describe("policyd/state_directory: settled sights", () => {
  it("STATE-01: a directory counts as changed until two reads have seen one time, since the kernel's clock is coarse", () => {
    const settled = new DirectoryChanges();
    const sight = { identity: "1 1", changedAt: 5n };
    assert.deepEqual(
      [sight, sight, sight, { ...sight, changedAt: 6n }, undefined, sight, { ...sight, identity: "1 2" }].map((each) =>
        settled.see(each),
      ),
      ["changed", "changed", "same", "changed", "missing", "changed", "remade"],
    );
  });
});

describe("policyd/state_directory: kept records", () => {
  const temporary = useTemporaryDirectory();

  it("STATE-01: a record is written again while its link is there, and not after a DEL that found no daemon", () => {
    const stateDirectory = temporary();
    const attachments = new AttachmentRegistry();
    const [alive, gone] = [podRecord("a"), podRecord("b")];
    for (const record of [alive, gone]) {
      attachments.add(record);
      writeAttachment(stateDirectory, record, files);
    }
    const hasLink = ({ containerId }: { readonly containerId: string }): boolean => containerId === "a";
    const storeOf = (): never => assert.fail("no store is asked");
    const kept = new PodFiles({ stateDirectory, files, sightOf: seen, attachments, hasLink, storeOf });
    assert.equal(kept.restoreRecords(), 0);
    rmSync(`${stateDirectory}/attachments`, { recursive: true });
    assert.equal(kept.restoreRecords(), 1);
    assert.deepEqual(readdirSync(`${stateDirectory}/attachments/drawbridge`), ["a:eth0.json"]);
    assert.equal(kept.restoreRecords(), 0);
    attachments.remove(alive);
    rmSync(`${stateDirectory}/attachments/drawbridge/a:eth0.json`);
    assert.equal(kept.restoreRecords(), 0);
  });

  it("STATE-07: after a pod was replaced under its names, the addresses of the new pod are reserved again and those of the old one are not", () => {
    const stateDirectory = temporary();
    const dataDir = `${stateDirectory}/data`;
    mkdirSync(dataDir);
    const after = attachmentRecord({ dataDir });
    const before = { ...after, addresses: podRecord("b").addresses };
    writeAttachment(stateDirectory, after, files);
    const batch: LinkWriter["batch"] = (requests) =>
      requests.map((request) => ({ request, error: undefined, messages: [] }));
    const presence = attachmentPresence({ stateDirectory, files }, { batch });
    const storeOf = () => ({ restore: ({ addresses }: Holding) => addresses.length });
    const restored = [before, after].map((record) => {
      const attachments = { values: () => [record] };
      return new PodFiles({ stateDirectory, files, sightOf: seen, attachments, ...presence, storeOf });
    });
    assert.deepEqual(
      restored.map((kept) => kept.restoreReservations()),
      [0, 2],
    );
    assert.deepEqual([before, after].map(presence.isPresent), [false, true]);
  });
});
