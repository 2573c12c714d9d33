import assert from "node:assert/strict";
import { openConntrackSocket } from "../../../kernel/conntrack/table.ts";
import { listEntries } from "../../support/list_entries.ts";
import { formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { add, type CallOutcome, type Configuration, del } from "../../lab/cni.ts";
import type { Lab } from "../../lab/lab.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { testLab } from "../../support/suite_lab.ts";
import { nodeState } from "../../support/cni/kernel_state.ts";

/** Changes in tables that otherwise look like the daemon's to the plugin. */
interface Tables {
  readonly mark?: string;
  readonly flags?: string;
  readonly bridge?: string;
  readonly input?: string;
}

const FIRST = ["10.244.1.2", "fd00:244:1::2"] as const;

function guard({ mark = "drawbridge schema 0" }: Tables = {}): string {
  return `table bridge drawbridge { comment "${mark}"
    chain prerouting { type filter hook prerouting priority -300; counter; }
    chain forward { type filter hook forward priority -200; counter; }
  }\n`;
}

function policies({
  mark = "drawbridge schema 0",
  flags = "",
  bridge = "cni0",
  input = "counter",
}: Tables = {}): string {
  return `table inet drawbridge-policy { comment "${mark}"; ${flags}
    set known4 { type ipv4_addr; }
    set known6 { type ipv6_addr; }
    map egress4 { type ipv4_addr : verdict; }
    map ingress4 { type ipv4_addr : verdict; }
    map egress6 { type ipv6_addr : verdict; }
    map ingress6 { type ipv6_addr : verdict; }
    chain ingress_of_one { drop; }
    chain forward { type filter hook forward priority -5; iifname "${bridge}" drop; oifname "${bridge}" drop; }
    chain input { type filter hook input priority -5; ${input}; }
    chain output { type filter hook output priority -5; counter; }
  }\n`;
}

/** Returns the elements by which an address sends everything, and a chain checks what it receives. */
function verdicts(address: string): string {
  const family = address.includes(":") ? 6 : 4;
  return `add element inet drawbridge-policy egress${family} { ${address} : return }
    add element inet drawbridge-policy ingress${family} { ${address} : goto ingress_of_one }\n`;
}

describe("the plugin without policyd, onUnavailable closed", function () {
  this.timeout(300_000);
  let lab: Lab;
  let wired: WiredNode;
  let overrides: Configuration;

  beforeEach(function () {
    lab = testLab(this, "policyd-closed");
    ({ node1: wired } = twoNodes(lab));
    overrides = {
      policyd: { socket: `${lab.scratch}/run/policyd.sock`, wait: "50ms", onUnavailable: "closed" },
    };
  });

  const load = (text: string): string => wired.node.exec("nft", ["-f", "-"], text);

  function assertRefused({ exitCode, error }: CallOutcome, why: RegExp): void {
    assert.deepEqual([exitCode, error?.code], [1, 11], error?.msg);
    assert.match(
      error?.msg ?? "",
      /policyd\.sock.*is policyd running\?; policyd\.onUnavailable: "closed" does not hold/,
    );
    assert.match(error?.msg ?? "", why);
    assert.deepEqual(nodeState(wired.node).reservations, []);
    assert.deepEqual(
      wired.node.links().filter(({ name }) => name.startsWith("dbv")),
      [],
    );
  }

  const REFUSALS: readonly (readonly [title: string, tables: string, why: RegExp])[] = [
    ["no table", "", /table bridge drawbridge is not loaded/],
    ["only the guard", guard(), /table inet drawbridge-policy is not loaded/],
    ["another program's guard", guard({ mark: "mine" }) + policies(), /table bridge drawbridge is not policyd's/],
    ["dormant policies", guard() + policies({ flags: "flags dormant;" }), /drawbridge-policy is dormant/],
    ["an empty chain", guard() + policies({ input: "" }), /chain input of table inet drawbridge-policy is empty/],
    ["policies of another bridge", guard() + policies({ bridge: "cni01" }), /is not about bridge "cni0"/],
  ];
  for (const [title, tables, why] of REFUSALS) {
    it(`REG-06: with ${title} ADD fails with try again later, names the reason and leaves nothing`, () => {
      load(tables);
      assertRefused(add(wired, lab.pod("a"), overrides), why);
    });
  }

  it("REG-06: without a base chain of the guard ADD fails with try again later", () => {
    load(guard() + policies());
    load("delete chain bridge drawbridge forward\n");
    assertRefused(add(wired, lab.pod("a"), overrides), /table bridge drawbridge has no base chain forward/);
  });

  it("REG-06: on a kernel without nftables, which keeps no pod closed, ADD fails with try again later", function () {
    assertRefused(add(wired, lab.pod("a"), overrides, { without: ["nftables"] }), /EPROTONOSUPPORT/);
  });

  it("REG-06: with both tables ADD succeeds, and removes the elements of an earlier pod with the addresses", () => {
    load(guard() + policies());
    load(`add element inet drawbridge-policy known4 { ${FIRST[0]}, 10.244.1.99 }\n`);
    load(`add element inet drawbridge-policy known6 { ${FIRST[1]} }\n`);
    load(verdicts(FIRST[0]) + verdicts(FIRST[1]) + verdicts("10.244.1.99"));
    const pod = lab.pod("a");
    assert.equal(add(wired, pod, overrides).exitCode, 0);
    const known = wired.node.exec("nft", ["list", "table", "inet", "drawbridge-policy"]);
    assert.ok(!known.includes(FIRST[1]) && !/10\.244\.1\.2[^0-9]/.test(known), known);
    assert.equal(known.match(/10\.244\.1\.99/g)?.length, 3);
    assert.equal(del(wired, pod, overrides).exitCode, 0);
    assert.deepEqual(nodeState(wired.node).reservations, []);
  });

  it("POD-20: a DEL without the daemon removes the pod's addresses from the known ones, and its flows", () => {
    // The kernel tracks nothing before some rule asks for it.
    load(
      `${guard()}${policies({ bridge: "none" })}table inet t {\n chain c { type filter hook output priority 0; ct state new; }\n}\n`,
    );
    const unwatched = { ...overrides, policyd: undefined };
    const [gone, stays] = [lab.pod("gone"), lab.pod("stays")];
    for (const pod of [gone, stays]) assert.equal(add(wired, pod, unwatched).exitCode, 0);
    load(`add element inet drawbridge-policy known4 { ${FIRST[0]}, 10.244.1.3 }\n`);
    load(verdicts(FIRST[0]) + verdicts(FIRST[1]) + verdicts("fd00:244:1::3"));
    for (const text of [...FIRST, "10.244.1.3", "fd00:244:1::3"]) {
      const address = parseAddress(text);
      const socket = ProbeSocket.open(wired.node, text.includes(":") ? 6 : 4, SocketType.DATAGRAM);
      assert.equal(socket.sendTo(Uint8Array.of(1), { address, port: 9 }), 1);
      socket.close();
    }
    const conntrack = wired.node.inside(() => openConntrackSocket(lab.calls));
    const flows = (): readonly string[] =>
      listEntries(conntrack)
        .map(({ original }) => formatAddress(original.destination))
        .filter((text) => text.includes("244"))
        .sort();
    assert.deepEqual(flows(), ["10.244.1.2", "10.244.1.3", "fd00:244:1::2", "fd00:244:1::3"]);
    assert.equal(del(wired, gone, overrides).exitCode, 0);
    assert.deepEqual(flows(), ["10.244.1.3", "fd00:244:1::3"]);
    conntrack.close();
    const known = wired.node.exec("nft", ["list", "set", "inet", "drawbridge-policy", "known4"]);
    assert.match(known, /elements = \{ 10\.244\.1\.3 \}/);
    const table = wired.node.exec("nft", ["list", "table", "inet", "drawbridge-policy"]);
    assert.deepEqual(table.match(/\S+ : (?:return|goto \w+)/g), [
      "fd00:244:1::3 : return",
      "fd00:244:1::3 : goto ingress_of_one",
    ]);
  });

  for (const [lost, kept, address] of [
    ["known4", "known6", FIRST[1]],
    ["known6", "known4", FIRST[0]],
  ] as const) {
    it(`POD-20: a DEL without the daemon gives the addresses back if the daemon's tables have no set ${lost}`, () => {
      const pod = lab.pod("a");
      assert.equal(add(wired, pod, { ...overrides, policyd: undefined }).exitCode, 0);
      load(policies());
      load(`delete set inet drawbridge-policy ${lost}\nadd element inet drawbridge-policy ${kept} { ${address} }\n`);
      const { exitCode, error } = del(wired, pod, overrides);
      assert.equal(exitCode, 0, error?.msg);
      assert.deepEqual(nodeState(wired.node).reservations, []);
      const known = wired.node.exec("nft", ["list", "set", "inet", "drawbridge-policy", kept]);
      assert.ok(!known.includes("elements"), known);
    });
  }

  it("POD-20: a DEL without the daemon does not need nftables", () => {
    const pod = lab.pod("a");
    assert.equal(add(wired, pod, { ...overrides, policyd: undefined }).exitCode, 0);
    assert.equal(del(wired, pod, overrides, { without: ["nftables"] }).exitCode, 0);
    assert.deepEqual(nodeState(wired.node).reservations, []);
  });
});
