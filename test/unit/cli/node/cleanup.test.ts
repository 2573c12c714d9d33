import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { carryOut } from "../../../../cli/node/cleanup/carry_out.ts";
import type { Inventory } from "../../../../cli/node/cleanup/inventory.ts";
import type { Removal } from "../../../../cli/node/cleanup/plan.ts";
import { cleanupPlan, removalText } from "../../../../cli/node/cleanup/plan.ts";
import type { NodePlace } from "../../../../cli/node/place.ts";
import { remove } from "../../../../cli/node/machine/remove.ts";
import { nodeSyscalls } from "../../../../kernel/syscall/node.ts";
import { bridgeMac, hostMac } from "../../../../cni/names.ts";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { parseMac } from "../../../../kernel/ip/mac.ts";
import { attachmentRecord } from "../../../support/attachment_record.ts";
import { memoryFiles, runCli } from "../../../support/cli.ts";
import { assertGolden } from "../../../support/cli_golden.ts";
import { sha256 } from "../../../support/cni.ts";
import { link, PLACE } from "../../../support/node/node_facts.ts";

const CONFIGURATION =
  "apiVersion: drawbridge.dev/v1alpha1\nkind: PolicydConfiguration\nbridge: br7\nsocketPath: /run/other.sock\n";
const HOST = "dbv0123456789ab";
const BRIDGE = link(3, "cni0", { kind: "bridge", mac: bridgeMac(sha256, "cni0", "10.244.1.1") });
const VETH = link(4, HOST, { kind: "veth", mac: hostMac(sha256, HOST), master: 3 });
const VXLAN = { vni: 107, port: 4789, local: undefined, learning: false, hasMore: false };
const ROUTE = {
  table: 254,
  family: 4,
  destination: parseCidr("10.244.2.0/24"),
  gateway: undefined,
  outputInterface: 2,
  source: undefined,
  hasOtherNextHop: false,
  priority: 107,
  protocol: 107,
  onLink: false,
} as const;

function inventory(changes: Partial<Inventory> = {}): Inventory {
  return {
    place: PLACE,
    isDaemonRunning: false,
    tables: [
      { family: "inet", name: "drawbridge", comment: "drawbridge schema 0123456789abcdef", isOwned: true },
      { family: "bridge", name: "drawbridge-cni", comment: "drawbridge-cni version 2", isOwned: false },
      { family: "inet", name: "firewalld", comment: undefined, isOwned: false },
    ],
    routes: [ROUTE, { ...ROUTE, protocol: 3 }, { ...ROUTE, priority: 0 }],
    rules: [{ family: 4, inputInterface: "cni0", table: 107, priority: 107 }],
    links: [BRIDGE, VETH, link(5, "drawbridge.vx", { kind: "vxlan", vxlan: VXLAN }), link(6, "flannel.1")],
    bypassedBridges: [],
    addresses: [{ link: "cni0", address: parseCidr("10.244.1.1/24") }],
    records: [attachmentRecord({ hostInterface: HOST })],
    files: [
      { path: "/opt/cni/bin/drawbridge", isDirectory: false, isOurs: true },
      { path: "/opt/cni/bin/loopback", isDirectory: false, isOurs: false },
      { path: "/opt/cni/bin/drawbridge-plugin", isDirectory: false, isOurs: true },
      { path: "/etc/cni/net.d/10-drawbridge.conflist", isDirectory: false, isOurs: true },
    ],
    state: ["attachments", "policyd.sock"],
    server: { names: ["lock", "socket"], isRunning: true },
    stores: [{ path: "/var/lib/cni/networks/drawbridge", strange: [] }],
    ...changes,
  };
}

function texts(removals: readonly Removal[]): readonly string[] {
  return removals.map((one) => `${one.kind} ${removalText(one)}`);
}

const WITHOUT_PODS = [
  "file /etc/cni/net.d/10-drawbridge.conflist",
  "file /opt/cni/bin/drawbridge",
  "file /opt/cni/bin/drawbridge-plugin",
  "table inet drawbridge",
  "table bridge drawbridge-cni",
  "rule 107: IPv4 iif cni0 lookup 107",
  "route 10.244.2.0/24 table 254",
  "link drawbridge.vx",
];
const SERVER = "directory /run/drawbridge-plugin";

describe("cli/node: cleanup", () => {
  it("CHAIN-08: of a list in which another main plugin stands only our plugins are removed, and copies of others' files stay", () => {
    const path = "/etc/cni/net.d/10-drawbridge.conflist";
    const { removals, kept } = cleanupPlan(
      inventory({
        files: [
          { path, isDirectory: false, isOurs: true, hasMainPlugin: true },
          { path: `${path}.saved-0123456789ab`, isDirectory: false, isOurs: false },
        ],
      }),
      false,
    );
    assert.equal(texts(removals)[0], `entry our plugins in ${path}`);
    assert.equal(kept[0]?.what, `${path}.saved-0123456789ab`);
  });

  it("CHAIN-08: removing our plugins leaves what stands before them, and no file where nothing does", () => {
    const directory = mkdtempSync(`${tmpdir()}/drawbridge-cleanup-`);
    try {
      const path = `${directory}/10-drawbridge.conflist`;
      const chained = { type: "tuning", "drawbridge.dev/from": "cniChain" };
      const plugins = [{ type: "bridge" }, { type: "drawbridge" }, chained, { type: "istio-cni" }];
      writeFileSync(path, JSON.stringify({ name: "drawbridge", x: 1, plugins }), { mode: 0o644 });
      remove(nodeSyscalls(), { kind: "entry", path });
      assert.deepEqual(JSON.parse(readFileSync(path, "utf8")), {
        name: "drawbridge",
        x: 1,
        plugins: [{ type: "bridge" }, { type: "istio-cni" }],
      });
      assert.equal(statSync(path).mode & 0o777, 0o644);
      writeFileSync(path, JSON.stringify({ name: "drawbridge", plugins: plugins.slice(1) }));
      remove(nodeSyscalls(), { kind: "entry", path });
      remove(nodeSyscalls(), { kind: "entry", path });
      assert.deepEqual(readdirSync(directory), []);
    } finally {
      rmSync(directory, { recursive: true });
    }
  });

  it("DOCTOR-03: without --pods what pods need stays, and is named", () => {
    const { removals, kept } = cleanupPlan(inventory(), false);
    assert.deepEqual(texts(removals), [...WITHOUT_PODS, SERVER, "file /run/drawbridge/policyd.sock"]);
    assert.deepEqual(
      kept.map(({ what }) => what),
      [
        "/opt/cni/bin/loopback",
        `link ${HOST}`,
        "link cni0",
        "/var/lib/cni/networks/drawbridge",
        "/run/drawbridge/attachments",
      ],
    );
  });

  it("DOCTOR-03: with --pods links, bridge, addresses and records go, in this order", () => {
    const { removals, kept } = cleanupPlan(inventory(), true);
    assert.deepEqual(texts(removals), [
      ...WITHOUT_PODS,
      `link ${HOST}`,
      "link cni0",
      SERVER,
      "directory /var/lib/cni/networks/drawbridge",
      "directory /run/drawbridge",
    ]);
    assert.deepEqual(
      kept.map(({ what }) => what),
      ["/opt/cni/bin/loopback"],
    );
  });

  const OTHER_MAC = parseMac("02:00:00:00:00:01");
  const FOREIGN: readonly (readonly [string, Partial<Inventory>, string])[] = [
    [
      "a table of our name without our comment",
      { tables: [{ family: "inet", name: "drawbridge", comment: "x", isOwned: false }] },
      "table inet drawbridge",
    ],
    ["a bridge with another MAC address", { links: [{ ...BRIDGE, mac: OTHER_MAC }] }, "link cni0"],
    ["a bridge with another's port", { links: [BRIDGE, link(9, "tap0", { master: 3 })] }, "link cni0"],
    ["a device of our tunnel's name of another kind", { links: [link(9, "drawbridge.vx")] }, "link drawbridge.vx"],
    ["a store with other files", { stores: [{ path: "/store", strange: ["notes"] }] }, "/store"],
    ["a state directory with other files", { state: ["notes"] }, "/run/drawbridge"],
    [
      "a plugin server's directory with other files",
      { server: { names: ["lock", "notes"], isRunning: false } },
      "/run/drawbridge-plugin",
    ],
  ];
  for (const [name, changes, what] of FOREIGN) {
    it(`DOCTOR-03: ${name} stays`, () => {
      const { removals, kept } = cleanupPlan(inventory({ records: [], ...changes }), true);
      assert.ok(
        kept.some((one) => one.what === what),
        JSON.stringify(kept),
      );
      assert.ok(!texts(removals).some((text) => text.endsWith(what)), texts(removals).join("\n"));
    });
  }

  it("DOCTOR-03: a plugin server that runs is told, and its directory goes wherever the state directory is", () => {
    const running = inventory();
    assert.match(cleanupPlan(running, false).notes.join(), /^a plugin server runs: .*ends by itself within a minute$/);
    const elsewhere = inventory({
      place: { ...PLACE, stateDirectory: "/run/other" },
      state: ["attachments"],
      server: { names: ["lock"], isRunning: false },
    });
    const { removals, notes } = cleanupPlan(elsewhere, true);
    assert.deepEqual(
      texts(removals).filter((text) => text.includes("/run/")),
      [SERVER, "directory /run/other"],
    );
    assert.deepEqual(notes, []);
    const without = inventory({ server: undefined, state: ["attachments"] });
    assert.ok(!texts(cleanupPlan(without, true).removals).includes(SERVER));
  });

  it("DOCTOR-03: a veth of a name like ours with another MAC address is not touched", () => {
    const { removals } = cleanupPlan(inventory({ links: [{ ...VETH, mac: OTHER_MAC }] }), true);
    assert.ok(!texts(removals).includes(`link ${HOST}`));
  });

  it("DOCTOR-03: a bridge that stays keeps no program of ours, but while pods go by it", () => {
    const bridge = { ...BRIDGE, mac: OTHER_MAC };
    const changes = { links: [bridge, VETH], bypassedBridges: [bridge] };
    const { removals, kept } = cleanupPlan(inventory(changes), true);
    assert.deepEqual(
      texts(removals).filter((text) => /^(link|program) /.test(text)),
      [`link ${HOST}`, "program drawbridge_1 of cni0"],
    );
    assert.ok(kept.some(({ what }) => what === "link cni0"));
    assert.ok(!texts(cleanupPlan(inventory(changes), false).removals).includes("program drawbridge_1 of cni0"));
  });

  it("DOCTOR-07: it goes on after a failure and says what is left", () => {
    const { removals } = cleanupPlan(inventory(), true);
    const asked: Removal[] = [];
    const outcomes = carryOut(
      {
        remove: (removal) => {
          asked.push(removal);
          if (removal.kind === "table") throw new DrawbridgeError("ERR_NETLINK", "another process owns the table");
        },
      },
      removals,
    );
    assert.deepEqual(asked, removals);
    assert.deepEqual(
      outcomes.flatMap(({ removal, failure }) => (failure === undefined ? [] : [removal.kind])),
      ["table", "table"],
    );
  });

  async function run(args: readonly string[], changes: Partial<Inventory> = {}, failing?: Removal["kind"]) {
    const removed: Removal[] = [];
    const machine = {
      readFacts: () => assert.fail("a cleanup asks no doctor"),
      readInventory: (place: NodePlace) => inventory({ place, ...changes }),
      remove: (removal: Removal) => {
        if (removal.kind === failing) throw new DrawbridgeError("ERR_NETLINK", "device or resource busy (EBUSY)");
        removed.push(removal);
      },
    };
    const node = { open: () => Promise.resolve(machine) };
    const outcome = await runCli(
      ["node", "cleanup", ...args],
      memoryFiles({ "policyd.yaml": CONFIGURATION }),
      { columns: 110, hasColour: false },
      undefined,
      node,
    );
    return { ...outcome, removed };
  }

  it("DOCTOR-08: without --yes nothing is removed, whatever else is asked for", async () => {
    for (const args of [[], ["--pods"], ["--force"], ["-o", "json"]]) {
      const { removed, code } = await run(args);
      assert.deepEqual([removed, code], [[], 1]);
    }
  });

  it("DOCTOR-08: while policyd answers nothing is removed without --force", async () => {
    const { removed, code, err } = await run(["--yes"], { isDaemonRunning: true });
    assert.deepEqual([removed, code], [[], 3]);
    assert.match(err, /policyd answers on \/run\/drawbridge\/policyd\.sock.*--force/);
    assert.ok((await run(["--yes", "--force"], { isDaemonRunning: true })).removed.length > 0);
  });

  it("DOCTOR-08: where policyd would answer, and what its bridge is, its configuration says", async () => {
    const { err } = await run(["--yes", "--config", "policyd.yaml"], { isDaemonRunning: true });
    assert.match(err, /policyd answers on \/run\/other\.sock/);
    const br7 = link(3, "br7", { kind: "bridge", mac: bridgeMac(sha256, "br7", "") });
    const pods = ["--pods", "--yes"];
    const { removed } = await run([...pods, "--config", "policyd.yaml"], { links: [br7] });
    const bridges = (all: readonly Removal[]) => all.filter(({ kind }) => kind === "link").map(removalText);
    assert.deepEqual(bridges(removed), ["br7"]);
    assert.deepEqual(bridges((await run(pods, { links: [br7] })).removed), []);
  });

  it("DOCTOR-08: exit codes are 0 when all is gone, 1 when something is left", async () => {
    assert.equal((await run(["--yes"])).code, 0);
    assert.equal((await run(["--yes"], {}, "link")).code, 1);
  });

  for (const [name, args, file] of [
    ["a dry run", [], "plan.txt"],
    ["a dry run as JSON", ["-o", "json"], "plan.json"],
    ["a real run with a failure", ["--yes", "--pods"], "done.txt"],
    ["a real run as YAML", ["--yes", "--pods", "-o", "yaml"], "done.yaml"],
  ] as const) {
    it(`DOCTOR-06: ${name} is printed as in node/cleanup/${file}`, async () => {
      assertGolden(`node/cleanup/${file}`, (await run(args, {}, "rule")).out);
    });
  }
});
