import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { writeAttachment } from "../../../../attachment/attachment_writer.ts";
import { attachmentKey, AttachmentRegistry } from "../../../../policyd/attachments/registry.ts";
import { attachmentRecord } from "../../../support/cni/attachment_record.ts";
import { realFileSystem, useTemporaryDirectory } from "../../../support/ipam/address_store.ts";

describe("policyd/attachments/registry", () => {
  const base = useTemporaryDirectory();

  it("the registry loads this boot's records of every network, and reports a file that is not a record", () => {
    const records = [
      attachmentRecord(),
      attachmentRecord({ network: "other" }),
      attachmentRecord({ containerId: "old", bootId: "another" }),
    ];
    for (const record of records) writeAttachment(base(), record, realFileSystem);
    writeFileSync(`${base()}/attachments/other/torn:eth0.json`, "{");
    mkdirSync(`${base()}/attachments/.not-a-network`);
    writeFileSync(`${base()}/attachments/notes`, "a file by the name of a network");
    const registry = new AttachmentRegistry();
    const place = { stateDirectory: base(), bootId: attachmentRecord().bootId, files: realFileSystem };
    const problems = registry.load(place);
    assert.deepEqual([...registry.values()], records.slice(0, 2));
    registry.add(attachmentRecord({ containerId: "later" }));
    const earlier = [...registry.values()].map((one) => registry.isEarlier(attachmentKey(one)));
    assert.deepEqual(earlier, [true, true, false], "the last one had no record at the start");
    assert.equal(problems.length, 1);
    assert.match(problems[0] ?? "", /torn:eth0\.json: no JSON/);
  });

  it("the registry is empty when the directory of records does not exist", () => {
    const registry = new AttachmentRegistry();
    assert.deepEqual(registry.load({ stateDirectory: `${base()}/none`, bootId: "", files: realFileSystem }), []);
    assert.equal(registry.size, 0);
  });

  it("an attachment replaces the one with the same names, and is removed once", () => {
    const registry = new AttachmentRegistry();
    registry.add(attachmentRecord({ bridge: "old" }));
    registry.add(attachmentRecord());
    assert.equal(registry.size, 1);
    assert.equal(registry.remove(attachmentRecord())?.bridge, "drawbridge0");
    assert.equal(registry.remove(attachmentRecord()), undefined);
  });
});
