import assert from "node:assert/strict";
import { hasEnded, isOlderThanBoot } from "../../../cni/gc/proof.ts";
import { unknownAttachments, validAttachments } from "../../../cni/gc/valid_attachments.ts";
import { useTemporaryDirectory, writeForeign } from "../../support/ipam/address_store.ts";
import { assertRefusal } from "../../support/cni/cni.ts";
import { fakeNode } from "../../support/cni/fake_node.ts";

describe("cni/gc: the runtime's list of valid attachments", () => {
  it("contains an interface by container and name, and every interface of a container listed without one (I11)", () => {
    const isValid = validAttachments([
      { containerID: "a", ifname: "eth0" },
      { containerID: "a", ifname: "net1" },
      { containerID: "b" },
      { containerID: "b", ifname: "eth0" },
      { containerID: "c", ifname: "" },
    ]);
    assert.ok(isValid !== undefined);
    const attachments = ["a:eth0", "a:net1", "a:net2", "b:eth0", "b:net9", "c:eth0", "d:eth0", "A:eth0"].map((text) => {
      const [containerId = "", ifname = ""] = text.split(":");
      return { containerId, ifname };
    });
    assert.deepEqual(
      unknownAttachments(attachments, isValid).map(({ containerId, ifname }) => `${containerId}:${ifname}`),
      ["a:net2", "d:eth0", "A:eth0"],
    );
    assert.deepEqual([isValid("a", undefined), isValid("b", undefined), isValid("d", undefined)], [true, true, false]);
  });

  it("keeps everything when absent and nothing when empty, and is refused with an entry without a container (I11)", () => {
    assert.equal(validAttachments(undefined), undefined);
    assert.equal(validAttachments([])?.("a", "eth0"), false);
    for (const entry of [{}, { ifname: "eth0" }, { containerID: "" }]) {
      assertRefusal(() => validAttachments([{ containerID: "a" }, entry]), { code: 7, says: ["[1].containerID"] });
    }
  });
});

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
