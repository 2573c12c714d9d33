import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { audit } from "../../../../cli/node/audit/audit.ts";
import { lastingFacts, type AuditedReservation, type AuditFacts } from "../../../../cli/node/audit/facts.ts";
import { type Leak, type Repair, repairKey } from "../../../../cli/node/audit/leak.ts";
import { auditNode } from "../../../../cli/node/audit/run.ts";
import type { CheckedLink } from "../../../../policyd/problems/check.ts";
import { sha256 } from "../../../../cli/node/cleanup/attached.ts";
import type { NodeAccess } from "../../../../cli/node/machine/machine.ts";
import { processesByContainer } from "../../../../cli/node/machine/read_audit.ts";
import { delayDeviceMac, delayDeviceName, hostInterfaceName, hostMac } from "../../../../attachment/names_and_macs.ts";
import type { AttachmentRecord } from "../../../../attachment/attachment.ts";
import type { Reservation } from "../../../../ipam/reservation.ts";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { nodeOf, runOnNode } from "../../../support/cli/cli.ts";
import { podRecord } from "../../../support/node/held_daemon.ts";
import { PLACE } from "../../../support/node/node_facts.ts";

const linkName = (containerId: string): string => hostInterfaceName(sha256, containerId, "eth0");

const record = (containerId: string, changes: Partial<AttachmentRecord> = {}): AttachmentRecord =>
  podRecord(containerId, { hostInterface: linkName(containerId), ...changes });

const delayDevice = (name: string): CheckedLink => ({ ...link(name), kind: "ifb", mac: delayDeviceMac(sha256, name) });

function link(name: string): CheckedLink {
  return {
    index: 7,
    name,
    kind: "veth",
    mac: hostMac(sha256, name),
    up: true,
    mtu: 1500,
    vxlan: undefined,
  } as CheckedLink;
}

const reserved = (containerId: string, text: string, isOld = true): AuditedReservation =>
  reservationOf({ kind: "owned", address: parseAddress(text), owner: { containerId, ifname: "eth0" } }, text, isOld);

function reservationOf(reservation: Reservation, text: string, isOld: boolean): AuditedReservation {
  return { network: "drawbridge", reservation, path: `/var/lib/cni/networks/drawbridge/${text}`, isOld };
}

function factsOf(changes: Partial<AuditFacts> = {}): AuditFacts {
  return {
    place: PLACE,
    links: { value: [] },
    records: { value: { records: [], unreadable: [] } },
    reservations: { value: [] },
    pluginOwners: { value: new Set() },
    guardOwners: { value: new Set() },
    hasProcesses: { value: (containerId) => containerId === "runs" },
    ...changes,
  };
}

const recordsOf = (...all: readonly (readonly [string, Partial<{ hasEnded: boolean; isMarked: boolean }>])[]) => ({
  value: {
    records: all.map(([id, how]) => ({ record: record(id), hasEnded: false, isMarked: false, ...how })),
    unreadable: [],
  },
});

const found = (facts: AuditFacts): readonly string[] =>
  audit(facts).leaks.map(({ kind, what, repair }: Leak) => `${kind} ${what}: ${keyOf(repair)}`);

const keyOf = (repair: Leak["repair"]): string => (typeof repair === "string" ? "left" : repairKey(repair));

describe("cli/node: audit", () => {
  it("AUDIT-01: an ended sandbox's record, addresses and host ports are listed, and repaired together", () => {
    assert.deepEqual(found(factsOf({ records: recordsOf(["a", { hasEnded: true }]) })), [
      "record drawbridge/a:eth0: detach drawbridge/a:eth0",
      "address 10.244.1.97: detach drawbridge/a:eth0",
      "host port 53/udp: detach drawbridge/a:eth0",
    ]);
    assert.equal(found(factsOf({ records: recordsOf(["a", { isMarked: true }]) })).length, 3);
  });

  it("AUDIT-01: an ADD under way is not a leak: a record without a link, a young reservation, or elements and a link with a record", () => {
    const owners = { value: new Set([linkName("a")]) };
    const facts = {
      records: recordsOf(["a", {}]),
      reservations: { value: [reserved("b", "10.244.1.9", false), reserved("a", "10.244.1.97")] },
      pluginOwners: owners,
      guardOwners: owners,
    };
    assert.deepEqual(found(factsOf(facts)), []);
    assert.deepEqual(found(factsOf({ ...facts, links: { value: [link(linkName("a"))] } })), []);
  });

  it("AUDIT-01: what a DEL removes, or an ADD makes, between two reads is not a leak", () => {
    const name = linkName("a");
    const present = {
      links: { value: [link(name)] },
      guardOwners: { value: new Set([name]) },
      pluginOwners: { value: new Set([name]) },
    };
    const recorded = factsOf({ ...present, records: recordsOf(["a", { hasEnded: true }]) });
    const unrecorded = factsOf(present);
    assert.ok(found(unrecorded).length > 0);
    assert.deepEqual(found(lastingFacts(recorded, unrecorded)), []);
    assert.deepEqual(found(lastingFacts(unrecorded, recorded)), []);
    assert.deepEqual(found(lastingFacts(unrecorded, factsOf())), []);
    assert.deepEqual(found(lastingFacts(unrecorded, unrecorded)), found(unrecorded));
    assert.equal(found(lastingFacts(recorded, recorded)).length, 3);
  });

  it("AUDIT-01: a device that delays a pod's packets is a leak, except where the pod has a link or a record", () => {
    const devices = ["a", "b", "c"].map((id) => delayDevice(delayDeviceName(sha256, id, "eth0")));
    const facts = { records: recordsOf(["a", {}]), links: { value: [...devices, link(linkName("b"))] } };
    const gone = delayDeviceName(sha256, "c", "eth0");
    assert.deepEqual(found(factsOf(facts)), [`link ${linkName("b")}: left`, `link ${gone}: link ${gone}`]);
  });

  it("AUDIT-01: a marked sandbox whose link exists is not touched", () => {
    const facts = { records: recordsOf(["a", { isMarked: true }]), links: { value: [link(linkName("a"))] } };
    assert.deepEqual(found(factsOf(facts)), []);
  });

  it("AUDIT-01: reservations, links and elements without a record are listed, and links stay, as pods may use them", () => {
    const facts = factsOf({
      links: { value: [link(linkName("dead")), link(linkName("runs")), link("dbv000000000001"), link("eth0")] },
      reservations: {
        value: [
          reserved("gone", "10.244.1.9"),
          reserved("runs", "10.244.1.10"),
          reserved("dead", "10.244.1.11"),
          reservationOf({ kind: "unreadable", address: parseAddress("10.244.1.12") } as const, "10.244.1.12", true),
          reservationOf(
            { kind: "legacy", address: parseAddress("10.244.1.13"), containerId: "old" } as const,
            "x",
            true,
          ),
        ],
      },
      pluginOwners: { value: new Set(["dbv0000000000aa"]) },
      guardOwners: { value: new Set(["dbv0000000000bb"]) },
    });
    assert.deepEqual(found(facts), [
      `address 10.244.1.9: release drawbridge ${parseAddress("10.244.1.9")}`,
      "address 10.244.1.12: left",
      `address 10.244.1.13: release drawbridge ${parseAddress("10.244.1.13")}`,
      `link ${linkName("dead")}: left`,
      `link ${linkName("runs")}: left`,
      "link dbv000000000001: left",
      "element elements of dbv0000000000aa: withdraw dbv0000000000aa",
      "element elements of dbv0000000000bb: left",
    ]);
  });

  it("AUDIT-01: a container runs if the control group of a process has its name", () => {
    const own = readFileSync("/proc/self/cgroup", "utf8").trim();
    const hasProcesses = processesByContainer();
    assert.equal(hasProcesses(own), true);
    assert.equal(hasProcesses("0123456789abcdef-no-such-container"), false);
  });

  it("AUDIT-01: nothing is released where the running containers are unknown", () => {
    const facts = {
      reservations: { value: [reserved("gone", "10.244.1.9")] },
      hasProcesses: { unseen: "a container" },
    };
    assert.deepEqual(found(factsOf(facts)), ["address 10.244.1.9: left"]);
  });

  it("AUDIT-01: only ended records count as leaked where links or records are unknown", () => {
    const rest = {
      reservations: { value: [reserved("gone", "10.244.1.9")] },
      pluginOwners: { value: new Set(["dbv1"]) },
    };
    for (const blind of [{ links: { unseen: "no" } }, { records: { unseen: "no" } }]) {
      assert.deepEqual(found(factsOf({ ...rest, ...blind })), []);
    }
  });

  it("AUDIT-01: addresses of an IPAM plugin of others are left to its DEL", () => {
    const delegated = record("a", { dataDir: `${PLACE.stateDirectory}/delegated` });
    const records = { value: { records: [{ record: delegated, hasEnded: true, isMarked: false }], unreadable: [] } };
    assert.ok(audit(factsOf({ records })).leaks.every(({ repair }) => typeof repair === "string"));
  });

  it("AUDIT-01: each repair is done once, and a failure is reported without stopping the others", () => {
    const done: string[] = [];
    const machine = {
      readAuditFacts: () => factsOf({ records: recordsOf(["a", { hasEnded: true }], ["b", { hasEnded: true }]) }),
      repair: (_: unknown, repair: Repair) => {
        done.push(repairKey(repair));
        if (done.length === 1) throw new DrawbridgeError("ERR_INPUT", "in use by now");
      },
    };
    const { outcomes } = auditNode(machine, PLACE, true);
    assert.deepEqual(done, ["detach drawbridge/a:eth0", "detach drawbridge/b:eth0"]);
    assert.deepEqual(
      outcomes.map(({ state, reason }) => reason ?? state),
      ["in use by now", "repaired", "in use by now", "repaired", "in use by now", "repaired"],
    );
  });

  const access = (facts: AuditFacts, repaired: string[] = []): NodeAccess =>
    nodeOf({ readAuditFacts: () => facts, repair: (_, repair) => void repaired.push(repairKey(repair)) });

  it("DOCTOR-06: table, JSON and YAML have the same content, and the exit code says whether leaks are left", async () => {
    const facts = factsOf({ records: recordsOf(["a", { hasEnded: true }]) });
    const run = async (...args: readonly string[]) => {
      const repaired: string[] = [];
      const outcome = await runOnNode(["node", "audit", ...args], access(facts, repaired), { columns: 110 });
      return { ...outcome, repaired };
    };
    const table = await run();
    assert.deepEqual([table.code, table.repaired], [1, []]);
    assert.match(table.out, /leaked +record +drawbridge\/a:eth0\n/i);
    assert.match(table.out, /3 leaks; nothing was changed: --repair repairs 3 of them\n$/);
    const json = await run("-o", "json");
    assert.equal(json.code, 1);
    const { repair, leaks } = JSON.parse(json.out) as { readonly repair: boolean; readonly leaks: readonly object[] };
    assert.deepEqual([repair, leaks.length], [false, 3]);
    assert.deepEqual(leaks[1], {
      kind: "address",
      what: "10.244.1.97",
      why: "the sandbox of n/a eth0 has ended without DEL",
      state: "leaked",
    });
    const yaml = await run("--repair", "-o", "yaml");
    assert.deepEqual([yaml.code, yaml.repaired], [0, ["detach drawbridge/a:eth0"]]);
    assert.match(yaml.out, /state: repaired/);
    assert.equal((await run("--repairs")).code, 2);
  });

  it("DOCTOR-06: without leaks the exit code is 0, and 3 where the records could not be read", async () => {
    const codeOf = async (facts: AuditFacts): Promise<number | undefined> =>
      (await runOnNode(["node", "audit"], access(facts))).code;
    assert.equal(await codeOf(factsOf()), 0);
    assert.equal(await codeOf(factsOf({ guardOwners: { unseen: "no nftables" } })), 0);
    assert.equal(await codeOf(factsOf({ records: { unseen: "EIO" } })), 3);
    assert.equal(await codeOf(factsOf({ links: { unseen: "EPERM; run as root", needsRoot: true } })), 3);
  });
});
