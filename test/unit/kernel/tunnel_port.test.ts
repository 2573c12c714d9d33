import assert from "node:assert/strict";
import { be16, bytes, nested, string } from "../../../kernel/netlink/attribute.ts";
import { attributeBytes } from "../../../kernel/netlink/message.ts";
import { RTM_NEWLINK } from "../../../kernel/route/link.ts";
import { tunnelPortOf } from "../../../kernel/route/vxlan.ts";

/** Returns the port in a message about a link of this kind, whose attribute of this number has the port 7000. */
function portOf(kind: string, attribute: number): number | undefined {
  const data = attributeBytes({ port: [attribute, be16] } as const, { port: 7000 });
  const linkInfo = { kind: [1, string], data: [2, bytes] } as const;
  const attributes = attributeBytes({ linkInfo: [18, nested(linkInfo)] } as const, { linkInfo: { kind, data } });
  const body = Uint8Array.of(...new Uint8Array(16), ...attributes);
  return tunnelPortOf({ type: RTM_NEWLINK, flags: 0, sequence: 0, body });
}

describe("kernel/route: ports of tunnels", () => {
  it("GUARD-17: the ports of VXLAN, Geneve and bareudp links are read, and no number of other links", () => {
    assert.deepEqual([portOf("vxlan", 15), portOf("geneve", 5), portOf("bareudp", 1)], [7000, 7000, 7000]);
    assert.deepEqual([portOf("bridge", 5), portOf("vxlan", 5)], [undefined, undefined]);
  });
});
