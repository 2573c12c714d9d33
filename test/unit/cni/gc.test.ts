import assert from "node:assert/strict";
import { hasEnded, isOlderThanBoot } from "../../../cni/gc/proof.ts";
import { useTemporaryDirectory, writeForeign } from "../../support/ipam/address_store.ts";
import { fakeNode } from "../../support/cni/fake_node.ts";

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
