import assert from "node:assert/strict";
import fc from "fast-check";
import { bridgeMac, hostInterfaceName, hostMac, podMac } from "../../../attachment/names_and_macs.ts";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { parseMac } from "../../../kernel/ip/mac.ts";
import { sha256 } from "../../support/cni/cni.ts";

const anyName = fc.string({ unit: fc.constantFrom("a", "Z", "0", "_", ".", "-"), minLength: 1, maxLength: 200 });
const anyAddress = fc
  .oneof(
    fc.ipV4(),
    fc.ipV6().filter((text) => !text.includes(".")),
  )
  .map((text) => parseAddress(text));

describe("cni/names_and_macs", () => {
  it("the host end is named dbv and 12 hexadecimal digits, the longest name that the kernel takes (B23)", () => {
    assert.equal(hostInterfaceName(sha256, "c1", "eth0"), "dbv18b8fe0ca3d6");
    fc.assert(
      fc.property(anyName, anyName, (id, ifname) => {
        assert.match(hostInterfaceName(sha256, id, ifname), /^dbv[0-9a-f]{12}$/);
      }),
    );
  });

  it("a pod's MAC is derived from its address", () => {
    assert.equal(podMac(sha256, parseAddress("10.244.1.7")), "0a:58:0a:f4:01:07");
    assert.match(podMac(sha256, parseAddress("fd00:244::c0a8:1")), /^0e(:[0-9a-f]{2}){5}$/);
  });

  it("MACs of pods, host ends and bridges have different prefixes, all locally administered and unicast (B7)", () => {
    fc.assert(
      fc.property(anyName, anyName, anyAddress, (id, name, address) => {
        const host = hostMac(sha256, hostInterfaceName(sha256, id, name));
        const bridge = bridgeMac(sha256, name, "10.244.1.1");
        const pod = podMac(sha256, address);
        assert.deepEqual(
          [pod, host, bridge].map((mac) => mac.slice(0, 2)),
          [typeof address === "number" ? "0a" : "0e", "ae", "ce"],
        );
        for (const mac of [pod, host, bridge]) {
          assert.equal(parseMac(mac), mac);
          assert.equal(Number.parseInt(mac.slice(0, 2), 16) & 3, 2);
        }
      }),
    );
  });

  it("a bridge's MAC depends only on its name and gateway (B7)", () => {
    assert.equal(bridgeMac(sha256, "cni0", "10.244.1.1"), bridgeMac(sha256, "cni0", "10.244.1.1"));
    assert.notEqual(bridgeMac(sha256, "cni0", "10.244.1.1"), bridgeMac(sha256, "cni0", "10.244.2.1"));
    assert.notEqual(bridgeMac(sha256, "cni0", "10.244.1.1"), bridgeMac(sha256, "cni1", "10.244.1.1"));
  });
});
