import assert from "node:assert/strict";
import { supportedVersions } from "../../../../cni/version.ts";
import { formatCidr, parseCidr } from "../../../../kernel/ip/cidr.ts";
import { networkConfiguration } from "../../../../policyd/installation/configuration_list.ts";
import { configurationOf } from "../../../support/cni/cni.ts";

const PARTS = {
  ranges: ["fd00:244:1::/64", "10.244.1.0/24"].map((text) => parseCidr(text)),
  bridge: "br-pods",
  socketPath: "/run/other/policyd.sock",
  stateDirectory: "/run/other",
  mtu: 1430,
};

describe("policyd/installation: the network's configuration", () => {
  it("D5: the plugin accepts the configuration with the daemon's socket, the ranges in order and the MTU", () => {
    const list: unknown = JSON.parse(networkConfiguration(PARTS));
    assert.ok(typeof list === "object" && list !== null && "plugins" in list && Array.isArray(list.plugins));
    const { plugins, ...head } = list;
    assert.deepEqual(head, { cniVersion: "1.0.0", cniVersions: ["1.0.0", "1.1.0"], name: "drawbridge" });
    assert.ok((["1.0.0", "1.1.0"] as const).every((version) => supportedVersions.includes(version)));
    // The configuration that a runtime hands to the plugin (libcni, buildOneConfig), with its values for the
    // capabilities.
    const [plugin] = plugins as readonly object[];
    const { bridge, hairpinMode, mtu, runDir, policyd, ipam, portMappings, mac } = configurationOf({
      ...head,
      ...plugin,
      runtimeConfig: {
        mac: "02:00:00:00:00:01",
        portMappings: [{ hostPort: 80, containerPort: 8080, protocol: "tcp" }],
      },
    });
    assert.deepEqual(
      { bridge, hairpinMode, mtu, runDir },
      { bridge: "br-pods", hairpinMode: true, mtu: 1430, runDir: "/run/other" },
    );
    assert.deepEqual(policyd, { socket: "/run/other/policyd.sock", wait: 10_000, onUnavailable: "closed" });
    assert.deepEqual(
      ipam.ranges.flat().map(({ subnet }) => formatCidr(subnet)),
      ["fd00:244:1::/64", "10.244.1.0/24"],
    );
    assert.deepEqual([portMappings.length, mac !== undefined], [1, true]);
    const { capabilities } = plugin as { readonly capabilities: unknown };
    assert.deepEqual(capabilities, { bandwidth: true, ips: true, mac: true, portMappings: true });
  });
});
