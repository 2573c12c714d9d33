import assert from "node:assert/strict";
import { parseAddress } from "../../kernel/ip/address.ts";
import { parseCidr } from "../../kernel/ip/cidr.ts";
import { rangeOf } from "../../kernel/ip/ranges.ts";
import { tableChanges } from "../../kernel/nftables/encode/change.ts";
import type { Element } from "../../kernel/nftables/model/object.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import { formatTable } from "../../kernel/nftables/text/text.ts";
import { podShareElement } from "../../policyd/node/masquerade/share_rules.ts";
import { attachedElements } from "../../policyd/node/tables/attached_addresses.ts";
import { tunnelPortElements } from "../../policyd/node/tables/other_tunnels.ts";
import { podRangeElement, tunnelEndElements } from "../../policyd/node/tables/tunnel_guard.ts";
import { nodeTables } from "../../policyd/node/tables/tables.ts";
import { attachmentElements } from "../../policyd/node/attachment_elements.ts";
import { keptElement } from "../../policyd/protection/nat_exemption.ts";
import type { ProtectedSocket } from "../../objects/socket_refusal.ts";
import { createLab } from "../lab/lab.ts";
import { NODE_CONFIGURATION } from "../support/guard/guarded_node.ts";
import { attachmentRecord } from "../support/cni/attachment_record.ts";
import { normalListing } from "../support/nftables/listing.ts";
import { requireKernel } from "../support/privilege.ts";

const SHARE = { first: 1024, last: 3000 };
/** The one set that stays empty: its elements lead to chains that come and go. */
const EMPTY = "port_shares";

const ELEMENTS: ReadonlyMap<string, readonly Element[]> = new Map([
  ["pod4", [{ key: ["dbv0a1b2c3d4e5f", "0a:58:0a:f4:01:07", parseAddress("10.244.1.7")], comment: "default/web" }]],
  ["pod6", [{ key: ["dbv0a1b2c3d4e5f", "0a:58:0a:f4:01:07", parseAddress("fd00:244:1::7")] }]],
  ["on_link_pair4", [{ key: [parseAddress("192.0.2.1"), parseAddress("192.0.2.1")] }]],
  ["on_link_pair6", [{ key: [parseAddress("2001:db8::1"), parseAddress("2001:db8::1")] }]],
  ...[keptElement, (socket: ProtectedSocket) => podShareElement(socket.address, [SHARE])].flatMap((elementOf) =>
    ["192.0.2.1", "2001:db8::1"].map((text) => {
      const { set, element } = elementOf({
        address: parseAddress(text),
        protocol: "TCP",
        port: 6443,
        owner: "the API server",
      });
      return [set, [element]] as const;
    }),
  ),
  ["podmac", [{ key: ["dbv0a1b2c3d4e5f", "0a:58:0a:f4:01:07"] }]],
]);

const RULED = attachmentRecord({
  portMappings: [
    { hostPort: 80, containerPort: 8080, protocol: "tcp" },
    { hostPort: 53, containerPort: 53, protocol: "udp", hostIp: parseAddress("192.0.2.1") },
    { hostPort: 53, containerPort: 53, protocol: "sctp", hostIp: parseAddress("2001:db8::1") },
  ],
  ipMasq: true,
  policyd: {
    serviceCidrs: ["10.96.0.0/12", "fd00:96::/112"].map((text) => parseCidr(text)),
    nonMasqueradeCidrs: ["10.244.0.0/16", "192.0.2.0/24", "fd00:244::/32"].map((text) => parseCidr(text)),
  },
});
const ADDRESSES = ["192.0.2.1", "2001:db8::1"].map((text) => parseAddress(text));
const CLAIMS = Map.groupBy(
  [
    ...attachmentElements(RULED).filter(({ table }) => table.family === "inet"),
    ...attachedElements(ADDRESSES),
    ...["10.244.1.0/24", "fd00:244:1::/64"].map((text) => podRangeElement(rangeOf(parseCidr(text)))),
    ...tunnelPortElements([6784]),
    ...tunnelEndElements({ internal: ADDRESSES, external: [], implied: [] }, false),
  ],
  ({ set }) => set,
);

/** Returns the elements that one pod has in a set. */
function elementsIn(set: string): readonly Element[] {
  return ELEMENTS.get(set) ?? CLAIMS.get(set)?.map(({ element }) => element) ?? [];
}

describe("the node's tables in the kernel", () => {
  before(function () {
    requireKernel(this);
  });

  it("nft lists the node's tables as we print them, and loads its own listing again", () => {
    using lab = createLab("node-tables");
    const [node, copy] = [lab.namespace("node"), lab.namespace("copy")];
    const nftables = node.inside(() => new NftablesSocket(lab.calls));
    for (const table of nodeTables(NODE_CONFIGURATION)) {
      const elements = new Map(table.sets.map(({ name }) => [name, elementsIn(name)]));
      // Only packets fill the dynamic sets.
      for (const { name, isDynamic } of table.sets)
        assert.ok(isDynamic || name === EMPTY || elementsIn(name).length > 0, `something is in ${name}`);
      nftables.commit(tableChanges(table, elements));
      const list = ["-y", "list", "table", table.family, table.name];
      const listing = node.exec("nft", list);
      assert.equal(normalListing(listing), normalListing(formatTable(table, elements)));
      copy.exec("nft", ["-f", "-"], listing);
      assert.equal(normalListing(copy.exec("nft", list)), normalListing(listing));
    }
    nftables.close();
  });
});
