import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { VERSION } from "../../policyd/version.ts";
import type { Question } from "../demo/matrix.ts";
import type { Cell } from "../demo/services/cells.ts";
import type { DemoResult } from "../demo/steps.ts";

export const DEMO = fileURLToPath(new URL("../demo/demo.ts", import.meta.url));

/** The output of `npm run demo -- -o json`. */
export type Result = DemoResult & { readonly isAsExpected: boolean };

export const keyOf = ({
  source,
  target,
  family,
  protocol,
}: Omit<Question, "family"> & { readonly family: number }): string => `${source} ${target} ${family} ${protocol}`;

export function runDemo(...args: readonly string[]): {
  readonly exitCode: number | null;
  readonly result: Result;
} {
  const { status, stdout, stderr } = spawnSync(process.execPath, [DEMO, "-o", "json", ...args], {
    encoding: "utf8",
    maxBuffer: 1 << 24,
  });
  assert.notEqual(stdout, "", stderr);
  return { exitCode: status, result: JSON.parse(stdout) as Result };
}

/** Returns how many drops of spoofed packets the kernel counted; undefined when a counter was missing. */
export function countedOf({ counted: [before, after] }: Result["spoof"]): number | undefined {
  return typeof before === "number" && typeof after === "number" ? after - before : undefined;
}

/** Asserts the results of the daemons and of node1's flushed ruleset, which no breakage of the demo changes. */
export function assertDaemons({ daemons, refused, harm }: Result): void {
  assert.deepEqual(
    daemons.map(({ node, version, isSynced, attachments, objects, problems }) => [
      node,
      version,
      isSynced,
      attachments,
      ["Namespace", "Node", "Pod", "Service", "EndpointSlice", "ServiceCIDR"].map((kind) => objects[kind]),
      problems,
    ]),
    ["node1", "node2"].map((node) => [node, VERSION, true, 3, [2, 2, 6, 11, 22, 1], []]),
  );
  assert.deepEqual(refused, []);
  assert.ok(harm.milliseconds !== undefined && harm.milliseconds > 0);
  assert.deepEqual([harm.node, harm.tables, harm.flows], ["node1", 3, FLOWS]);
  assert.deepEqual([harm.spoof.sent, harm.spoof.arrived, countedOf(harm.spoof)], [2, 0, 2]);
}

// 8 sources × 6 pods − 6 pods to themselves, × 2 families × 4 protocols
export const FLOWS = (8 * 6 - 6) * 2 * 4;

export const CLIENTS = ["pod-a", "pod-d", "node1", "router"];

/**
 * The pods that answer each client over either family, and the address that they see; with affinity only one of several
 * answers.
 */
const SERVICES: Readonly<Record<string, readonly [string, string, string, string]>> = {
  ClusterIP: ["b c e as itself", "b c e as itself", "b c e as node1", "b c e as node1"],
  "ClusterIP, UDP": ["b c e as itself", "b c e as itself", "b c e as node1", "b c e as node1"],
  "ClusterIP, SCTP": ["b c e as itself", "b c e as itself", "b c e as node1", "b c e as node1"],
  "ClusterIP of pod-a": ["a as node1", "a as itself", "a as node1", "a as node1"],
  "ClusterIP, affinity": ["one as itself", "one as itself", "one as node1", "one as node1"],
  "ClusterIP, Local": ["b as itself", "no answer", "b as node1", "b as node1"],
  "ClusterIP, no pods": ["refused", "refused", "refused", "refused"],
  NodePort: ["b c e as itself", "b c e as itself", "b c e as node1", "b c e as node1"],
  "NodePort, Local": ["b e as itself", "b as itself", "b e as node1", "b as itself"],
  "LoadBalancer, ranges": ["no answer", "no answer", "no answer", "b c e as node1"],
  externalIPs: ["b c e as itself", "b c e as itself", "b c e as node1", "b c e as node1"],
  headless: ["b c e as itself", "b c e as itself", "b c e as node1", "no route"],
  ExternalName: ["router as node1", "router as node2", "router as node1", "router as itself"],
};

/**
 * The protocols (TCP, UDP, ICMP and SCTP) that are answered under the policies, over either family, by source and
 * target.
 */
const POLICIES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "pod-a": { "pod-b": "----", "pod-c": "----", "pod-d": "----", "pod-e": "-U--", "pod-f": "-U--" },
  "pod-b": { "pod-a": "TUIS", "pod-c": "----", "pod-d": "T---", "pod-e": "----", "pod-f": "TUIS" },
  "pod-c": { "pod-a": "TUIS", "pod-b": "----", "pod-d": "T---", "pod-e": "----", "pod-f": "----" },
  "pod-d": { "pod-a": "TUIS", "pod-b": "----", "pod-c": "TUIS", "pod-e": "TUIS", "pod-f": "----" },
  "pod-e": { "pod-a": "TUIS", "pod-b": "----", "pod-c": "----", "pod-d": "T---", "pod-f": "----" },
  "pod-f": { "pod-a": "TUIS", "pod-b": "----", "pod-c": "----", "pod-d": "T---", "pod-e": "TUIS" },
  node1: { "pod-a": "TUIS", "pod-b": "TUIS", "pod-c": "TUIS", "pod-d": "T---", "pod-e": "----", "pod-f": "----" },
  node2: { "pod-a": "TUIS", "pod-b": "----", "pod-c": "----", "pod-d": "TUIS", "pod-e": "TUIS", "pod-f": "TUIS" },
};

/** Returns the cells of a matrix in the notation of {@link POLICIES}. */
function lettersOf(cells: Result["policies"]["expected" | "seen"], family: number): typeof POLICIES {
  const rows: Record<string, Record<string, string>> = {};
  for (const [source, targets] of Object.entries(POLICIES)) {
    rows[source] = {};
    for (const target of Object.keys(targets)) {
      const reached = (protocol: string): boolean =>
        cells.find((cell) => keyOf(cell) === keyOf({ source, target, family, protocol }))?.reached === true;
      const letters = ["tcp", "udp", "icmp", "sctp"].map((name) =>
        reached(name) ? name.slice(0, 1).toUpperCase() : "-",
      );
      rows[source][target] = letters.join("");
    }
  }
  return rows;
}

export function assertPoliciesAsExpected({ policies, cut }: Result): void {
  assert.equal(policies.seen.length, FLOWS);
  for (const family of [4, 6]) {
    assert.deepEqual(lettersOf(policies.expected, family), POLICIES);
    assert.deepEqual(lettersOf(policies.seen, family), POLICIES);
  }
  assert.deepEqual(policies.differences, []);
  assertCut(cut);
}

export function assertCut({ flows }: Result["cut"]): void {
  assert.deepEqual(
    flows.map(({ protocol, before, denied, after }) => [protocol, before > 0, denied, after > 0]),
    [
      ["tcp", true, 0, true],
      ["udp", true, 0, true],
    ],
  );
}

const serviceKey = ({ frontend, client, family }: Omit<Cell, "family"> & { readonly family: number }): string =>
  `${frontend}: ${client} ${family}`;

/** Returns the answers in a cell, in the notation of {@link SERVICES}. */
function seenText({ frontend, answers, failures }: Result["services"]["seen"][number]): string {
  const names = answers.map(({ by }) => by.replace("pod-", ""));
  const chosen = frontend === "ClusterIP, affinity" ? names.map(() => "one") : [...new Set(names)].sort();
  const sources = new Set(answers.map(({ as }) => as.replace(/'s .*/, "")));
  return [...(names.length === 0 ? [] : [`${chosen.join(" ")} as ${[...sources].join(", ")}`]), ...failures].join(", ");
}

export function assertServicesAsExpected({ expected, seen, differences }: Result["services"]): void {
  assert.equal(expected.length, Object.keys(SERVICES).length * CLIENTS.length * 2);
  const owed = Object.entries(SERVICES).flatMap(([frontend, texts]) =>
    CLIENTS.flatMap((client, i) =>
      [4, 6].map((family) => `${serviceKey({ frontend, client, family })}: ${texts[i] ?? ""}`),
    ),
  );
  assert.deepEqual(
    seen.map((cell) => `${serviceKey(cell)}: ${seenText(cell)}`),
    owed,
  );
  assert.deepEqual(differences, []);
}
