import assert from "node:assert/strict";
import { createLab, type Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { Streams } from "../lab/stream.ts";
import { requireKernel } from "../support/privilege.ts";

const REPLACEMENTS = 20;
/** Further rules. In a larger transaction rules are in force for longer before their sets of ranges are filled. */
const OTHERS = 200;
const BYTES_PER_SECOND = 20_000_000;

/** A table that counts packets to 127.0.0.1 that a set of ranges with this address does not match. */
const TABLE = `table ip replaced {
  set kept { type ipv4_addr; flags interval; elements = { 127.0.0.0/8, 224.0.0.0/4 }
  }
  set ready { type ipv4_addr; flags interval; elements = { 0.0.0.0/0 }
  }
${Array.from({ length: OTHERS }, (_, i) => `  chain other${i} {\n    ip daddr 10.0.0.1 drop\n  }\n`).join("")}
  chain output {
    type filter hook output priority 0
    ip daddr != @kept meta mark set mark or 1
    ip saddr @ready ip daddr != @kept meta mark set mark or 2
  }
}
`;

/** A separate table, since counters are replaced with their table. */
const COUNTS = `table ip counts {
  counter unseen {}
  counter unseen_when_ready {}
  chain output {
    type filter hook output priority 10
    meta mark and 1 == 1 counter name unseen
    meta mark and 2 == 2 counter name unseen_when_ready
  }
}
`;

describe("sets of ranges while their table is replaced", function () {
  this.timeout(60_000);
  let lab: Lab;
  let namespace: LabNamespace;
  let streams: Streams;

  before(function () {
    requireKernel(this);
    lab = createLab("ranges");
    namespace = lab.namespace("one");
    streams = new Streams();
  });
  after(async () => {
    await streams?.close();
    lab?.destroy();
  });

  it("POD-19: an element of a set of ranges is found as soon as one is found in a set that was filled later", async () => {
    await streams.serve(namespace);
    namespace.exec("nft", ["-f", "-"], COUNTS + TABLE);
    const stop = streams.send(namespace, "udp", "127.0.0.1", BYTES_PER_SECOND);
    for (let left = REPLACEMENTS; left > 0; left--)
      namespace.exec("nft", ["-f", "-"], `delete table ip replaced\n${TABLE}`);
    await stop();
    const packets = (name: string): number =>
      Number(/packets (\d+)/.exec(namespace.exec("nft", ["list", "counter", "ip", "counts", name]))?.[1]);
    console.log(`      ${packets("unseen")} packets did not find the element`);
    assert.equal(packets("unseen_when_ready"), 0);
  });
});
