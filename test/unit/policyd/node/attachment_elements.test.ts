import assert from "node:assert/strict";
import type { AttachmentRecord } from "../../../../attachment/attachment.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { parseMac } from "../../../../kernel/ip/mac.ts";
import { RECORDED_HOST } from "../../../support/cni/attachment_record.ts";
import { attachmentElements } from "../../../../policyd/node/attachment_elements.ts";

const RECORD: AttachmentRecord = {
  version: 1,
  bootId: "b",
  network: "drawbridge",
  dataDir: "/var/lib/cni/networks",
  bridge: "drawbridge0",
  containerId: "c1",
  ifname: "eth0",
  netns: { path: "/run/netns/c1", inode: "1" },
  pod: { namespace: "default", name: "web", uid: "u" },
  addresses: ["10.244.1.7/32", "fd00:244:1::7/128", "10.245.1.7/32"].map((text) => parseCidr(text)),
  mac: parseMac("0a:58:0a:f4:01:07"),
  hostInterface: "dbv0a1b2c3d4e5f",
  hostMac: parseMac("ae:00:00:00:00:01"),
  portMappings: [],
  host: RECORDED_HOST,
};

describe("the elements of an attachment in the node's sets", () => {
  const asking: AttachmentRecord = {
    ...RECORD,
    portMappings: [{ hostPort: 80, containerPort: 8080, protocol: "udp" }],
    ipMasq: true,
    macspoofchk: true,
    policyd: {
      serviceCidrs: ["10.96.0.0/12", "10.97.0.0/16"].map((text) => parseCidr(text)),
      nonMasqueradeCidrs: ["10.244.1.0/24", "fd00:244:1::/64"].map((text) => parseCidr(text)),
    },
  };
  const guarding = attachmentElements(RECORD);

  it("POD-07 B11 B12: host ports and masquerade come from the record, and macspoofchk adds nothing to the guard", () => {
    const found = attachmentElements(asking).slice(guarding.length);
    assert.deepEqual(attachmentElements(asking).slice(0, guarding.length), guarding);
    for (const { table, element } of found) {
      assert.deepEqual([table.family, table.name, element.comment], ["inet", "drawbridge", "default/web"]);
    }
    assert.deepEqual(
      found.map(({ set, element: { data } }) => [set, data]),
      [
        ["ports4", [parseAddress("10.244.1.7"), 8080]],
        ["exceptions4", undefined],
        ["hairpin4", undefined],
        ["ports6", [parseAddress("fd00:244:1::7"), 8080]],
        ["hairpin6", undefined],
        ["masqueraded4", undefined],
        ["masqueraded4", undefined],
        ["unmasqueraded4", undefined],
        ["unmasqueraded4", undefined],
        ["masqueraded6", undefined],
        ["unmasqueraded6", undefined],
      ],
    );
  });

  it("a pod whose rules the plugin keeps has only the guard's elements", () => {
    const { policyd, ...alone } = asking;
    assert.ok(policyd !== undefined);
    assert.deepEqual(attachmentElements(alone), guarding);
  });

  /** The elements of an attachment in the table of a family, in the order in which they are claimed. */
  const inTable = (family: string) =>
    attachmentElements(RECORD).flatMap(({ table, set, element }) => {
      if (table.family !== family) return [];
      assert.deepEqual([table.name, element.comment], ["drawbridge", "default/web"]);
      return [[set, ...element.key]];
    });

  it("GUARD-01: a pod's guard elements are its addresses, the link-local address of its MAC, and its MAC", () => {
    const [port, mac] = [RECORD.hostInterface, RECORD.mac];
    assert.deepEqual(inTable("bridge"), [
      ["pod4", port, mac, parseAddress("10.244.1.7")],
      ["pod6", port, mac, parseAddress("fd00:244:1::7")],
      ["pod4", port, mac, parseAddress("10.245.1.7")],
      ["pod6", port, mac, parseAddress("fe80::858:aff:fef4:107")],
      ["podmac", port, mac],
    ]);
  });

  it("ENDS-01 ENDS-04: each pair of a pod's addresses in one family is an element, and so is its link-local address", () => {
    const [first, v6, second, linkLocal] = ["10.244.1.7", "fd00:244:1::7", "10.245.1.7", "fe80::858:aff:fef4:107"].map(
      (text) => parseAddress(text),
    );
    assert.deepEqual(inTable("inet"), [
      ["ends4", first, first],
      ["ends4", first, second],
      ["ends6", v6, v6],
      ["advertised6", v6, v6],
      ["ends4", second, first],
      ["ends4", second, second],
      ["ends6", linkLocal, linkLocal],
      ["advertised6", linkLocal, linkLocal],
    ]);
  });
});
