import assert from "node:assert/strict";
import { endedAttachments, markEnded } from "../../../attachment/ended.ts";
import { writeAttachment } from "../../../attachment/attachment_writer.ts";
import { CniError } from "../../../cni/error.ts";
import { detachMarked } from "../../../cni/gc/ended.ts";
import { hasEnded, isOlderThanBoot } from "../../../cni/gc/proof.ts";
import { useTemporaryDirectory, writeForeign } from "../../support/ipam/address_store.ts";
import { attachmentRecord } from "../../support/cni/attachment_record.ts";
import { fakeNode } from "../../support/cni/fake_node.ts";
import { FakeKernel } from "../../support/daemon/fake_kernel.ts";

describe("cni/gc: the proof that a pod has ended", () => {
  const directory = useTemporaryDirectory();

  it("is a record of an earlier boot, or, without the link, a path that is gone or leads to another namespace (I11)", () => {
    const node = fakeNode(directory());
    const bootId = node.bootId();
    const hostInterface = "dbv000000000001";
    const own = "/proc/self/ns/net";
    const ended = (netns: { readonly path: string; readonly inode: string }, hasLink = false): boolean =>
      hasEnded(node, { bootId, netns, hostInterface }, (name) => hasLink && name === hostInterface);
    assert.ok(hasEnded(node, { bootId: "another", netns: { path: own, inode: "1" }, hostInterface }, () => true));
    for (const path of [`${directory()}/gone`, "/proc/999999999/ns/net", own]) {
      assert.ok(ended({ path, inode: "1" }), path);
      assert.ok(!ended({ path, inode: "1" }, true), `${path}, with the link`);
    }
    const loop = { path: "/proc/self/cwd/".repeat(300), inode: "1" };
    assert.ok(!ended(loop), "a path that cannot be followed proves nothing");
  });

  it("is, for a reservation, a time of writing well before the boot, so that a wrong clock does not matter (I10)", () => {
    const node = fakeNode(directory());
    const path = `${directory()}/file`;
    writeForeign(path, "");
    assert.ok(!isOlderThanBoot(node)(path));
    assert.ok(!isOlderThanBoot(node)(`${directory()}/missing`));
    const uptime = Number(process.hrtime.bigint() / 1_000_000_000n);
    const later = Date.now() + (uptime + 3600) * 1000;
    assert.ok(isOlderThanBoot(node, () => later)(path));
  });
});

describe("cni/gc: sandboxes that ended without DEL", () => {
  const directory = useTemporaryDirectory();

  it("ENDED-03: an ADD removes ended sandboxes until half a second has passed, and leaves one that cannot be removed to a much later ADD", () => {
    const { node } = new FakeKernel(directory());
    const runDir = `${directory()}/run`;
    const bootId = node.bootId();
    const names = ["a", "b", "c"];
    for (const containerId of names) {
      const record = attachmentRecord({ containerId });
      writeAttachment(runDir, record, node.files);
      markEnded(runDir, record.network, record, { bootId, seconds: -1000 }, node.files);
    }
    const marks = () => endedAttachments(runDir, "drawbridge", bootId, node.files);
    const tried: string[] = [];
    const detach = ({ containerId }: { readonly containerId: string }): void => {
      tried.push(containerId);
      if (containerId === names[0]) throw new CniError(11, "the IPAM plugin refuses");
    };
    const place = { runDir, name: "drawbridge" };
    detachMarked(node, place, marks().toSorted(byName), detach, { now: () => tried.length * 300 });
    assert.deepEqual(tried, ["a", "b"]);
    assert.deepEqual(
      marks()
        .toSorted(byName)
        .map(({ since }) => since > 0),
      [true, false, false],
    );
  });
});

function byName(one: { readonly containerId: string }, other: { readonly containerId: string }): number {
  return one.containerId.localeCompare(other.containerId);
}
