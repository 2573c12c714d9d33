import assert from "node:assert/strict";
import { parseAddress } from "../../kernel/ip/address.ts";
import { parseMac } from "../../kernel/ip/mac.ts";
import { changeLink, createBridge, deleteLink } from "../../kernel/route/link.ts";
import { deleteNeighbour, dumpNeighbours, parseNeighbour, setNeighbour } from "../../kernel/route/neighbour.ts";
import { createLab, type Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { requireKernel } from "../support/privilege.ts";
import { iproute, pick } from "./iproute.ts";

const macs = [parseMac("0a:58:0a:f4:01:07"), parseMac("0a:58:0a:f4:01:08")] as const;

describe("kernel/route neighbour", () => {
  let lab: Lab | undefined;
  let node: LabNamespace;
  let bridge = 0;

  before(function () {
    requireKernel(this);
    lab = createLab("kernel-neighbour");
    node = lab.namespace("node");
    node.route.request(createBridge({ name: "cni0", mac: parseMac("0a:58:0a:f4:01:01") }));
    node.route.request(changeLink({ name: "cni0" }, { up: true }));
    bridge = node.link("cni0").index;
  });
  after(() => lab?.destroy());

  for (const text of ["10.244.1.7", "fd00:244:1::7"]) {
    const address = parseAddress(text);
    const family = typeof address === "number" ? 4 : 6;

    it(`a permanent entry for ${text} is set, replaced and deleted`, () => {
      for (const mac of macs) {
        node.route.request(setNeighbour(bridge, address, mac));
        const [seen] = iproute(node, "ip", `-${family} neighbour show to ${text} dev cni0`);
        assert.deepEqual(pick(seen ?? {}, "lladdr", "state"), { lladdr: mac, state: ["PERMANENT"] });
        const found = node.route.dump(dumpNeighbours(family)).map(parseNeighbour);
        assert.deepEqual(
          found.find((entry) => entry?.address === address),
          { index: bridge, address, mac, permanent: true },
        );
      }
      node.route.request(deleteNeighbour(bridge, address));
      assert.equal(iproute(node, "ip", `-${family} neighbour show to ${text} nud permanent`).length, 0);
    });
  }

  it("an entry that ip set with another state is read as not permanent", () => {
    node.exec("ip", ["neighbour", "add", "10.244.1.9", "lladdr", macs[0], "dev", "cni0", "nud", "stale"]);
    const found = node.route.dump(dumpNeighbours(4)).map(parseNeighbour);
    assert.equal(found.find((entry) => entry?.address === parseAddress("10.244.1.9"))?.permanent, false);
  });

  it("the error describes a missing entry and a missing link", () => {
    assert.throws(() => node.route.request(deleteNeighbour(bridge, parseAddress("10.9.9.9"))), {
      message: /^delete neighbour 10\.9\.9\.9 on link \d+: .*\(ENOENT\)$/,
    });
    node.route.request(deleteLink({ index: bridge }));
    assert.throws(() => node.route.request(setNeighbour(bridge, parseAddress("10.9.9.9"), macs[0])), {
      message: /\(ENODEV\)$/,
    });
  });
});
