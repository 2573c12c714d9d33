import assert from "node:assert/strict";
import { formatCidr, parseCidr } from "../../kernel/ip/cidr.ts";
import { parseMac } from "../../kernel/ip/mac.ts";
import {
  deleteAddress,
  dumpAddresses,
  type InterfaceAddress,
  newAddress,
  parseInterfaceAddress,
} from "../../kernel/route/interface_address.ts";
import { changeLink, createBridge, createVeth } from "../../kernel/route/link.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { suiteLab } from "../support/suite_lab.ts";
import { iprouteOne, pick, type Printed } from "./iproute.ts";

describe("kernel/route interface address", () => {
  let lab: Lab | undefined;
  let pod: LabNamespace;
  let eth0 = 0;

  before(function () {
    lab = suiteLab(this, "kernel-address");
    const node = lab.namespace("node");
    pod = lab.namespace("pod");
    node.route.request(createBridge({ name: "cni0", mac: parseMac("0a:58:0a:f4:01:01") }));
    node.route.request(changeLink({ name: "cni0" }, { up: true }));
    const host = { name: "dbv0", mac: parseMac("ae:58:0a:f4:01:07") };
    const peer = { name: "eth0", mac: parseMac("0a:58:0a:f4:01:07"), netnsFd: pod.handle.fd };
    node.route.request(createVeth({ host, peer, mtu: 0, master: node.link("cni0").index }));
    node.route.request(changeLink({ name: "dbv0" }, { up: true }));
    pod.route.request(changeLink({ name: "eth0" }, { up: true }));
    eth0 = pod.link("eth0").index;
  });

  function ours(filter?: { readonly family?: 4 | 6; readonly index?: number }): readonly InterfaceAddress[] {
    return pod.route
      .dump(dumpAddresses(filter))
      .map(parseInterfaceAddress)
      .filter((found) => found !== undefined);
  }

  function theirs(local: string): Printed {
    const all: unknown = iprouteOne(pod, "ip", "address show eth0")["addr_info"];
    assert.ok(Array.isArray(all));
    const found: unknown = all.find(
      (entry: unknown) => typeof entry === "object" && entry !== null && "local" in entry && entry.local === local,
    );
    assert.ok(typeof found === "object" && found !== null, `no ${local} on eth0`);
    return { ...found };
  }

  it("an IPv6 address answers at once and is never tentative, although the link runs DAD (B18, POD-23)", () => {
    assert.equal(pod.readSysctl("net/ipv6/conf/eth0/accept_dad"), "1");
    pod.route.request(newAddress(eth0, parseCidr("fd00:244:1::7/64")));
    const found = ours({ family: 6, index: eth0 }).find(({ address }) => formatCidr(address) === "fd00:244:1::7/64");
    assert.deepEqual([found?.tentative, found?.duplicateDetected, found?.scope], [false, false, 0]);
    const seen = theirs("fd00:244:1::7");
    assert.deepEqual(pick(seen, "tentative", "dadfailed", "nodad", "prefixlen"), {
      tentative: undefined,
      dadfailed: undefined,
      nodad: true,
      prefixlen: 64,
    });
  });

  it("a tentative address is read as tentative", () => {
    pod.exec("ip", ["address", "add", "fd00:244:1::8/64", "dev", "eth0"]);
    const found = ours({ family: 6 }).find(({ address }) => formatCidr(address) === "fd00:244:1::8/64");
    assert.equal(found?.tentative, true);
    pod.route.request(deleteAddress(eth0, parseCidr("fd00:244:1::8/64")));
  });

  const ipv4: readonly (readonly [cidr: string, local: string, broadcast: string | undefined])[] = [
    ["10.244.1.7/24", "10.244.1.7", "10.244.1.255"],
    ["10.245.0.1/30", "10.245.0.1", "10.245.0.3"],
    ["10.246.0.0/31", "10.246.0.0", undefined],
    ["10.247.0.7/32", "10.247.0.7", undefined],
  ];
  for (const [cidr, local, broadcast] of ipv4) {
    it(`adds ${cidr} with broadcast ${broadcast ?? "omitted"}`, () => {
      pod.route.request(newAddress(eth0, parseCidr(cidr)));
      assert.deepEqual(pick(theirs(local), "broadcast", "scope"), { broadcast, scope: "global" });
      assert.ok(ours({ family: 4, index: eth0 }).some(({ address }) => formatCidr(address) === cidr));
    });
  }

  it("a list has only addresses of the requested interface and family", () => {
    assert.ok(ours().some(({ index }) => index !== eth0));
    assert.ok(ours({ index: eth0 }).every(({ index }) => index === eth0));
    assert.ok(ours({ family: 4 }).every(({ address }) => typeof address.address === "number"));
    assert.equal(ours({ family: 4, index: eth0 }).length, 4);
    assert.throws(() => ours({ index: 99_999 }), {
      code: "ERR_NETLINK",
      message: "list addresses: no such device (ENODEV)",
    });
  });
});
