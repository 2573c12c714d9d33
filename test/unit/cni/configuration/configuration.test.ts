import assert from "node:assert/strict";
import { formatRangeSet } from "../../../../ipam/range.ts";
import { formatAddress } from "../../../../kernel/ip/address.ts";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { configurationOf, ipamInput, networkInput, noArguments } from "../../../support/cni/cni.ts";

describe("cni/configuration accepts", () => {
  it("the smallest configuration, with the documented defaults", () => {
    const { ipam, ...rest } = configurationOf(networkInput());
    assert.deepEqual(rest, {
      cniVersion: "1.1.0",
      name: "pods",
      runDir: "/run/drawbridge",
      dns: {},
      bridge: "drawbridge0",
      hairpinMode: false,
      hasIpv6: true,
      bypassBridge: true,
      isDefaultGateway: true,
      mtu: 0,
      mac: undefined,
      limits: undefined,
      portMappings: [],
      serviceCidrs: [],
      ipMasq: false,
      nonMasqueradeCidrs: [],
      policyd: undefined,
      macspoofchk: false,
    });
    assert.deepEqual(
      [ipam.dataDir, ipam.requested, ipam.routes, ipam.resolvConf],
      ["/var/lib/cni/networks", [], [], undefined],
    );
    assert.deepEqual(ipam.ranges.map(formatRangeSet), [
      "10.244.1.1-10.244.1.254",
      "fd00:244:1::1-fd00:244:1:0:ffff:ffff:ffff:ffff",
    ]);
  });

  it("every field of the documented configuration, also addIf and ipMasq false (POD-13, POD-18)", () => {
    const configuration = configurationOf({
      cniVersion: "0.3.1",
      name: "kubenet",
      type: "bridge",
      bridge: "cbr0",
      mtu: 1460,
      addIf: "eth0",
      isGateway: true,
      ipMasq: false,
      hairpinMode: true,
      ipam: { type: "host-local", subnet: "10.244.1.0/24", gateway: "10.244.1.1", routes: [{ dst: "0.0.0.0/0" }] },
    });
    assert.deepEqual([configuration.bridge, configuration.mtu, configuration.hairpinMode], ["cbr0", 1460, true]);
    assert.deepEqual(configuration.ipam.routes, [{ destination: parseCidr("0.0.0.0/0") }]);
    assert.deepEqual(configuration.ipam.ranges.map(formatRangeSet), ["10.244.1.1-10.244.1.254"]);
  });

  it("features of the reference plugins that are switched off, and unknown keys (P12)", () => {
    configurationOf(
      networkInput({
        isDefaultGateway: true,
        forceAddress: false,
        ipMasq: false,
        promiscMode: false,
        macspoofchk: false,
        enabledad: false,
        disableContainerInterface: false,
        portIsolation: false,
        vlan: 0,
        vlanTrunk: [],
        routed: true,
        policyd: null,
        runtimeConfig: { portMappings: [], bandwidth: null },
        capabilities: { portMappings: true },
        "cni.dev/x": [1],
      }),
    );
  });

  it("a MAC from runtimeConfig before args.cni before CNI_ARGS (B6)", () => {
    const [fromArguments, fromArgs, fromRuntime] = [
      "02:00:00:00:00:01",
      "02:00:00:00:00:02",
      "02:00:00:00:00:03",
    ] as const;
    const args = { ...noArguments, mac: fromArguments };
    const both = { args: { cni: { mac: fromArgs } }, runtimeConfig: { mac: fromRuntime } };
    assert.equal(configurationOf(networkInput(), args).mac, fromArguments);
    assert.equal(configurationOf(networkInput({ args: both.args }), args).mac, fromArgs);
    assert.equal(configurationOf(networkInput(both), args).mac, fromRuntime);
    assert.equal(configurationOf(networkInput({ ...both, runtimeConfig: { mac: "" } }), args).mac, fromArgs);
  });

  it("range sets in host-local's order: the runtime's, the single one, the list", () => {
    const input = {
      ...ipamInput({ subnet: "10.2.0.0/24", rangeStart: "10.2.0.9" }),
      runtimeConfig: { ipRanges: [[{ subnet: "10.1.0.0/24" }]] },
    };
    assert.deepEqual(configurationOf(input).ipam.ranges.slice(0, 3).map(formatRangeSet), [
      "10.1.0.1-10.1.0.254",
      "10.2.0.9-10.2.0.254",
      "10.244.1.1-10.244.1.254",
    ]);
  });

  it("routes with the options of version 1.1.0, of which 0 counts as absent", () => {
    const routes = [
      { dst: "10.0.0.0/8", mtu: 1300, advmss: 1200, priority: 77, table: 4_294_967_295 },
      { dst: "10.0.0.0/8", mtu: 0, advmss: 0, priority: 0, table: 0, scope: 0 },
    ];
    const destination = parseCidr("10.0.0.0/8");
    assert.deepEqual(configurationOf(ipamInput({ routes })).ipam.routes, [
      { destination, mtu: 1300, advmss: 1200, priority: 77, table: 4_294_967_295 },
      { destination },
    ]);
  });

  it("R3: a pod gets the host ports of its families, those of one address beside those of all addresses, and a repeated one once", () => {
    const subnets = { 4: "10.244.1.0/24", 6: "fd00:244:1::/64" } as const;
    const rows: readonly (readonly [
      families: readonly (4 | 6)[],
      hostIps: readonly string[],
      kept: readonly string[],
    ])[] = [
      [[4], ["", "::", "::1", "fd00::1"], [""]],
      [[6], ["0.0.0.0", "127.0.0.1"], []],
      [[4, 6], ["0.0.0.0", "", "::", ""], [""]],
      [
        [4, 6],
        ["0.0.0.0", "::", "::"],
        ["0.0.0.0", "::"],
      ],
      [
        [4, 6],
        ["127.0.0.1", "", "127.0.0.1"],
        ["", "127.0.0.1"],
      ],
    ];
    for (const [families, hostIps, kept] of rows) {
      const portMappings = hostIps.map((hostIP) => ({ hostIP, hostPort: 80, containerPort: 80, protocol: "tcp" }));
      const ranges = families.map((family) => [{ subnet: subnets[family] }]);
      const found = configurationOf({ ...ipamInput({ ranges }), runtimeConfig: { portMappings } }).portMappings;
      assert.deepEqual(
        found.map(({ hostIp }) => (hostIp === undefined ? "" : formatAddress(hostIp))),
        kept,
      );
    }
    const [all, one] = [
      { hostPort: 80, containerPort: 80, protocol: "tcp" },
      { hostPort: 80, containerPort: 81, protocol: "tcp", hostIP: "127.0.0.1" },
    ];
    const both = configurationOf(networkInput({ runtimeConfig: { portMappings: [one, all] } })).portMappings;
    assert.deepEqual(
      both.map(({ containerPort }) => containerPort),
      [80, 81],
    );
  });

  it("one address of each family in the oldest versions (P9)", () => {
    for (const cniVersion of ["0.1.0", "0.2.0", undefined]) configurationOf(networkInput({ cniVersion }));
  });
});
