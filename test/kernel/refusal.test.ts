import assert from "node:assert/strict";
import { parseMac } from "../../kernel/ip/mac.ts";
import { changeLink, createBridge, deleteLink, getLink } from "../../kernel/route/link.ts";
import { findLink } from "../../kernel/route/socket.ts";
import type { Request } from "../../kernel/netlink/message.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { suiteLab } from "../support/suite_lab.ts";

const mac = parseMac("0a:58:0a:f4:01:01");

describe("kernel/route refusals", () => {
  let lab: Lab | undefined;
  let node: LabNamespace;
  let bridge = 0;

  before(function () {
    lab = suiteLab(this, "kernel-refusal");
    node = lab.namespace("node");
    node.route.request(createBridge({ name: "cni0", mac }));
    node.route.request(changeLink({ name: "cni0" }, { up: true }));
    bridge = node.link("cni0").index;
  });

  const cases: readonly (readonly [title: string, request: () => Request, message: RegExp])[] = [
    [
      "a name that is taken",
      () => createBridge({ name: "cni0", mac }),
      /^create bridge cni0: already exists \(EEXIST\)$/,
    ],
    ["a name that is too long", () => createBridge({ name: "sixteen-letters0", mac }), /\(ERANGE, attribute name\)$/],
    [
      "an MTU above what a bridge takes",
      () => changeLink({ index: bridge }, { mtu: 70_000 }),
      /mtu greater than device maximum \(EINVAL\)$/,
    ],
    ["a missing link, by name", () => deleteLink({ name: "dbv9" }), /^delete link dbv9: no such device \(ENODEV\)$/],
    [
      "a missing link, by index",
      () => changeLink({ index: 99_999 }, { up: true }),
      /^change link 99999: .*\(ENODEV\)$/,
    ],
  ];
  for (const [title, request, message] of cases) {
    it(`the error describes ${title}, and no link is left`, () => {
      const before = node.links();
      assert.throws(() => node.route.request(request()), { code: "ERR_NETLINK", message });
      assert.deepEqual(node.links(), before);
    });
  }

  it("findLink finds nothing without a link, and throws for an impossible name", () => {
    assert.equal(findLink(node.route, { name: "dbv9" }), undefined);
    assert.equal(findLink(node.route, { index: 99_999 }), undefined);
    assert.throws(() => findLink(node.route, { name: "sixteen-letters0" }), {
      message: /^get link sixteen-letters0: .*\(ERANGE/,
    });
    assert.throws(() => node.route.request(getLink({ name: "dbv9" })), { message: /\(ENODEV\)$/ });
  });

  it("an alias of 254 bytes is accepted, since the kernel's limit of 255 includes the NUL", () => {
    node.route.request(changeLink({ index: bridge }, { alias: "a".repeat(254) }));
    assert.equal(node.link("cni0").alias, "a".repeat(254));
    assert.throws(() => node.route.request(changeLink({ index: bridge }, { alias: "a".repeat(255) })), {
      message: /\(ERANGE, attribute alias\)$/,
    });
  });
});
