import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import type { Inventory } from "../../../../cli/node/cleanup/inventory.ts";
import { cleanupPlan } from "../../../../cli/node/cleanup/plan.ts";
import { type Removal, removalText } from "../../../../cli/node/cleanup/removal.ts";
import type { NodePlace } from "../../../../cli/node/place.ts";
import { remove } from "../../../../cli/node/machine/remove.ts";
import { nodeSyscalls } from "../../../../kernel/syscall/koffi.ts";
import { bridgeMac, delayDeviceMac } from "../../../../attachment/names_and_macs.ts";
import { CHECKSUM_PROGRAM } from "../../../../kernel/bpf/checksum_filter.ts";
import { PORT_PROGRAM } from "../../../../kernel/bpf/port_table.ts";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { parseMac } from "../../../../kernel/ip/mac.ts";
import { readList } from "../../../../policyd/installation/list_text.ts";
import { isDetachConfiguration } from "../../../../policyd/installation/configuration_list.ts";
import { nodeOf, runOnNode } from "../../../support/cli/cli.ts";
import { assertGolden } from "../../../support/cli/golden.ts";
import { sha256 } from "../../../support/cni/cni.ts";
import { BRIDGE, HOST, inventory, LIST, texts, VETH } from "../../../support/node/inventory.ts";
import { link, PLACE } from "../../../support/node/node_facts.ts";

const CONFIGURATION =
  "apiVersion: drawbridge.dev/v1alpha1\nkind: PolicydConfiguration\nbridge: br7\nsocketPath: /run/other.sock\n";

const OTHER_MAC = parseMac("02:00:00:00:00:01");
const DETACHING = { own: undefined, isDetachThere: true, others: [] };
const DETACH_FILE = "/etc/cni/net.d/zz-drawbridge-detach.conflist";
const PROGRAMS = ["/opt/cni/bin/drawbridge", "/opt/cni/bin/drawbridge-ipam"];
const KERNEL = [
  "table inet drawbridge",
  "table bridge drawbridge-cni",
  "rule 107: IPv4 iif drawbridge0 lookup 107",
  "route 10.244.2.0/24 table 254",
  "route 10.244.1.0/25 table 254",
  "proxy 10.244.1.2 on flannel.1",
  "link drawbridge.vx",
];

describe("cli/node: cleanup", () => {
  it("UNINSTALL-01: from a list with another main plugin only our plugins are removed, and copies of other files stay", () => {
    const path = "/etc/cni/net.d/10-drawbridge.conflist";
    const { removals, kept } = cleanupPlan(
      inventory({
        files: [
          { path, isOurs: true, hasMainPlugin: true },
          { path: `${path}.saved-0123456789ab`, isOurs: false },
        ],
      }),
      false,
    );
    assert.equal(texts(removals)[0], `entry our plugins in ${path}`);
    assert.equal(kept[0]?.what, `${path}.saved-0123456789ab`);
  });

  it("UNINSTALL-01: removing our plugins keeps the plugins before them, and removes the file where there are none", () => {
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

  it("UNINSTALL-01 UNINSTALL-03: after the last pod everything is removed, in this order", () => {
    const changes = { links: inventory().links.filter(({ name }) => name !== HOST), lists: DETACHING };
    const files = [...inventory().files.slice(0, 3), { path: DETACH_FILE, isOurs: true }];
    const { removals, kept, pods, notes } = cleanupPlan(inventory({ ...changes, files }), true);
    assert.deepEqual(texts(removals), [
      `file ${DETACH_FILE}`,
      ...PROGRAMS.map((path) => `file ${path}`),
      ...KERNEL,
      "link drawbridge0",
      "directory /var/lib/cni/networks/drawbridge",
      "directory /run/drawbridge",
    ]);
    assert.deepEqual(
      kept.map(({ what }) => what),
      ["/opt/cni/bin/loopback"],
    );
    assert.deepEqual([pods, notes], [[], []]);
  });

  it("UNINSTALL-03: the list for deletion attaches nothing, keeps the plugins of others, and is recognized again", () => {
    const [list] = cleanupPlan(inventory(), true).removals;
    assert.ok(list?.kind === "list");
    const plugins = [{ type: "drawbridge", bridge: "drawbridge0", detachOnly: true }, { type: "tuning" }];
    const versions = { cniVersion: "1.0.0", cniVersions: ["1.0.0", "1.1.0"] };
    assert.deepEqual(JSON.parse(list.text), { ...versions, name: "drawbridge", plugins });
    const read = readList(Buffer.from(list.text));
    assert.ok(!("unreadable" in read) && isDetachConfiguration(read));
    assert.ok(!isDetachConfiguration(LIST));
  });

  it("UNINSTALL-01: our devices that delay what pods send are removed after the pods, and foreign ones stay", () => {
    const name = "dbi0123456789ab";
    const delay = link(7, name, { kind: "ifb", mac: delayDeviceMac(sha256, name) });
    const foreign = link(8, "dbi0123456789ff", { kind: "ifb", mac: OTHER_MAC });
    const withPods = cleanupPlan(inventory({ links: [BRIDGE, VETH, delay, foreign] }), true);
    assert.ok(withPods.kept.some(({ what }) => what === `link ${name}`));
    const { removals } = cleanupPlan(inventory({ links: [BRIDGE, delay, foreign] }), true);
    assert.deepEqual(
      texts(removals).filter((text) => text.startsWith("link ")),
      [`link ${name}`, "link drawbridge0"],
    );
  });

  const FOREIGN: readonly (readonly [string, Partial<Inventory>, string])[] = [
    [
      "a table of our name without our comment",
      { tables: [{ family: "inet", name: "drawbridge", comment: "x", isOwned: false }] },
      "table inet drawbridge",
    ],
    ["a bridge with another MAC address", { links: [{ ...BRIDGE, mac: OTHER_MAC }] }, "link drawbridge0"],
    ["a bridge with another's port", { links: [BRIDGE, link(9, "tap0", { master: 3 })] }, "link drawbridge0"],
    ["a device of our tunnel's name of another kind", { links: [link(9, "drawbridge.vx")] }, "link drawbridge.vx"],
    ["a store with other files", { stores: [{ path: "/store", strange: ["notes"] }] }, "/store"],
    ["a state directory with other files", { state: ["notes"] }, "/run/drawbridge"],
    ["a flow ledger's directory with other files", { flows: ["all-1.jsonl", "notes"] }, PLACE.flowDirectory],
  ];
  for (const [name, changes, what] of FOREIGN) {
    it(`UNINSTALL-01: ${name} stays`, () => {
      const { removals, kept } = cleanupPlan(inventory({ records: [], links: [BRIDGE], ...changes }), true);
      assert.ok(
        kept.some((one) => one.what === what),
        JSON.stringify(kept),
      );
      assert.ok(!texts(removals).some((text) => text.endsWith(what)), texts(removals).join("\n"));
    });
  }

  it("UNINSTALL-01: without pods the state directory goes with all that plugin and daemon put there, marks of ended sandboxes too", () => {
    const changes = { records: [], links: [BRIDGE], state: ["attachments", "ended", "policies-enforced"] };
    assert.ok(texts(cleanupPlan(inventory(changes), true).removals).includes("directory /run/drawbridge"));
  });

  it("UNINSTALL-01: the ledger of flows is removed with or without pods", () => {
    for (const changes of [{}, { records: [], links: [BRIDGE] }]) {
      const { removals } = cleanupPlan(inventory({ ...changes, flows: ["all-3.jsonl", ".changes-4.jsonl"] }), true);
      assert.ok(texts(removals).includes(`directory ${PLACE.flowDirectory}`), texts(removals).join("\n"));
    }
    assert.ok(!texts(cleanupPlan(inventory(), true).removals).join().includes(PLACE.flowDirectory));
  });

  it("UNINSTALL-01: a bridge that stays keeps our programs only while pods use it", () => {
    const bridge = { ...BRIDGE, mac: OTHER_MAC };
    const changes = {
      links: [bridge, VETH],
      bridgePrograms: [PORT_PROGRAM, CHECKSUM_PROGRAM].map((program) => ({ program, bridge })),
    };
    const { removals, kept } = cleanupPlan(inventory(changes), true);
    assert.deepEqual(
      texts(removals).filter((text) => /^(link|program) /.test(text)),
      ["program drawbridge_1 of drawbridge0", "program drawbridge_sum1 of drawbridge0"],
    );
    assert.ok(kept.some(({ what }) => what === "link drawbridge0"));
    assert.ok(!texts(cleanupPlan(inventory(changes), false).removals).some((text) => text.startsWith("program ")));
  });

  async function run(
    args: readonly string[],
    changes: Partial<Inventory> = {},
    failing?: Removal["kind"],
    later: readonly Partial<Inventory>[] = [],
  ) {
    const removed: Removal[] = [];
    let looks = 0;
    const has = {
      readInventory: (place: NodePlace) => inventory({ place, ...changes, ...later[looks - 1] }),
      readPods: (place: NodePlace) => inventory({ place, ...changes, ...later[looks - 1] }),
      remove: (removal: Removal) => {
        if (removal.kind === failing) throw new DrawbridgeError("ERR_NETLINK", "device or resource busy (EBUSY)");
        removed.push(removal);
      },
    };
    const sleep = (): Promise<void> => {
      looks++;
      return looks > later.length ? assert.fail("it waits for nothing") : Promise.resolve();
    };
    const files = { "policyd.yaml": CONFIGURATION };
    const outcome = await runOnNode(["node", "cleanup", ...args], nodeOf(has, sleep), { files, columns: 110 });
    return { ...outcome, removed };
  }

  it("DOCTOR-08: without --yes nothing is removed, whatever the other options", async () => {
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

  it("DOCTOR-08: policyd's configuration says where its socket is and which bridge it has", async () => {
    const { err } = await run(["--yes", "--config", "policyd.yaml"], { isDaemonRunning: true });
    assert.match(err, /policyd answers on \/run\/other\.sock/);
    const br7 = link(3, "br7", { kind: "bridge", mac: bridgeMac(sha256, "br7", "") });
    const pods = ["--pods", "--yes"];
    const { removed } = await run([...pods, "--config", "policyd.yaml"], { links: [br7] });
    const bridges = (all: readonly Removal[]) => all.filter(({ kind }) => kind === "link").map(removalText);
    assert.deepEqual(bridges(removed), ["br7"]);
    assert.deepEqual(bridges((await run(pods, { links: [br7] })).removed), []);
  });

  const GONE = { links: [BRIDGE], records: [] };

  it("UNINSTALL-03: with --wait a cleanup waits for the last pod, removes the rest, and says what it waits for", async () => {
    const { removed, code, out, err } = await run(["--pods", "--yes", "--wait"], {}, undefined, [{}, GONE]);
    const all = texts(removed);
    assert.ok(all.indexOf(`connection by ${HOST}`) < all.indexOf(`file ${PROGRAMS[0]}`), all.join("\n"));
    assert.equal(code, 0);
    assert.equal(err, "waiting until pods that Drawbridge has attached are deleted: default/web-0\n");
    assert.match(out, new RegExp(`${removed.length} removed\n$`));
    assert.deepEqual((await run(["--pods", "--yes", "--wait"], GONE)).code, 0);
    assert.deepEqual((await run(["--pods", "--wait"])).removed, []);
  });

  it("UNINSTALL-03: a cleanup that waits ends without removing anything when Drawbridge is installed again", async () => {
    const { removed, code, err } = await run(["--pods", "--yes", "--wait"], {}, undefined, [{ isDaemonRunning: true }]);
    assert.equal(code, 3);
    assert.match(err, /policyd answers/);
    assert.ok(!texts(removed).includes(`file ${PROGRAMS[0]}`));
  });

  for (const [name, args, file] of [
    ["a dry run", [], "plan.txt"],
    ["a dry run as JSON", ["-o", "json"], "plan.json"],
    ["a real run with a failure", ["--yes", "--pods"], "done.txt"],
    ["a real run as YAML", ["--yes", "--pods", "-o", "yaml"], "done.yaml"],
  ] as const) {
    it(`DOCTOR-06 UNINSTALL-01 UNINSTALL-03: ${name} with pods there has the removals and what stays of node/cleanup/${file}`, async () => {
      assertGolden(`node/cleanup/${file}`, (await run(args, {}, "rule")).out);
    });
  }
});
