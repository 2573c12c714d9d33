import assert from "node:assert/strict";
import fc from "fast-check";
import { bridgeConfiguration } from "../../../../cni/configuration/configuration.ts";
import { detachConfiguration } from "../../../../cni/configuration/detach_configuration.ts";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { readConfiguration, type Written } from "../../../../policyd/configuration/configuration.ts";
import { DEFAULT_POLICY_OPTIONS } from "../../../../policyd/policies/compile/options.ts";
import { noArguments } from "../../../support/cni/cni.ts";

const HEAD = "apiVersion: drawbridge.dev/v1alpha1\nkind: PolicydConfiguration\n";
const file = (text: string) => ({ path: "/etc/policyd.yaml", text: HEAD + text });
const flag = (value: unknown, where = "--flag"): Written => ({ value, where });

function refusalOf(read: () => unknown): string {
  try {
    read();
  } catch (error) {
    assert.ok(error instanceof DrawbridgeError && error.code === "ERR_CONFIGURATION", String(error));
    return error.message;
  }
  return assert.fail("the configuration was accepted");
}

describe("policyd/configuration", () => {
  it("FOREIGN-01: the daemon and the plugin have the same default bridge, which no other add-on has", () => {
    const { bridge } = readConfiguration(undefined, { nodeName: flag("node-1") });
    const input = { cniVersion: "1.1.0" as const, name: "pods", type: "drawbridge" };
    const ipam = { type: "host-local", ranges: [[{ subnet: "10.244.1.0/24" }]] };
    const defaults = [
      bridge,
      DEFAULT_POLICY_OPTIONS.bridge,
      detachConfiguration(input).bridge,
      bridgeConfiguration({ ...input, ipam }, noArguments).bridge,
    ];
    assert.deepEqual(new Set(defaults), new Set(["drawbridge0"]));
  });

  it("DAEMON-04: every field but the node's name has a default", () => {
    assert.equal(readConfiguration(undefined, { nodeName: flag("node-1") }).nodeName, "node-1");
    assert.match(
      refusalOf(() => readConfiguration(undefined, {})),
      /nodeName: missing; expected the name of this/,
    );
  });

  it("CLAIM-01 DAEMON-04: protected ports and sockets need a protocol, and each wrong one is named", () => {
    const { protectedPorts, protectedSockets } = readConfiguration(
      file(
        'nodeName: node-1\nprotectedPorts: [9100/TCP, 4240/UDP]\nprotectedSockets: ["192.0.2.53:53/UDP", "[2001:db8::1]:443/TCP"]\n',
      ),
      {},
    );
    assert.deepEqual(protectedPorts, [
      { protocol: "TCP", port: 9100 },
      { protocol: "UDP", port: 4240 },
    ]);
    assert.deepEqual(protectedSockets, [
      { protocol: "UDP", port: 53, address: parseAddress("192.0.2.53") },
      { protocol: "TCP", port: 443, address: parseAddress("2001:db8::1") },
    ]);
    const wrong =
      'nodeName: node-1\nprotectedPorts: ["9100", 0/TCP, 70000/TCP, 80/ICMP]\nprotectedSockets: [192.0.2.53/UDP]\n';
    const refusal = refusalOf(() => readConfiguration(file(wrong), {}));
    for (const place of ["protectedPorts[0]", "protectedPorts[1]", "protectedPorts[2]", "protectedPorts[3]"]) {
      assert.ok(refusal.includes(`${place}: `), `${place}: ${refusal}`);
    }
    assert.match(refusal, /protectedSockets\[0\]: "192\.0\.2\.53\/UDP"; expected an IP address with port and protocol/);
  });

  it("DAEMON-04: a flag overrides the file, and the file overrides the default", () => {
    const text =
      "nodeName: node-1\nlogLevel: debug\nbridge: br1\npodCIDRs: [10.1.0.0/24]\nmarkBits: {bridged: 0x40000000}\n";
    const { nodeName, logLevel, bridge, podCIDRs, markBits } = readConfiguration(file(text), {
      logLevel: flag("warn"),
    });
    assert.deepEqual([nodeName, logLevel, bridge], ["node-1", "warn", "br1"]);
    assert.deepEqual(podCIDRs, [parseCidr("10.1.0.0/24")]);
    assert.deepEqual(markBits, { masquerade: 0x1000_0000, bridged: 0x4000_0000 });
  });

  it("DAEMON-04: all problems are reported at once, each with field, value and expectation", () => {
    const text = `nodeName: Node_1
objectDirectory: /x
podCidrs: []
socketPath: policyd.sock
logLevel: loud
tableOwner: "no"
markBits: {masquerade: 3, bridge: 1}
bridge: a/b
podCIDRs: [10.1.0.1/24]
minSyncPeriod: 1
`;
    const message = refusalOf(() => readConfiguration(file(text), { syncPeriod: flag("1 s", "--sync-period") }));
    const parts = [
      "configuration /etc/policyd.yaml: ",
      "objectDirectory: unknown field; did you mean objectsDirectory?",
      "podCidrs: unknown field; did you mean podCIDRs?",
      "markBits.bridge: unknown field; did you mean markBits.bridged?",
      'nodeName: "Node_1"; expected the name',
      'socketPath: "policyd.sock"; expected an absolute path',
      'logLevel: "loud"; expected one of error, warn, info, debug',
      'tableOwner: "no"; expected true or false',
      "markBits.masquerade: 3; expected one bit of 32",
      'bridge: "a/b"; expected an interface name',
      'podCIDRs[0]: "10.1.0.1/24"; expected a prefix without host bits',
      "minSyncPeriod: 1; expected a duration",
      '--sync-period: "1 s"; expected a duration',
    ];
    for (const part of parts) assert.ok(message.includes(part), `${part}\nis not in\n${message}`);
    assert.ok(!message.includes("\n"));
  });

  const refused: readonly (readonly [string, RegExp])[] = [
    ["markBits: {masquerade: 0x20000000}", /markBits: an object; expected two different bits/],
    ["markBits: {masquerade: 0x100000000}", /markBits\.masquerade: 4294967296; expected one bit/],
    ['markBits: {masquerade: "0x3"}', /markBits\.masquerade: 3; expected one bit/],
    ["minSyncPeriod: 1s\nsyncPeriod: 500ms", /syncPeriod: "500ms"; expected at least minSyncPeriod/],
    ["minSyncPeriod: fast", /minSyncPeriod: "fast"; expected a duration such as 500ms, 0s for none, or "adaptive"/],
    ["minSyncPeriod: -1s", /minSyncPeriod: "-1s"; expected a duration such as 500ms/],
    ['minSyncPeriod: 0s\nsyncPeriod: "0"', /syncPeriod: "0"; expected a duration of 100ms at least/],
    ["policies: false\nflowLedger: true", /flowLedger: true; expected false where policies is false/],
    ["policies: false\nconnectionLimit: 300", /connectionLimit: 300; expected 0 or none where policies is false/],
    ["dropLogGroup: 108", /dropLogGroup: 108; expected another number than answerLogGroup/],
    ["answerLogGroup: 107", /dropLogGroup: missing; expected another number than answerLogGroup \(107 and 108 where/],
    ["networkNamespace: /run/netns/x", /networkNamespace: unknown field; one of nodeName, /],
    ["clusterDomain: Cluster.local.", /clusterDomain: "Cluster\.local\."; expected a domain in lower case/],
    ["clusterDomain: '*.local'", /clusterDomain: .*; expected a domain in lower case/],
    ["cniPrimary: /etc/cni/net.d/00-multus.conf", /cniPrimary: .*; expected the name of a file that runtimes read/],
    ["cniPrimary: 00-multus.yaml", /cniPrimary: .*; expected the name of a file that runtimes read/],
    ["cniPrimary: 10-drawbridge.conflist", /cniPrimary: .*; expected the name of a file that runtimes read/],
    ["cniChain: {type: portmap}", /cniChain: an object; expected a list of entries/],
    ["cniChain: [portmap]", /cniChain\[0\]: "portmap"; expected an object with the type of a plugin/],
    ["cniChain: [{kind: portmap}]", /cniChain\[0\]\.type: missing; expected an object with the type of a plugin/],
    ["cniChain: [{type: ../portmap}]", /cniChain\[0\]\.type: "\.\.\/portmap"; expected the file name of a plugin/],
    ["cniChain: [{type: a/b}]", /cniChain\[0\]\.type: "a\/b"; expected the file name of a plugin/],
    ["cniChain: [{type: drawbridge}]", /cniChain\[0\]\.type: "drawbridge"; expected the plugin of another program/],
    ["cniChain: [{type: tuning}, {type: tuning}]", /cniChain: a list; expected entries of different types/],
    [
      "cniChain: [{type: x, prevResult: {}}]",
      /cniChain\[0\]: an object; expected none of cniVersion, name, prevResult/,
    ],
    ["cniChain: [{type: x, cni.dev/valid: 1}]", /cniChain\[0\]: .*cni\.dev/],
    ["cniChain: [{type: x, n: 9007199254740993}]", /cniChain\[0\]: .*whole numbers are below 2\^53/],
    ["cniChain: [{type: x, n: .inf}]", /line \d+: ".inf"; expected a value that JSON has/],
    [`cniChain: [{type: x, n: ${"[".repeat(40)}${"]".repeat(40)}}]`, /cniChain\[0\]: .*at most 32 levels/],
    [`cniChain: [{type: x, n: ${"y".repeat(20_000)}}]`, /cniChain\[0\]: .*at most 16384 bytes/],
    [
      `cniChain: [${Array.from({ length: 17 }, (_, at) => `{type: x${at}}`).join(", ")}]`,
      /cniChain: a list; expected at most 16 entries/,
    ],
    [`socketPath: /${"x".repeat(108)}`, /at most 107 bytes/],
    ["socketPath: /run/../etc/x", /absolute path without "\.\."/],
    ["metricsAddress: localhost:9873", /metricsAddress: "localhost:9873"; expected an IP address with a port/],
    ['metricsAddress: "::1:9873"', /metricsAddress: "::1:9873"; expected an IP address with a port/],
    ['metricsAddress: "[127.0.0.1]:9873"', /metricsAddress: .*; expected an IP address with a port/],
    ['metricsAddress: "127.0.0.1:0"', /metricsAddress: .*; expected an IP address with a port/],
    ['metricsAddress: "127.0.0.1:65536"', /metricsAddress: .*; expected an IP address with a port/],
    ["bridge: [", /line \d+: /],
    ["---\na: 1", /2 objects; expected one of kind PolicydConfiguration/],
  ];
  for (const [text, message] of refused) {
    it(`DAEMON-04: the configuration refuses ${JSON.stringify(text.slice(0, 40))}`, () => {
      assert.match(
        refusalOf(() => readConfiguration(file(`nodeName: node-1\n${text}\n`), {})),
        message,
      );
    });
  }

  it("DAEMON-04 SYNC-01: minSyncPeriod is adaptive or a duration, from the file or the command line", () => {
    const periodOf = (text: string): unknown => readConfiguration(file(`nodeName: node-1\n${text}`), {}).minSyncPeriod;
    assert.deepEqual(["", "minSyncPeriod: adaptive\n", "minSyncPeriod: 0s\n", "minSyncPeriod: 1s\n"].map(periodOf), [
      "adaptive",
      "adaptive",
      0,
      1000,
    ]);
    const flags = { nodeName: flag("n"), minSyncPeriod: flag("adaptive", "--min-sync-period") };
    assert.equal(readConfiguration(file("minSyncPeriod: 1s\n"), flags).minSyncPeriod, "adaptive");
    assert.equal(readConfiguration(file("syncPeriod: 100ms\n"), flags).syncPeriod, 100);
  });

  it("CHAIN-04: entries of cniChain keep their members as they are written", () => {
    const text =
      "nodeName: node-1\ncniChain: [{type: portmap, snat: false, capabilities: {portMappings: true}, x: [1.5, null, ü]}]\n";
    assert.deepEqual(readConfiguration(file(text), {}).cniChain, [
      { type: "portmap", snat: false, capabilities: { portMappings: true }, x: [1.5, null, "ü"] },
    ]);
  });

  it("DAEMON-04: an address with a port is IPv4 or IPv6 in brackets, and an empty one means none", () => {
    const addressOf = (text: string) =>
      readConfiguration(undefined, { nodeName: flag("n"), metricsAddress: flag(text) }).metricsAddress;
    assert.deepEqual(addressOf("[fd00::1]:9"), { address: parseAddress("fd00::1"), port: 9 });
    assert.deepEqual(addressOf("0.0.0.0:65535"), { address: parseAddress("0.0.0.0"), port: 65_535 });
    assert.equal(addressOf(""), undefined);
  });

  it("DAEMON-04: another kind or version of configuration is refused", () => {
    const text = "apiVersion: drawbridge.dev/v2\nkind: KubeProxyConfiguration\nnodeName: n\n";
    const message = refusalOf(() => readConfiguration({ path: "c.yaml", text }, {}));
    assert.match(message, /apiVersion: "drawbridge\.dev\/v2"; expected drawbridge\.dev\/v1alpha1/);
    assert.match(message, /kind: "KubeProxyConfiguration"; expected PolicydConfiguration/);
  });

  it("DAEMON-04: any fields give either a configuration or a DrawbridgeError", () => {
    const names = fc.constantFrom("nodeName", "socketPath", "markBits", "podCIDRs", "syncPeriod", "logLevel", "x\ny");
    fc.assert(
      fc.property(fc.dictionary(names, fc.jsonValue()), (fields) => {
        const text = JSON.stringify({ apiVersion: "drawbridge.dev/v1alpha1", kind: "PolicydConfiguration", ...fields });
        try {
          readConfiguration({ path: "c.json", text }, {});
        } catch (error) {
          assert.ok(error instanceof DrawbridgeError, String(error));
        }
      }),
    );
  });
});
