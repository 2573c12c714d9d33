import assert from "node:assert/strict";
import { dnsOf, parseResolvConf } from "../../../cni/dns.ts";
import { assertRefusal, configurationOf, ipamInput } from "../../support/cni.ts";
import { fakeNode } from "../../support/fake_node.ts";
import { useTemporaryDirectory, writeForeign } from "../../support/address_store.ts";

describe("cni/dns", () => {
  it("reads every keyword, with comments, blanks and tabs", () => {
    const text =
      "# a\n;b\n\nnameserver 10.0.0.1\n  nameserver\tfd00::53  \r\ndomain example.org\nsearch a.example b.example\noptions ndots:5 edns0\n";
    assert.deepEqual(parseResolvConf(text), {
      nameservers: ["10.0.0.1", "fd00::53"],
      domain: "example.org",
      search: ["a.example", "b.example"],
      options: ["ndots:5", "edns0"],
    });
  });

  it("takes the last domain and search, and adds up servers and options", () => {
    assert.deepEqual(
      parseResolvConf("search a\nsearch b c\ndomain x\ndomain y\noptions p\nnameserver 1.1.1.1\noptions q"),
      {
        nameservers: ["1.1.1.1"],
        domain: "y",
        search: ["b", "c"],
        options: ["p", "q"],
      },
    );
  });

  it("finds nothing in a text without values", () => {
    for (const text of ["", "nameserver", "nameserver \n\nsearch\n#search x", "sortlist 10.0.0.0", "\0\0"]) {
      assert.deepEqual(parseResolvConf(text), {});
    }
  });

  describe("of a configuration", () => {
    const directory = useTemporaryDirectory();

    it("prefers the configuration's own settings to the file", () => {
      const input = { ...ipamInput({ resolvConf: `${directory()}/missing` }), dns: { nameservers: ["10.96.0.10"] } };
      assert.deepEqual(dnsOf(fakeNode(directory()), configurationOf(input)), { nameservers: ["10.96.0.10"] });
    });

    it("reads the file that ipam.resolvConf names", () => {
      const path = `${directory()}/resolv.conf`;
      writeForeign(path, "nameserver 10.0.0.1\n");
      assert.deepEqual(dnsOf(fakeNode(directory()), configurationOf(ipamInput({ resolvConf: path }))), {
        nameservers: ["10.0.0.1"],
      });
      assert.deepEqual(dnsOf(fakeNode(directory()), configurationOf({ ...ipamInput({ resolvConf: path }), dns: {} })), {
        nameservers: ["10.0.0.1"],
      });
    });

    it("refuses a file it cannot read, with code 5 and its path", () => {
      const path = `${directory()}/missing`;
      assertRefusal(() => dnsOf(fakeNode(directory()), configurationOf(ipamInput({ resolvConf: path }))), {
        code: 5,
        says: [`ipam.resolvConf: ${JSON.stringify(path)} does not exist`],
      });
    });

    it("refuses a file it cannot read or that is too long to be one, with code 5", () => {
      for (const [path, errno] of [
        [directory(), "EISDIR"],
        ["/dev/zero", "EFBIG"],
      ] as const) {
        assertRefusal(() => dnsOf(fakeNode(directory()), configurationOf(ipamInput({ resolvConf: path }))), {
          code: 5,
          says: ["ipam.resolvConf: read ", path, errno],
        });
      }
    });

    it("has none when nothing names any", () => {
      assert.deepEqual(dnsOf(fakeNode(directory()), configurationOf(ipamInput({}))), {});
    });
  });
});
