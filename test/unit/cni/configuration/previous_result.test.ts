import assert from "node:assert/strict";
import { chainedResult, previousResult, unchangedResult } from "../../../../cni/configuration/previous_result.ts";
import { type AddResult, resultObject } from "../../../../cni/result.ts";
import { supportedVersions } from "../../../../cni/version.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { assertRefusal } from "../../../support/cni/cni.ts";

const OURS: AddResult = {
  interfaces: [
    { name: "cni0", mac: "ce:00:00:00:00:01" },
    { name: "dbv000000000001", mac: "ae:00:00:00:00:01" },
    { name: "eth0", mac: "0a:58:0a:f4:01:02", sandbox: "/run/netns/a" },
  ],
  ips: [{ interface: 2, address: parseCidr("10.244.1.2/32"), gateway: parseAddress("10.244.1.1") }],
  routes: [{ destination: parseCidr("0.0.0.0/0"), gateway: parseAddress("10.244.1.1") }],
  dns: {},
};

/** A result of other plugins, with members and numbers that we do not know. */
const THEIRS = `{
  "cniVersion": "1.1.0",
  "interfaces": [
    {"name": "net1", "mac": "02:00:00:00:00:01", "sandbox": "/run/netns/a", "mtu": 1400, "x-id": 12345678901234567890123},
    {"name": "mv0", "socketPath": "/run/v.sock", "pciID": "0000:00:1f.6"}
  ],
  "ips": [{"interface": 0, "address": "192.0.2.7/24", "gateway": "192.0.2.1", "x-lease": 1.50}],
  "routes": [{"dst": "198.51.100.0/24", "gw": "192.0.2.1", "scope": 0, "x-cost": 1e400}],
  "dns": {"nameservers": ["192.0.2.53"], "x-ttl": 9007199254740993},
  "x-vendor": {"list": [1.0, -0, 18446744073709551615], "__proto__": {"polluted": true}}
}`;

function previous(text: string) {
  const stdin = `{"name": "n", "type": "drawbridge", "prevResult": ${text}}`;
  const input: unknown = JSON.parse(stdin);
  assert.ok(typeof input === "object" && input !== null && "prevResult" in input);
  assert.ok(typeof input.prevResult === "object" && input.prevResult !== null);
  return previousResult(input.prevResult, stdin) ?? assert.fail();
}

/** Removes white space, which is not handed on. */
const compact = (text: string): string => text.replaceAll(/\s/g, "");

describe("cni/previous_result (P17)", () => {
  it("P17: entries of other plugins come first, then ours, with the indexes of our interfaces shifted", () => {
    const result = chainedResult(OURS, "1.1.0", previous(THEIRS));
    assert.partialDeepStrictEqual(result, {
      cniVersion: "1.1.0",
      interfaces: [{ name: "net1" }, { name: "mv0" }, { name: "cni0" }, { name: "dbv000000000001" }, { name: "eth0" }],
      ips: [
        { interface: 0, address: "192.0.2.7/24" },
        { interface: 4, address: "10.244.1.2/32" },
      ],
      routes: [{ dst: "198.51.100.0/24" }, { dst: "0.0.0.0/0" }],
    });
  });

  it("P17: unknown members are kept, and every number as it was written", () => {
    const printed = JSON.stringify(chainedResult(OURS, "1.1.0", previous(THEIRS)));
    for (const piece of [
      '"x-id": 12345678901234567890123',
      '"socketPath": "/run/v.sock", "pciID": "0000:00:1f.6"',
      '"x-lease": 1.50',
      '"x-cost": 1e400',
      '"dns": {"nameservers": ["192.0.2.53"], "x-ttl": 9007199254740993}',
      '"x-vendor": {"list": [1.0, -0, 18446744073709551615], "__proto__": {"polluted": true}}',
    ]) {
      assert.ok(printed.includes(compact(piece)), `${piece} is not in ${printed}`);
    }
    assert.equal(Reflect.get({}, "polluted"), undefined);
  });

  it("P17: our DNS settings replace those of other plugins if there are any", () => {
    const result = chainedResult({ ...OURS, dns: { nameservers: ["10.0.0.53"] } }, "1.0.0", previous(THEIRS));
    assert.partialDeepStrictEqual(result, { dns: { nameservers: ["10.0.0.53"] } });
  });

  it("P17: a plugin that adds nothing hands the result on unchanged, in the version of the configuration", () => {
    assert.equal(JSON.stringify(unchangedResult(previous(THEIRS), "1.1.0")), compact(THEIRS));
  });

  it("P17: keys in any case are found, and an empty result does not change ours", () => {
    const result = chainedResult(OURS, "1.1.0", previous('{"INTERFACES": [{"name": "net1"}], "Ips": null}'));
    assert.partialDeepStrictEqual(result, {
      interfaces: [{ name: "net1" }, { name: "cni0" }],
      ips: [{ interface: 3 }],
    });
    for (const version of supportedVersions) {
      assert.deepEqual(chainedResult(OURS, version, previous("{}")), resultObject(OURS, version));
    }
  });

  it("P17: before 0.3.0, which had no chains, our block replaces theirs and the rest is kept", () => {
    const text = '{"cniVersion": "0.2.0", "ip4": {"ip": "192.0.2.7/24"}, "ip6": {"ip": "2001:db8::7/64"}, "x": 1.0}';
    const printed = JSON.stringify(chainedResult(OURS, "0.2.0", previous(text)));
    assert.ok(printed.includes('"ip4":{"ip":"10.244.1.2/32"'), printed);
    assert.ok(printed.includes('"ip6":{"ip":"2001:db8::7/64"}') && printed.includes('"x":1.0'), printed);
  });

  const malformed: readonly (readonly [string, string])[] = [
    ['{"interfaces": {}}', "prevResult.interfaces: {}; expected list"],
    ['{"interfaces": [{"mac": "02:00:00:00:00:01"}]}', "prevResult.interfaces[0].name"],
    ['{"ips": [{"address": "10.0.0.1"}]}', "prevResult.ips[0].address"],
    ['{"ips": [{"address": "10.0.0.1/24", "gateway": "fd00::1"}]}', "prevResult.ips[0].gateway"],
    ['{"interfaces": [{"name": "a"}], "ips": [{"address": "10.0.0.1/24", "interface": 1}]}', "ips[0].interface: 1"],
    ['{"interfaces": [{"name": "a"}], "ips": [{"address": "10.0.0.1/24", "interface": -1}]}', "ips[0].interface: -1"],
    ['{"interfaces": [{"name": "a"}], "ips": [{"address": "10.0.0.1/24", "interface": 0.5}]}', "ips[0].interface: 0.5"],
    ['{"routes": [{"dst": "default"}]}', "prevResult.routes[0].dst"],
    ['{"routes": [{"dst": "10.0.0.0/8", "gw": "x"}]}', "prevResult.routes[0].gw"],
    ['{"dns": {"nameservers": "10.0.0.1"}}', "prevResult.dns.nameservers"],
    [
      `{"ips": [${'{"address": "10.0.0.1/24"},'.repeat(1024)}{"address": "10.0.0.1/24"}]}`,
      "prevResult.ips: 1025; expected at most 1024",
    ],
  ];
  for (const [text, says] of malformed) {
    it(`P17: refuses ${text.slice(0, 90)} with code 7`, () => {
      assertRefusal(() => previous(text), { code: 7, says: [says] });
    });
  }
});
