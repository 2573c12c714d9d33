import assert from "node:assert/strict";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { attachedAddresses, elementsOnBridge } from "../../../../policyd/node/tables/attached_addresses.ts";

describe("policyd/node/attached_addresses", () => {
  const attachment = { addresses: ["10.244.1.5/24", "fd00:244:1::5/64"].map((text) => parseCidr(text)), bridge: "br1" };

  it("GUARD-16: the sets have each address of a pod of the daemon's bridge, and none of a pod on another one", () => {
    const { sets } = attachedAddresses("br1");
    const filled = elementsOnBridge(attachment, "br1").map(({ set }) => set);
    assert.deepEqual(
      filled,
      sets.map(({ name }) => name),
    );
    assert.deepEqual(elementsOnBridge(attachment, "br2"), []);
  });
});
