import assert from "node:assert/strict";
import { Worker } from "node:worker_threads";
import { once } from "node:events";
import { parseMac } from "../../kernel/ip/mac.ts";
import type { Request } from "../../kernel/netlink/message.ts";
import { createVeth, dumpLinks, getLink, parseLink } from "../../kernel/route/link.ts";
import { createLab, type Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { requireKernel } from "../support/privilege.ts";
import { iproute } from "./iproute.ts";

/** The number of veth pairs. The kernel removes a bridge in 16 ms with rtnl held, and such a pair in 0.1 ms. */
const PAIRS = 250;
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

  function pair(number: number): Request {
    const peer = { name: `peer${number}`, mac, netnsFd: node.handle.fd };
    return createVeth({ host: { name: `many${number}`, mac }, peer, mtu: 0, master: 0 });
  }

  it("a long batch with one refusal in the middle is carried out", () => {
    const requests = Array.from({ length: PAIRS + 1 }, (_, i) => pair(i === 100 ? 99 : i));
    const refused = node.route.batch(requests).filter(({ error }) => error !== undefined);
    assert.deepEqual(
      refused.map(({ error }) => error?.message),
      ["create veth many99 with peer peer99: already exists (EEXIST)"],
    );
  });

  it("the answers to a batch are read that would not fit the receive buffer at once", () => {
    const replies = node.route.batch(Array.from({ length: 200 }, () => getLink({ name: "many0" })));
    assert.ok(replies.every(({ error, messages }) => error === undefined && messages.length === 1));
  });

  it("a list has all links, in several datagrams", () => {
    const listed = node.route.dump(dumpLinks()).map(parseLink);
    assert.equal(listed.length, 1 + 2 * PAIRS);
    assert.deepEqual(
      listed.map(({ index, name }) => [index, name]),
      iproute(node, "ip", "link show").map((link) => [link["ifindex"], link["ifname"]]),
    );
  });

  it("a list has every link that stays, while others come and go", async () => {
    const worker = new Worker(new URL("link_churn.ts", import.meta.url), { workerData: { path: node.path } });
    await once(worker, "message");
    try {
      for (let i = 0; i < 50; i++) {
        const names = node.route.dump(dumpLinks()).map((message) => parseLink(message).name);
        assert.equal(new Set(names).size, names.length, "a link is listed twice");
        assert.equal(names.filter((name) => name.startsWith("many")).length, PAIRS);
      }
    } finally {
      await worker.terminate();
    }
  });
});
