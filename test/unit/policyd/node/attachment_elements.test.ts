import assert from "node:assert/strict";
import fc from "fast-check";
import type { AttachmentRecord } from "../../../../attachment/attachment.ts";
import { formatAddress, parseAddress } from "../../../../kernel/ip/address.ts";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { linkLocalAddress, macFromBytes, parseMac } from "../../../../kernel/ip/mac.ts";
import { checkComment } from "../../../../kernel/nftables/model/identifier.ts";
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

  it("the comment of an element is the container ID without a known pod, in characters that nft can read back", () => {
    const { pod, ...withoutPod } = RECORD;
    assert.ok(pod !== undefined);
    assert.equal(attachmentElements(withoutPod)[0]?.element.comment, "c1");
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 300 }), (name) => {
        for (const { element } of attachmentElements({ ...RECORD, pod: { ...pod, name } })) {
          assert.equal(checkComment(element.comment ?? ""), element.comment);
        }
      }),
    );
  });

  it("the link-local address follows from the MAC: fe80::/64, the universal bit inverted, ff:fe in the middle", () => {
    // The examples of RFC 4291 appendix A and RFC 2464 section 4.
    assert.equal(formatAddress(linkLocalAddress(parseMac("34-56-78-9A-BC-DE"))), "fe80::3656:78ff:fe9a:bcde");
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 6, maxLength: 6 }), (bytes) => {
        const address = BigInt(linkLocalAddress(macFromBytes(bytes)));
        const back = [56n, 48n, 40n, 16n, 8n, 0n].map((shift) => Number((address >> shift) & 0xffn));
        back[0] = (back[0] ?? 0) ^ 2;
        assert.deepEqual(back, [...bytes]);
        assert.equal(address >> 64n, 0xfe80_0000_0000_0000n);
        assert.equal((address >> 24n) & 0xffffn, 0xfffen);
      }),
    );
  });
});
