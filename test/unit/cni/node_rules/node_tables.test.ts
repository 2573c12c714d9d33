import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { MOST_NETWORKS } from "../../../../attachment/attachment_writer.ts";
import { recordedRules } from "../../../../cni/add/record.ts";
import {
  bridgeTable,
  decideNodeRules,
  elementsOf,
  holderIn,
  ipTable,
  isOurs,
  type NodeRules,
  planTable,
  tablesOf,
} from "../../../../cni/node_rules/node_tables.ts";
import { claimIn, withdrawFrom } from "../../../../cni/pod_rules.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { formatCidr, parseCidr } from "../../../../kernel/ip/cidr.ts";
import { parseMac } from "../../../../kernel/ip/mac.ts";
import { tableChanges } from "../../../../kernel/nftables/encode/change.ts";
import { elementCode } from "../../../../kernel/nftables/encode/element.ts";
import { formatElement } from "../../../../kernel/nftables/text/element_text.ts";
import { formatTable } from "../../../../kernel/nftables/text/text.ts";
import { assertRefusal, configurationOf, networkInput } from "../../../support/cni/cni.ts";
import { callOn } from "../../../support/daemon/fake_call.ts";
import { FakeKernel } from "../../../support/daemon/fake_kernel.ts";
import { useTemporaryDirectory } from "../../../support/ipam/address_store.ts";
import { FakeNftables } from "../../../support/nftables/fake/fake_nftables.ts";

const NETLINK_NETFILTER = 12;

function rulesFor(changes: Readonly<Record<string, unknown>>, number = 7, containerId = `c${number}`): NodeRules {
  const rules = decideNodeRules(
    configurationOf(networkInput(changes)),
    {
      hostInterface: `dbv00000000000${number}`,
      podMac: parseMac(`0a:58:0a:f4:01:0${number}`),
      alias: `default/web-${number}`,
      addresses: [`10.244.1.${number}/32`, `fd00:244:1::${number}/128`].map((text) => parseCidr(text)),
    },
    containerId,
  );
  return rules ?? assert.fail("no rules");
}

function port(hostPort: number, changes: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return { HostPort: hostPort, ContainerPort: 8080, Protocol: "tcp", HostIP: "", ...changes };
}

function published(...portMappings: readonly unknown[]): Record<string, unknown> {
  return { runtimeConfig: { portMappings } };
}

const everything = {
  ...published(port(80, { Protocol: "UDP" }), port(81, { HostIP: "192.0.2.1" }), port(82, { HostIP: "::" })),
  serviceCIDRs: ["10.96.0.0/12", "10.97.0.0/16", "fd00:96::/112"],
  ipMasq: true,
  nonMasqueradeCIDRs: ["10.244.0.0/16", "192.0.2.128/25"],
  macspoofchk: true,
};

function textOf(kernel: FakeNftables): string {
  return [ipTable, bridgeTable]
    .map((table) => formatTable(table, new Map(table.sets.map((set) => [set.name, kernel.elements(table, set)]))))
    .join("");
}

describe("cni/node_tables", () => {
  it("are those of the golden file, and change only together with their version", () => {
    const golden = readFileSync(new URL("node_tables.nft", import.meta.url), "utf8");
    assert.equal(formatTable(ipTable, new Map()) + formatTable(bridgeTable, new Map()), golden);
  });

  it("hold the elements of a pod that uses every feature, each with its owner", () => {
    const { tables } = rulesFor(everything);
    const texts = tables.flatMap(({ table, sets }) =>
      sets.flatMap(({ set, elements }) => {
        const list = elements.map((element) => formatElement(elementCode(set), element));
        return list.length === 0 ? [] : [`${table.family} ${table.name} ${set.name} { ${list.join(", ")} }`];
      }),
    );
    const owned = (text: string): string => text.replaceAll("#", 'comment "dbv000000000007 default/web-7 c7"');
    assert.deepEqual(
      texts,
      [
        "inet drawbridge-cni address_ports4 { tcp . 81 . 192.0.2.1 # : 10.244.1.7 . 8080 }",
        "inet drawbridge-cni ports4 { udp . 80 # : 10.244.1.7 . 8080 }",
        "inet drawbridge-cni exceptions4 { udp . 80 . 10.96.0.0/12 # }",
        "inet drawbridge-cni hairpin4 { 10.244.1.7 . 10.244.1.7 # }",
        "inet drawbridge-cni ports6 { udp . 80 # : fd00:244:1::7 . 8080, tcp . 82 # : fd00:244:1::7 . 8080 }",
        "inet drawbridge-cni exceptions6 { udp . 80 . fd00:96::/112 #, tcp . 82 . fd00:96::/112 # }",
        "inet drawbridge-cni hairpin6 { fd00:244:1::7 . fd00:244:1::7 # }",
        "inet drawbridge-cni masqueraded4 { 10.244.1.7 # }",
        "inet drawbridge-cni unmasqueraded4 { 10.244.1.7 . 10.244.0.0/16 #, 10.244.1.7 . 192.0.2.128/25 # }",
        "inet drawbridge-cni masqueraded6 { fd00:244:1::7 # }",
        "inet drawbridge-cni unmasqueraded6 { fd00:244:1::7 . fd00:244:1::/64 # }",
        'bridge drawbridge-cni checked { "dbv000000000007" # }',
        'bridge drawbridge-cni senders { "dbv000000000007" . 0a:58:0a:f4:01:07 # }',
      ].map(owned),
    );
  });

  it("hold nothing of a pod without such features, and only the tables that a pod needs are made", () => {
    assert.equal(decideNodeRules(configurationOf(networkInput()), { ...wiredNowhere }, "c1"), undefined);
    const tablesFor = (changes: Readonly<Record<string, unknown>>): readonly string[] =>
      rulesFor(changes).tables.map(({ table }) => table.family);
    assert.deepEqual(tablesFor({ ipMasq: true }), ["inet"]);
    assert.deepEqual(tablesFor({ macspoofchk: true }), ["bridge"]);
    assert.deepEqual(tablesOf(undefined), [ipTable, bridgeTable]);
    assert.deepEqual(tablesOf({ portMappings: [] }), []);
    assert.deepEqual(tablesOf({ portMappings: [], ipMasq: true }), [ipTable]);
    assert.deepEqual(tablesOf({ portMappings: [], ipMasq: false, macspoofchk: true }), [bridgeTable]);
  });

  const wiredNowhere = {
    hostInterface: "dbv000000000001",
    podMac: parseMac("0a:58:0a:f4:01:01"),
    alias: "c1",
    addresses: [parseCidr("10.244.1.1/32")],
  };

  it("a comment fits its limit and its alphabet, whatever the names are", () => {
    const wired = { ...wiredNowhere, alias: `ns/${"x".repeat(253)}` };
    const rules = decideNodeRules(configurationOf(networkInput({ ipMasq: true })), wired, 'c_1"; flush ruleset');
    const comments = rules?.tables.flatMap(({ sets }) =>
      sets.flatMap(({ elements }) => elements.map((e) => e.comment ?? "")),
    );
    assert.ok(comments !== undefined && comments.length > 0);
    for (const text of comments) assert.match(text, /^dbv000000000001 [a-zA-Z0-9 ._:/=?-]{1,111}$/);
  });

  it("the owner of an element is the whole first word of its comment", () => {
    const [one, longer, none] = [
      { key: [1], comment: "dbv1 a/b c" },
      { key: [2], comment: "dbv12 a/b c" },
      { key: [3] },
    ];
    assert.deepEqual(elementsOf("dbv1", [one, longer, none]), [one]);
    assert.deepEqual(
      [holderIn(one.comment), holderIn("dbv1"), holderIn(undefined)],
      ["a/b c", "somebody unknown", "somebody unknown"],
    );
  });

  it("a table is made, kept, replaced or refused by the comment of the table with its name", () => {
    const plan = (comment: string | undefined): string => planTable(ipTable, { comment });
    assert.equal(planTable(ipTable, undefined), "create");
    assert.equal(plan("drawbridge-cni version 4"), "keep");
    assert.equal(plan("drawbridge-cni version 1"), "replace");
    for (const foreign of [
      undefined,
      "",
      "drawbridge-cni",
      "drawbridge-cni version ",
      "drawbridge-cni version 4 x",
      "mine",
    ]) {
      assert.equal(plan(foreign), "foreign");
      assert.equal(isOurs({ comment: foreign }), false);
    }
  });
});

describe("cni/node_rules_configuration", () => {
  const networksOf = (changes: Readonly<Record<string, unknown>>): object => {
    const { serviceCidrs, nonMasqueradeCidrs } = recordedRules(configurationOf(networkInput(changes)));
    return { serviceCidrs: serviceCidrs.map(formatCidr), nonMasqueradeCidrs: nonMasqueradeCidrs.map(formatCidr) };
  };

  it("REG-04: a record has each network once that the daemon needs to keep the rules, and nothing else", () => {
    assert.deepEqual(networksOf({ ...everything, policyd: {} }), {
      serviceCidrs: ["10.96.0.0/12", "fd00:96::/112"],
      nonMasqueradeCidrs: ["10.244.0.0/16", "192.0.2.128/25", "fd00:244:1::/64"],
    });
    const { serviceCIDRs, nonMasqueradeCIDRs } = everything;
    assert.deepEqual(networksOf({ serviceCIDRs, nonMasqueradeCIDRs }), { serviceCidrs: [], nonMasqueradeCidrs: [] });
  });

  it("more networks than a record may have are refused", () => {
    const serviceCIDRs = Array.from({ length: MOST_NETWORKS }, (_, i) => `10.${i}.0.0/16`);
    assert.deepEqual(networksOf({ ...published(port(80)), serviceCIDRs }), {
      serviceCidrs: serviceCIDRs,
      nonMasqueradeCidrs: [],
    });
    const says = ["serviceCIDRs: 257; expected at most 256 networks"];
    const more = { ...published(port(80)), serviceCIDRs: [...serviceCIDRs, "192.0.2.0/24"] };
    assertRefusal(() => networksOf(more), { code: 7, says });
  });
});

describe("cni/node_rules", () => {
  it("withdrawing removes exactly what was claimed, and elements of others stay", () => {
    const kernel = new FakeNftables();
    claimIn(kernel, rulesFor({ ...everything, ...published(port(443)) }, 6));
    const before = textOf(kernel);
    claimIn(kernel, rulesFor(everything));
    assert.notEqual(textOf(kernel), before);
    withdrawFrom(kernel, [ipTable, bridgeTable], "dbv000000000007");
    assert.equal(textOf(kernel), before);
    withdrawFrom(kernel, [ipTable, bridgeTable], "dbv000000000007");
    withdrawFrom(kernel, [ipTable, bridgeTable], "dbv000000000006");
    assert.deepEqual(textOf(kernel), textOf(withEmptyTables()));
  });

  function withEmptyTables(): FakeNftables {
    const kernel = new FakeNftables();
    for (const table of [ipTable, bridgeTable]) kernel.commit(tableChanges(table, new Map()));
    return kernel;
  }

  it("R6: every overlap is refused with its holder, and every other port is free", () => {
    const holder = published(port(80), port(81, { HostIP: "192.0.2.1" }), port(82, { HostIP: "::" }));
    const taken = [
      [port(80), "80/tcp"],
      [port(80, { HostIP: "0.0.0.0" }), "80/tcp of 0.0.0.0"],
      [port(80, { HostIP: "fd00::1" }), "80/tcp of fd00::1"],
      [port(81), "81/tcp"],
      [port(81, { HostIP: "192.0.2.1" }), "81/tcp of 192.0.2.1"],
      [port(82), "82/tcp"],
      [port(82, { HostIP: "fd00::1" }), "82/tcp of fd00::1"],
    ] as const;
    for (const [wish, text] of taken) {
      const kernel = new FakeNftables();
      claimIn(kernel, rulesFor(holder));
      const before = textOf(kernel);
      const says = [`runtimeConfig.portMappings: host port ${text} is held by default/web-7 c7;`];
      assertRefusal(() => claimIn(kernel, rulesFor(published(port(9), wish), 8)), { code: 106, says });
      assert.equal(textOf(kernel), before);
    }
    const free = [
      port(80, { Protocol: "udp" }),
      port(81, { HostIP: "192.0.2.2" }),
      port(81, { HostIP: "::" }),
      port(82, { HostIP: "0.0.0.0" }),
    ];
    const kernel = new FakeNftables();
    claimIn(kernel, rulesFor(holder));
    claimIn(kernel, rulesFor(published(...free), 8));
  });

  it("ENDED-01: ports of a host end whose pod has ended are free, and nothing else is taken from others", () => {
    const kernel = new FakeNftables();
    claimIn(kernel, rulesFor(published(port(80), port(81)), 6));
    claimIn(kernel, rulesFor(published(port(90)), 9));
    const before = textOf(kernel);
    const wish = rulesFor(published(port(80)), 8);
    assertRefusal(() => claimIn(kernel, wish, (owner) => owner === "dbv000000000009"), { code: 106, says: ["c6;"] });
    assert.equal(textOf(kernel), before);
    claimIn(kernel, wish, (owner) => owner === "dbv000000000006");
    const expected = new FakeNftables();
    claimIn(expected, rulesFor(published(port(90)), 9));
    claimIn(expected, wish);
    const lines = (text: string): readonly string[] => text.split("\n").toSorted();
    assert.deepEqual(lines(textOf(kernel)), lines(textOf(expected)));
  });

  it("R7: what a pod without a DEL left under the address, host end or name of a new pod is removed", () => {
    const kernel = new FakeNftables();
    claimIn(kernel, rulesFor(everything));
    const before = textOf(kernel);
    claimIn(kernel, rulesFor(everything));
    assert.equal(textOf(kernel), before);
  });

  it("a table of another version is replaced in one commit, with the elements of its sets of the same form", () => {
    const kernel = new FakeNftables();
    const [first, ...others] = ipTable.sets;
    assert.ok(first !== undefined);
    const old = {
      ...ipTable,
      comment: "drawbridge-cni version 0",
      chains: [],
      sets: [{ name: first.name, key: ["ipv4_addr"] as const }, ...others],
    };
    const [held] = rulesFor(published(port(80)), 6).tables;
    assert.ok(held !== undefined);
    const elements = new Map(held.sets.slice(1).map(({ set, elements: list }) => [set.name, list]));
    elements.set(first.name, [{ key: [parseAddress("10.0.0.1")] }]);
    kernel.commit(tableChanges(old, elements));
    assertRefusal(() => claimIn(kernel, rulesFor(published(port(80)))), { code: 106, says: ["default/web-6 c6"] });
    const [, replacement] = kernel.commits;
    assert.equal(replacement?.[0]?.kind, "delete table");
    assert.equal(kernel.head(ipTable)?.comment, ipTable.comment);
    elements.delete(first.name);
    for (const set of ipTable.sets) assert.deepEqual(kernel.elements(ipTable, set), elements.get(set.name) ?? []);
  });

  it("a table of another program is refused by ADD, and not written by a DEL either", () => {
    const kernel = new FakeNftables();
    claimIn(kernel, rulesFor(everything));
    const foreign = new FakeNftables();
    foreign.commit(
      tableChanges(
        { ...ipTable, comment: "mine" },
        new Map([["ports4", kernel.elements(ipTable, ipTable.sets[1] ?? assert.fail())]]),
      ),
    );
    const says = ["nftables table inet drawbridge-cni is not ours", "rename or remove it"];
    assertRefusal(() => claimIn(foreign, rulesFor(everything, 8)), { code: 101, says });
    withdrawFrom(foreign, [ipTable, bridgeTable], "dbv000000000007");
    assert.equal(foreign.commits.length, 1);
  });

  describe("in the verbs", () => {
    const directory = useTemporaryDirectory();

    /** Runs a call. @returns the netlink protocols of the sockets that it opens */
    function protocolsOf(
      verb: "ADD" | "DEL",
      kernel: FakeKernel,
      changes: Readonly<Record<string, unknown>>,
    ): readonly number[] {
      const opened = recordSockets(kernel);
      callOn(kernel, directory(), verb, undefined, changes);
      return opened;
    }

    /** Starts to record sockets. @returns the netlink protocols of those opened from now on */
    function recordSockets(kernel: FakeKernel): readonly number[] {
      const { syscalls } = kernel.node;
      const socket = syscalls.socket.bind(syscalls);
      const opened: number[] = [];
      Object.assign(syscalls, {
        socket: (domain: number, type: number, protocol: number) => {
          opened.push(protocol);
          return socket(domain, type, protocol);
        },
      });
      return opened;
    }

    it("without such features neither ADD nor the DEL of a record asks nftables", () => {
      const kernel = new FakeKernel(directory());
      for (const verb of ["ADD", "DEL"] as const) {
        assert.ok(!protocolsOf(verb, kernel, {}).includes(NETLINK_NETFILTER), verb);
      }
      // The fake kernel has no nftables, but ADD asks it before it makes the link, so that no packet leaves unchecked.
      assert.throws(() => protocolsOf("ADD", kernel, { ipMasq: true }), /table inet drawbridge-cni is not ours/);
      assert.deepEqual(
        kernel.journal.filter((event) => event.includes("dbv")),
        [],
      );
    });

    it("REG-04: with policyd neither ADD nor a DEL without a record asks nftables, whatever the features", () => {
      const kernel = new FakeKernel(directory());
      const policyd = { socket: `${directory()}/policyd.sock` };
      const opened = recordSockets(kernel);
      assert.throws(() => callOn(kernel, directory(), "ADD", undefined, { ...everything, policyd }), {
        code: "ERR_UNAVAILABLE",
      });
      callOn(kernel, directory(), "DEL", undefined, { policyd });
      assert.ok(opened.length > 0 && !opened.includes(NETLINK_NETFILTER), opened.join());
      callOn(kernel, directory(), "DEL");
      assert.ok(opened.includes(NETLINK_NETFILTER), "without policyd DEL searches for the elements of a lost record");
    });
  });
});
