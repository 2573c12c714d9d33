import assert from "node:assert/strict";
import { type AddResult, defaultRoute, resultObject } from "../../../cni/result.ts";
import type { CniVersion } from "../../../cni/version.ts";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { assertRefusal } from "../../support/cni/cni.ts";

const dualStack: AddResult = {
  interfaces: [
    { name: "eth0", mac: "0a:58:0a:f4:01:02", mtu: 1400, sandbox: "/run/netns/c1" },
    { name: "cni0", mac: "ce:00:00:00:00:01", mtu: 1400 },
    { name: "dbv0", mac: "ae:00:00:00:00:01", mtu: 1400 },
  ],
  ips: [
    { interface: 0, address: parseCidr("10.244.1.2/32"), gateway: parseAddress("10.244.1.1") },
    { interface: 0, address: parseCidr("fd00:244:1::2/128"), gateway: parseAddress("fd00:244:1::1") },
  ],
  routes: [
    { destination: parseCidr("0.0.0.0/0"), gateway: parseAddress("10.244.1.1") },
    { destination: parseCidr("fd00::/8") },
  ],
  dns: { nameservers: ["10.96.0.10"], search: ["svc"] },
};

/** Returns the result as the runtime reads it, without what JSON omits. */
function printed(result: AddResult, version: CniVersion): unknown {
  return JSON.parse(JSON.stringify(resultObject(result, version)));
}

const withoutMtu = [
  { name: "eth0", mac: "0a:58:0a:f4:01:02", sandbox: "/run/netns/c1" },
  { name: "cni0", mac: "ce:00:00:00:00:01" },
  { name: "dbv0", mac: "ae:00:00:00:00:01" },
];
const routes = [{ dst: "0.0.0.0/0", gw: "10.244.1.1" }, { dst: "fd00::/8" }];
const dns = { nameservers: ["10.96.0.10"], search: ["svc"] };

describe("cni/result", () => {
  it("prints the options that a route has, and no others", () => {
    const [first] = dualStack.routes;
    assert.ok(first !== undefined);
    const options = { mtu: 1300, advmss: 1200, priority: 77, table: 100 };
    for (const version of ["0.4.0", "1.0.0", "1.1.0"] as const) {
      const result = printed({ ...dualStack, routes: [{ ...first, ...options }] }, version);
      assert.ok(typeof result === "object" && result !== null && "routes" in result);
      assert.deepEqual(result.routes, [{ dst: "0.0.0.0/0", gw: "10.244.1.1", ...options }]);
    }
  });

  for (const version of ["0.1.0", "0.2.0"] as const) {
    it(`prints ${version} with a block per family and its routes (P9, P10)`, () => {
      assert.deepEqual(printed(dualStack, version), {
        cniVersion: version,
        ip4: { ip: "10.244.1.2/32", gateway: "10.244.1.1", routes: [{ dst: "0.0.0.0/0", gw: "10.244.1.1" }] },
        ip6: { ip: "fd00:244:1::2/128", gateway: "fd00:244:1::1", routes: [{ dst: "fd00::/8" }] },
        dns,
      });
    });

    it(`refuses a result that ${version} cannot express, with code 2 (P11, B4)`, () => {
      const twice = { ...dualStack, ips: [...dualStack.ips, { address: parseCidr("fd00:244:2::2/128") }] };
      assertRefusal(() => resultObject(twice, version), {
        code: 2,
        says: [`CNI version ${version} does not support more than 1 address per family`],
      });
      assertRefusal(() => resultObject({ ...dualStack, ips: [] }, version), {
        code: 2,
        says: ["cannot convert: no valid IP addresses"],
      });
    });
  }

  for (const version of ["0.3.0", "0.3.1", "0.4.0"] as const) {
    it(`prints ${version} with the family of each address, without an MTU (P10)`, () => {
      assert.deepEqual(printed(dualStack, version), {
        cniVersion: version,
        interfaces: withoutMtu,
        ips: [
          { version: "4", interface: 0, address: "10.244.1.2/32", gateway: "10.244.1.1" },
          { version: "6", interface: 0, address: "fd00:244:1::2/128", gateway: "fd00:244:1::1" },
        ],
        routes,
        dns,
      });
    });
  }

  for (const version of ["1.0.0", "1.1.0"] as const) {
    it(`prints ${version} without a family, ${version === "1.1.0" ? "with" : "without"} the MTU (P10)`, () => {
      const interfaces = version === "1.0.0" ? withoutMtu : withoutMtu.map((link) => ({ ...link, mtu: 1400 }));
      assert.deepEqual(printed(dualStack, version), {
        cniVersion: version,
        interfaces,
        ips: [
          { interface: 0, address: "10.244.1.2/32", gateway: "10.244.1.1" },
          { interface: 0, address: "fd00:244:1::2/128", gateway: "fd00:244:1::1" },
        ],
        routes,
        dns,
      });
    });

    it(`omits empty members of ${version}`, () => {
      assert.deepEqual(printed({ interfaces: [], ips: [], routes: [], dns: {} }, version), { cniVersion: version });
    });
  }

  it("omits an MTU of 0, which means the kernel's default", () => {
    assert.deepEqual(
      printed(
        { interfaces: [{ name: "lo", mac: "00:00:00:00:00:00", mtu: 0 }], ips: [], routes: [], dns: {} },
        "1.1.0",
      ),
      {
        cniVersion: "1.1.0",
        interfaces: [{ name: "lo", mac: "00:00:00:00:00:00" }],
      },
    );
  });

  it("makes the default route of a gateway's family (POD-14)", () => {
    for (const [gateway, everything] of [
      ["10.244.1.1", "0.0.0.0/0"],
      ["fd00::1", "::/0"],
    ] as const) {
      assert.deepEqual(defaultRoute(parseAddress(gateway)), {
        destination: parseCidr(everything),
        gateway: parseAddress(gateway),
      });
    }
  });
});
