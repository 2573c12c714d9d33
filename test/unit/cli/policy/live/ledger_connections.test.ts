import assert from "node:assert/strict";
import { ledgerConnections } from "../../../../../cli/policy/live/ledger_connections.ts";
import { formatAddress, parseAddress } from "../../../../../kernel/ip/address.ts";
import { FlowEndNames } from "../../../../../policyd/flows/flow_end_names.ts";
import { rowLine } from "../../../../../policyd/flows/journal.ts";
import { Ledger } from "../../../../../policyd/flows/ledger.ts";
import type { FlowRow } from "../../../../../policyd/flows/row.ts";
import { buildPolicyIndex } from "../../../../../objects/semantics/policies/policy_index.ts";
import { memoryFiles, runCli } from "../../../../support/cli/cli.ts";
import { namespace, networkPolicy, node, objectsIn, ownedBy, pod } from "../../../../support/cli/objects.ts";
import { storeOf } from "../../../../support/evaluate/store.ts";
import { storeView } from "../../../../support/policy/store_view.ts";

const NODES = ["n1", "n2"] as const;
const APPS = ["web", "db"] as const;
const NAMESPACES = ["shop", "other"] as const;

/** Two pods of each workload, one on each node, with addresses of both families. */
const WORLD =
  NAMESPACES.map((name) => namespace(name)).join("") +
  NODES.map((name, n) => node(name, `192.0.2.${n + 1}`)).join("") +
  NAMESPACES.flatMap((place, s) => APPS.flatMap((app, a) => NODES.map((_, n) => podOf(place, s, app, a, n)))).join("");

function podOf(place: string, s: number, app: string, a: number, n: number): string {
  const more = { app, metadata: ownedBy("StatefulSet", app), spec: `nodeName: n${n + 1}` };
  return pod(`${place}/${app}-${n}`, `${addressOf(s, a, n)} fd00::${s}:${a}:${n}`, more);
}

function addressOf(s: number, a: number, n: number): string {
  return `10.244.${n + 1}.${10 * (s + 1) + a}`;
}

const CLOSED = networkPolicy("shop/db", "podSelector: { matchLabels: { app: db } }, policyTypes: [Ingress]");
const STORE = storeOf(objectsIn(WORLD));
const INDEX = buildPolicyIndex(STORE, {});

/** Returns the rows of both nodes' ledgers after some TCP connections. */
function rowsOf(pairs: readonly Pair[], name?: string): readonly FlowRow[] {
  return NODES.flatMap((here) => {
    const [ledger, ends] = [new Ledger(), new FlowEndNames(here, storeView(STORE).holderOf, () => name)];
    for (const [id, [source, server, port]] of pairs.entries()) {
      const [from, to] = ends.of(parseAddress(source), parseAddress(server));
      if (from.isLocal || to.isLocal) ledger.begun(id, { from, to, protocol: "TCP", port }, id);
    }
    return [...ledger.rows()];
  });
}

type Pair = readonly [from: string, to: string, port: number];

describe("cli/policy/live: the flows of a ledger", () => {
  it("LIVE-08: rows name current pods: two if a workload talks to itself, and one on another node for a node", () => {
    const { connections, gone } = ledgerConnections(
      INDEX,
      rowsOf([
        [addressOf(0, 0, 0), addressOf(0, 0, 1), 80],
        ["192.0.2.1", addressOf(0, 1, 1), 80],
        ["192.0.2.2", addressOf(0, 1, 1), 81],
        [addressOf(0, 1, 0), "203.0.113.4", 443],
        [addressOf(0, 1, 0), "203.0.113.5", 443],
      ]),
    );
    const texts = connections.map(
      ({ source, destination, port }) => `${formatAddress(source)} ${formatAddress(destination)} ${port}`,
    );
    assert.deepEqual([...new Set(texts)].toSorted(), [
      "10.244.1.10 10.244.2.10 80",
      "10.244.1.11 203.0.113.4 443",
      "10.244.1.11 203.0.113.5 443",
      "192.0.2.1 10.244.1.11 81",
      "192.0.2.1 10.244.2.11 80",
    ]);
    assert.deepEqual(gone, []);
  });

  it("LIVE-08: missing ends, and protocols without policies, are reported and not evaluated", () => {
    const [row] = rowsOf([[addressOf(0, 0, 0), addressOf(0, 1, 0), 80]]);
    assert.ok(row !== undefined);
    const { connections, gone, others } = ledgerConnections(INDEX, [
      { ...row, from: { type: "workload", name: "shop/deployment/old" } },
      { ...row, to: { type: "node", name: "n9" } },
      { ...row, protocol: "protocol 47", port: undefined },
      { ...row, verdict: "denied" },
      { ...row, protocol: "ICMPv6", port: undefined },
    ]);
    assert.deepEqual(gone, ["node n9", "workload shop/deployment/old"]);
    assert.deepEqual([others, connections.map(({ protocol }) => protocol)], [1, ["ICMP"]]);
  });

  it("LIVE-08: dry-run --ledger lists recorded flows that the change would cut, and the rule that keeps them", async () => {
    const rows = rowsOf([
      [addressOf(0, 0, 0), addressOf(0, 1, 1), 5432],
      ["203.0.113.4", addressOf(0, 1, 1), 5432],
      ["203.0.113.5", addressOf(0, 1, 1), 5432],
      [addressOf(1, 0, 0), addressOf(1, 1, 1), 80],
    ]).map((row) => ({ ...row, firstSeen: Date.UTC(2026, 0, 1), lastSeen: Date.UTC(2026, 0, 8) }));
    const gone = { ...(rows[0] ?? assert.fail()), from: { type: "workload", name: "shop/deployment/old" } as const };
    const files = memoryFiles({
      "world.yaml": WORLD,
      "change.yaml": CLOSED,
      "flows.jsonl": [...rows, gone].map(rowLine).join(""),
    });
    const { code, out, err } = await runCli(
      ["policy", "dry-run", "-f", "change.yaml", "--against", "world.yaml", "--ledger", "flows.jsonl"],
      files,
    );
    assert.equal(code, 1);
    assert.match(out, /shop\/statefulset\/web +shop\/statefulset\/db +5432\/TCP +1 +ingress: /);
    assert.match(out, /cidr: 203\.0\.113\.4\/31/);
    assert.match(err, /note: \d flows of 7 days were read, from 2026-01-01T00:00 to 2026-01-08T00:00/);
    assert.match(err, /note: flows of workload shop\/deployment\/old are not judged: no pod or node has this name/);
    const wrong = await runCli(
      ["policy", "dry-run", "-f", "change.yaml", "--against", "world.yaml", "--ledger", "change.yaml"],
      files,
    );
    assert.deepEqual([wrong.code, /^.*change\.yaml:1: expected a flow/m.test(wrong.err)], [3, true]);
  });

  it("LIVE-08: where policies tell a workload's pods apart, pods of each kind are judged, and suggest cuts none of them off", async () => {
    const owned = { app: "api", metadata: ownedBy("StatefulSet", "api"), spec: "nodeName: n1" };
    const world =
      WORLD +
      pod("shop/api-0", "10.244.1.50", { ...owned, labels: "track: canary" }) +
      pod("shop/api-1", "10.244.1.51", owned);
    const canary = (rules: string): string =>
      networkPolicy("shop/canary", `podSelector: { matchLabels: { track: canary } }, ingress: [${rules}]`);
    const web = addressOf(0, 0, 1);
    const [row = assert.fail()] = rowsOf([[web, addressOf(0, 1, 0), 5432]]);
    const table = `tcp 6 9 ESTABLISHED src=${web} dst=10.244.1.50 sport=5 dport=5432 src=10.244.1.50 dst=${web} sport=5432 dport=5\n`;
    const files = {
      "open.yaml": world + canary("{ from: [{ podSelector: {} }] }"),
      "world.yaml": world,
      "shut.yaml": canary(""),
      "both.yaml": networkPolicy("shop/api", "podSelector: { matchLabels: { app: api } }"),
      "flows.jsonl": rowLine({ ...row, to: { type: "workload", name: "shop/statefulset/api" } }),
      "table.txt": table,
    };
    const judge = async (change: string, against: string): Promise<string | undefined> => {
      const args = ["policy", "dry-run", "-f", change, "--against", against, "--ledger", "flows.jsonl"];
      return /^of .*$/m.exec((await runCli(args, memoryFiles(files))).out)?.[0];
    };
    assert.equal(await judge("shut.yaml", "world.yaml"), "of 2 connections 1 would be cut", "only after the change");
    assert.equal(await judge("both.yaml", "open.yaml"), "of 2 connections 1 would be cut", "before it, too");
    for (const seen of [
      ["--ledger", "flows.jsonl"],
      ["--conntrack", "table.txt"],
    ]) {
      const suggested = await runCli(
        ["policy", "suggest", "-n", "shop", "-f", "open.yaml", ...seen],
        memoryFiles(files),
      );
      const sides = memoryFiles({ ...files, "new.yaml": suggested.out });
      const ends = ["--from", "shop/statefulset/web", "--to", "shop/statefulset/api", "--port", "5432"];
      const { code, out } = await runCli(["policy", "explain", "-f", "open.yaml", "new.yaml", ...ends], sides);
      assert.deepEqual([suggested.code, code], [0, 0], out);
    }
  });

  it("LIVE-08: denied flows that the change allows are listed, and suggest does not learn from them", async () => {
    const [row] = rowsOf([[addressOf(0, 0, 0), addressOf(0, 1, 1), 5432]]);
    const denied = { ...(row ?? assert.fail()), verdict: "denied", reason: "isolated" } as const;
    const files = memoryFiles({
      "world.yaml": WORLD + CLOSED,
      "change.yaml": networkPolicy("shop/db", "podSelector: { matchLabels: { app: db } }, ingress: [{}]"),
      "open.yaml": WORLD,
      "flows.jsonl": rowLine(denied),
    });
    const change = ["policy", "dry-run", "-f", "change.yaml", "--against", "world.yaml", "--ledger", "flows.jsonl"];
    const { code, out } = await runCli(change, files);
    assert.equal(code, 0, "nothing is cut");
    assert.match(
      out,
      /^1 that policies deny would be allowed: shop\/statefulset\/web to shop\/statefulset\/db 5432\/TCP$/m,
    );
    const json = JSON.parse((await runCli([...change, "-o", "json"], files)).out) as {
      readonly live: { readonly openings: unknown };
    };
    assert.deepEqual(json.live.openings, [
      { source: "shop/statefulset/web", destination: "shop/statefulset/db", protocol: "TCP", port: 5432 },
    ]);
    const asked = ["policy", "suggest", "-n", "shop", "-f", "open.yaml", "--ledger", "flows.jsonl"];
    const suggested = await runCli(asked, files);
    assert.doesNotMatch(suggested.out, /5432/);
  });

  it("SUGGEST-08: suggest --ledger allows the recorded ranges outside, and says what time they cover", async () => {
    const rows = rowsOf([
      [addressOf(0, 0, 0), "203.0.113.4", 443],
      [addressOf(0, 0, 1), "203.0.113.5", 443],
    ]).map((row) => ({ ...row, firstSeen: 0, lastSeen: 90_000 }));
    const files = memoryFiles({
      "world.yaml": WORLD,
      "flows.jsonl": rows.map(rowLine).join(""),
    });
    const { code, out, err } = await runCli(
      ["policy", "suggest", "-n", "shop", "-f", "world.yaml", "--ledger", "flows.jsonl"],
      files,
    );
    assert.equal(code, 0);
    assert.match(out, /cidr: 203\.0\.113\.4\/31/);
    assert.doesNotMatch(out, /\/32/);
    assert.match(err, /note: 1 flow of 90 seconds was read, .*: what happens at other times is not allowed/);
  });

  it("SUGGEST-08: addresses that a workload knows by a domain name are allowed by the name, at the port that was seen", async () => {
    const named = ["203.0.113.4", "2001:db8::4"].map((server) => [addressOf(0, 0, 0), server, 443] as const);
    const rows = [...rowsOf(named, "api.example.com"), ...rowsOf([[addressOf(0, 0, 0), "203.0.113.5", 8443]])];
    const files = { "world.yaml": WORLD, "flows.jsonl": rows.map(rowLine).join("") };
    const suggest = ["policy", "suggest", "-n", "shop", "-f", "world.yaml", "--ledger", "flows.jsonl"];
    const { code, out } = await runCli(suggest, memoryFiles(files));
    assert.equal(code, 0);
    assert.deepEqual(out.match(/drawbridge.dev.*|cidr: .*/g), [
      "drawbridge.dev/egress-domain-names: api.example.com:443/TCP",
      "cidr: 203.0.113.5/32",
    ]);
    const explain = [
      "policy",
      "explain",
      "-f",
      "world.yaml",
      "new.yaml",
      "--from",
      "shop/web",
      "--to",
      "api.example.com",
    ];
    for (const [port, expected] of [
      ["443", 0],
      ["8443", 1],
    ] as const) {
      const asked = await runCli([...explain, "--port", port], memoryFiles({ ...files, "new.yaml": out }));
      assert.equal(asked.code, expected, asked.out + asked.err);
    }
  });
});
