import assert from "node:assert/strict";
import { Worker } from "node:worker_threads";
import { once } from "node:events";
import { parseMac } from "../../kernel/ip/mac.ts";
import { createBridge, dumpLinks, getLink, parseLink } from "../../kernel/route/link.ts";
import type { Lab } from "../lab/lab.ts";
import { createLab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { requireKernel } from "../support/privilege.ts";
import { iproute } from "./iproute.ts";

const LINKS = 500;
const mac = parseMac("0a:58:0a:f4:01:01");

describe("kernel/netlink with many links", () => {
  let lab: Lab | undefined;
  let node: LabNamespace;

  before(function () {
    requireKernel(this);
    lab = createLab("kernel-dump");
    node = lab.namespace("node");
  });
  after(() => lab?.destroy());

  it("carries out a batch whose answers would not fit the receive buffer at once", () => {
    const requests = Array.from({ length: LINKS }, (_, i) => createBridge({ name: `many${i === 250 ? 249 : i}`, mac }));
    const refused = node.route.batch(requests).filter(({ error }) => error !== undefined);
    assert.deepEqual(
      refused.map(({ error }) => error?.message),
      ["create bridge many249: already exists (EEXIST)"],
    );
  });

  it("reads the answers to a batch of as many questions", () => {
    const replies = node.route.batch(Array.from({ length: 200 }, () => getLink({ name: "many0" })));
    assert.ok(replies.every(({ error, messages }) => error === undefined && messages.length === 1));
  });

  it("lists all of them, in several datagrams", () => {
    const listed = node.route.dump(dumpLinks()).map(parseLink);
    assert.equal(listed.length, LINKS);
    assert.deepEqual(
      listed.map(({ index, name }) => [index, name]),
      iproute(node, "ip", "link show").map((link) => [link["ifindex"], link["ifname"]]),
    );
  });

  it("lists the links that stay, while others come and go", async () => {
    const worker = new Worker(new URL("link_churn.ts", import.meta.url), { workerData: { path: node.path } });
    await once(worker, "message");
    try {
      for (let i = 0; i < 50; i++) {
        const names = node.route.dump(dumpLinks()).map((message) => parseLink(message).name);
        assert.equal(new Set(names).size, names.length, "a link is listed twice");
        assert.equal(names.filter((name) => name.startsWith("many")).length, LINKS - 1);
      }
    } finally {
      await worker.terminate();
    }
  });
});
