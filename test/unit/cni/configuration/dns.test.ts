import assert from "node:assert/strict";
import { dnsOf, parseResolvConf } from "../../../../cni/configuration/dns.ts";
import { assertRefusal, configurationOf, ipamInput } from "../../../support/cni/cni.ts";
import { fakeNode } from "../../../support/cni/fake_node.ts";
import { useTemporaryDirectory, writeForeign } from "../../../support/ipam/address_store.ts";

describe("cni/dns", () => {
  it("every keyword is read: the last domain and search count, and servers and options add up", () => {
    const text =
      "# a\n;b\n\nnameserver 10.0.0.1\n  nameserver\tfd00::53  \r\ndomain x\nsearch a\noptions ndots:5\ndomain example.org\nsearch a.example b.example\noptions edns0\n";
    assert.deepEqual(parseResolvConf(text), {
      nameservers: ["10.0.0.1", "fd00::53"],
      domain: "example.org",
      search: ["a.example", "b.example"],
      options: ["ndots:5", "edns0"],
    });
  });

  it("a text without values gives no settings", () => {
    for (const text of ["", "nameserver", "nameserver \n\nsearch\n#search x", "sortlist 10.0.0.0", "\0\0"]) {
      assert.deepEqual(parseResolvConf(text), {});
    }
  });

  describe("of a configuration", () => {
    const directory = useTemporaryDirectory();

    it("the configuration's own settings override the file", () => {
      const input = { ...ipamInput({ resolvConf: `${directory()}/missing` }), dns: { nameservers: ["10.96.0.10"] } };
      assert.deepEqual(dnsOf(fakeNode(directory()), configurationOf(input)), { nameservers: ["10.96.0.10"] });
    });

    it("the file that ipam.resolvConf names is read", () => {
      const path = `${directory()}/resolv.conf`;
      writeForeign(path, "nameserver 10.0.0.1\n");
      assert.deepEqual(dnsOf(fakeNode(directory()), configurationOf(ipamInput({ resolvConf: path }))), {
        nameservers: ["10.0.0.1"],
      });
    });

    it("a file that is missing, cannot be read or is too long is refused with code 5 and its path", () => {
      for (const [path, ...says] of [
        [`${directory()}/missing`, `ipam.resolvConf: "${directory()}/missing" does not exist`],
        [directory(), "ipam.resolvConf: read ", "EISDIR"],
        ["/dev/zero", "ipam.resolvConf: read ", "EFBIG"],
      ] as const) {
        assertRefusal(() => dnsOf(fakeNode(directory()), configurationOf(ipamInput({ resolvConf: path }))), {
          code: 5,
          says: [...says, path],
        });
      }
    });
  });
});
