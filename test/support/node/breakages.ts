import assert from "node:assert/strict";
import { appendFileSync, renameSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import type { NodePlace } from "../../../cli/node/place.ts";
import { CHECKSUM_PROGRAM, filterChecksums } from "../../../kernel/bpf/checksum_filter.ts";
import { kernelChecksumProgram } from "../../../kernel/bpf/checksum_program.ts";
import { removeOwnProgram } from "../../../kernel/bpf/own_program.ts";
import type { LabNamespace } from "../../lab/namespace.ts";

/** A breakage, the way to undo it, and the check that finds it. */
export interface Breakage {
  readonly name: string;
  readonly check: string;
  readonly text: RegExp;
  readonly breaks: (node: LabNamespace, place: NodePlace) => void;
  readonly mends: (node: LabNamespace, place: NodePlace) => void;
}

function sysctl(check: string, key: string, wrong: string, right: string, text: RegExp): Breakage {
  return {
    name: `${key} = ${wrong}`,
    check,
    text,
    breaks: (node) => node.writeSysctl(key, wrong),
    mends: (node) => node.writeSysctl(key, right),
  };
}

/** Returns the breakage by a foreign table, written in nft's language. */
function foreignTable(check: string, head: string, body: string, text: RegExp): Breakage {
  return {
    name: `table ${head}`,
    check,
    text,
    breaks: (node) => void node.exec("nft", ["-f", "-"], `table ${head} {\n${body}\n}\n`),
    mends: (node) => void node.exec("nft", ["delete", "table", ...head.split(" ")]),
  };
}

function commands(check: string, breaks: string, mends: string, text: RegExp): Breakage {
  const run = (node: LabNamespace, line: string): void => void node.exec("ip", line.split(" "));
  return {
    name: `ip ${breaks}`,
    check,
    text,
    breaks: (node) => run(node, breaks),
    mends: (node) => run(node, mends),
  };
}

function file(check: string, pathOf: (place: NodePlace) => string, content: string, text: RegExp): Breakage {
  return {
    name: `a file ${pathOf({ ...NOWHERE })}`,
    check,
    text,
    breaks: (_, place) => writeFileSync(pathOf(place), content),
    mends: (_, place) => rmSync(pathOf(place)),
  };
}

/** Replaces an executable of ours by another content, or removes it. */
function replaced(name: string, content: string | undefined): Pick<Breakage, "breaks" | "mends"> {
  const pathIn = ({ binaryDirectory }: NodePlace): string => `${binaryDirectory}/${name}`;
  return {
    breaks: (_, place) => {
      renameSync(pathIn(place), `${pathIn(place)}.kept`);
      if (content !== undefined) writeFileSync(pathIn(place), content, { mode: 0o755 });
    },
    mends: (_, place) => renameSync(`${pathIn(place)}.kept`, pathIn(place)),
  };
}

const NOWHERE: NodePlace = {
  configurationDirectory: "CONF",
  binaryDirectory: "BIN",
  dataDirectory: "DATA",
  stateDirectory: "STATE",
  socket: "SOCKET",
  bridge: "cni0",
  flowDirectory: "FLOWS",
  networkNamespace: undefined,
};
/** Returns the path of our network configuration. */
export const confOf = ({ configurationDirectory }: NodePlace): string =>
  `${configurationDirectory}/10-drawbridge.conflist`;

/** Faults that the doctor finds while a daemon runs. */
export const BREAKAGES: readonly Breakage[] = [
  sysctl("forwarding", "net/ipv4/ip_forward", "0", "1", /ip_forward = 0/),
  sysctl("forwarding", "net/ipv6/conf/all/forwarding", "0", "1", /ipv6\.conf\.all\.forwarding = 0/),
  sysctl("ipv6", "net/ipv6/conf/all/disable_ipv6", "1", "0", /disable_ipv6 = 1/),
  foreignTable(
    "foreign-drops",
    "ip filter",
    "chain FORWARD { type filter hook forward priority 0; policy drop; }",
    /ip filter FORWARD drops what pods send/,
  ),
  foreignTable("kube-proxy", "ip nat", "chain KUBE-SERVICES { }", /ip nat/),
  foreignTable("kube-proxy", "ip6 kube-proxy", "", /ip6 kube-proxy/),
  foreignTable("priorities", "ip early", "chain c { type nat hook prerouting priority -150; }", /at -150/),
  foreignTable("marks", "ip m", "chain c { meta mark set 0x1; }", /0x30000000/),
  foreignTable("marks", "ip m", "chain c { meta mark set meta mark or 0x10000000; }", /bits 0x10000000/),
  commands(
    "pod-networks",
    "route add 10.244.1.128/25 dev lo",
    "route del 10.244.1.128/25 dev lo",
    /10\.244\.1\.128\/25 \(protocol 3, by link 1\)/,
  ),
  commands(
    "pod-networks",
    "address add 10.244.1.77/32 dev lo",
    "address del 10.244.1.77/32 dev lo",
    /10\.244\.1\.77\/32 of lo/,
  ),
  {
    name: "a bridge without its filter of checksums",
    check: "checksum-filter",
    text: /cni0 has no filter/,
    breaks: (node, { bridge }) => removeOwnProgram(node.programs, CHECKSUM_PROGRAM, node.link(bridge).index),
    mends: (node, { bridge }) =>
      assert.ok(filterChecksums(node.programs, node.link(bridge).index, kernelChecksumProgram)),
  },
  commands(
    "tunnel",
    "link add flannel.9 type vxlan id 9 dstport 4789",
    "link del flannel.9",
    /flannel\.9 uses UDP port 4789/,
  ),
  file(
    "cni-configuration",
    ({ configurationDirectory }) => `${configurationDirectory}/05-other.conf`,
    "{}",
    /05-other\.conf/,
  ),
  file("addresses", ({ dataDirectory }) => `${dataDirectory}/drawbridge/10.244.1.99`, "", /say.* nobody/),
  file(
    "addresses",
    ({ dataDirectory }) => `${dataDirectory}/drawbridge/10.244.1.98`,
    "gone\r\neth0",
    /10\.244\.1\.98 of gone/,
  ),
  file(
    "attachments",
    ({ stateDirectory }) => `${stateDirectory}/attachments/drawbridge/x:eth0.json`,
    "{",
    /is not a record of an attachment/,
  ),
  {
    name: "the network configuration is torn",
    check: "cni-configuration",
    text: /cannot be used: no JSON/,
    breaks: (_, place) => {
      renameSync(confOf(place), `${confOf(place)}.kept`);
      writeFileSync(confOf(place), '{"name":');
    },
    mends: (_, place) => renameSync(`${confOf(place)}.kept`, confOf(place)),
  },
  {
    name: "another program stands for the plugin",
    check: "cni-plugin",
    text: /does not answer VERSION/,
    ...replaced("drawbridge", "#!/bin/sh\necho hello\n"),
  },
  {
    name: "the plugin is gone",
    check: "cni-plugin",
    text: /drawbridge is not a file/,
    ...replaced("drawbridge", undefined),
  },
  {
    name: "the plugin is not of this release",
    check: "cni-plugin",
    text: /drawbridge is not the file that .*\/cni has for it/,
    breaks: (_, { binaryDirectory }) => appendFileSync(`${binaryDirectory}/drawbridge`, "\0"),
    mends: (_, { binaryDirectory }) => {
      const plugin = `${binaryDirectory}/drawbridge`;
      truncateSync(plugin, statSync(plugin).size - 1);
    },
  },
];

/** Faults that the daemon repairs; the doctor finds them while no daemon runs. */
export const REPAIRED: readonly Breakage[] = [
  sysctl("node-state", "net/ipv4/conf/cni0/send_redirects", "1", "0", /cni0\/send_redirects/),
  sysctl("node-state", "net/ipv4/conf/cni0/forwarding", "0", "1", /cni0\/forwarding/),
  commands("mtu", "link set cni0 mtu 1300", "link set cni0 mtu 1420", /MTU of 1300/),
  commands(
    "node-state",
    "address del 10.244.1.1/24 dev cni0",
    "address add 10.244.1.1/24 brd + dev cni0",
    /expected to give the bridge the address 10\.244\.1\.1\/24/,
  ),
  commands(
    "node-state",
    "route del 10.244.1.0/24 dev cni0",
    "route add 10.244.1.0/24 dev cni0 proto kernel scope link src 10.244.1.1",
    /sends packets for 1 pod addresses, such as 10\.244\.1\.2, to link \d+ instead of bridge cni0/,
  ),
];
