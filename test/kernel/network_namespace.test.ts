import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import path from "node:path";
import {
  currentNamespace,
  closeNamespace,
  insideNamespace,
  isSameNamespace,
  openNamespace,
} from "../../kernel/network_namespace.ts";
import { changeLink, createBridge } from "../../kernel/route/link.ts";
import { parseMac } from "../../kernel/ip/mac.ts";
import { createLab, type Lab } from "../lab/lab.ts";
import { requireKernel } from "../support/privilege.ts";

describe("kernel/network_namespace on a kernel", () => {
  let lab: Lab;

  before(function () {
    requireKernel(this);
    lab = createLab("kernel-namespace");
  });
  after(() => lab?.destroy());

  function hereIs(namespace: { readonly inode: bigint }): boolean {
    const here = currentNamespace(lab.calls);
    closeNamespace(lab.calls, here);
    return here.inode === namespace.inode;
  }

  it("insideNamespace acts inside and returns home, also when the action throws", () => {
    const pod = lab.namespace("pod").handle;
    assert.equal(
      insideNamespace(lab.calls, lab.home, pod, () => hereIs(pod)),
      true,
    );
    assert.ok(hereIs(lab.home));
    assert.throws(
      () =>
        insideNamespace(lab.calls, lab.home, pod, () => {
          throw new Error("action");
        }),
      { message: "action" },
    );
    assert.ok(hereIs(lab.home));
    assert.equal(isSameNamespace(pod, lab.home), false);
  });

  it("a path that is not a network namespace is refused with the path", () => {
    for (const file of ["/etc/hostname", "/proc/self/ns/uts", lab.scratch]) {
      const namespace = openNamespace(lab.calls, file);
      assert.throws(() => insideNamespace(lab.calls, lab.home, namespace, () => assert.fail("acted")), {
        code: "ERR_NAMESPACE",
        message: `enter network namespace ${file}: EINVAL (invalid argument)`,
      });
      closeNamespace(lab.calls, namespace);
    }
  });

  it("a path that is a FIFO is refused without waiting for a writer", () => {
    const fifo = path.join(lab.scratch, "fifo");
    execFileSync("mkfifo", [fifo]);
    const namespace = openNamespace(lab.calls, fifo);
    assert.throws(() => insideNamespace(lab.calls, lab.home, namespace, () => 1), { message: /fifo: EINVAL/ });
    closeNamespace(lab.calls, namespace);
  });

  it("each namespace has its own settings, also those of an interface", () => {
    const [one, two] = [lab.namespace("one"), lab.namespace("two")];
    one.writeSysctl("net/ipv4/ip_forward", "1");
    two.writeSysctl("net/ipv4/ip_forward", "0");
    assert.deepEqual([one.readSysctl("net/ipv4/ip_forward"), two.readSysctl("net/ipv4/ip_forward")], ["1", "0"]);
    one.route.request(createBridge({ name: "br.1+é", mac: parseMac("0a:58:0a:f4:01:01") }));
    one.writeSysctl("net/ipv6/conf/br.1+é/accept_ra", "2");
    assert.equal(one.exec("cat", ["/proc/sys/net/ipv6/conf/br.1+é/accept_ra"]).trim(), "2");
    assert.equal(two.readSysctl("net/ipv6/conf/br.1+é/accept_ra"), undefined);
    one.route.request(changeLink({ name: "br.1+é" }, { up: false }));
  });

  it("the error names a setting that refuses its value, and the errno", () => {
    const node = lab.namespace("three");
    assert.throws(() => node.writeSysctl("net/ipv4/ip_forward", "x"), {
      code: "ERR_SYSCALL",
      message: /\/proc\/sys\/net\/ipv4\/ip_forward: EINVAL/,
    });
  });
});
