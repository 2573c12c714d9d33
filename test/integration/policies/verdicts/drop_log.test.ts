import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { systemMachine } from "../../../../cli/node/machine/system_machine.ts";
import { formatAddress, FAMILIES } from "../../../../kernel/ip/address.ts";
import { parseReportLine, type ReportedPolicy } from "../../../../policyd/policies/status/policy_report.ts";
import { scrape } from "../../../support/daemon/scrape.ts";
import { listenAll } from "../../../support/policy/lab/nine_pods.ts";
import { namespaceManifest, podManifest, type PodPlace } from "../../../support/policy/lab/place.ts";
import { PolicyLab } from "../../../support/policy/lab/policy_lab.ts";
import { askLab, inBoth, type Question } from "../../../support/policy/lab/question.ts";
import { requireBridgeNetfilter, requireKernel } from "../../../support/privilege.ts";
import { valueWhen } from "../../../support/until.ts";

const PODS: readonly PodPlace[] = [
  { key: "x/a", node: "node1" },
  { key: "x/b", node: "node1" },
  { key: "x/db", node: "node1" },
  { key: "y/a", node: "node2" },
];
const DROPPED = "policy dropped a packet";
const WOULD_DROP = "policy in shadow would drop a packet";

type Line = Readonly<Record<string, unknown>>;
type Scrape = ReadonlyMap<string, number>;

function policy(name: string, spec: object, annotations: Readonly<Record<string, string>> = {}): object {
  const metadata = { name, namespace: "x", annotations };
  return { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", metadata, spec };
}

const labels = (app: string) => ({ matchLabels: { app } });
const FROM_A = { from: [{ podSelector: labels("a") }], ports: [{ port: 80 }] };
const DB = policy("db", { podSelector: labels("db"), ingress: [FROM_A] });

describe("the daemon's reports of packets that policies drop", function () {
  this.timeout(300_000);
  let lab: PolicyLab;

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    lab = await PolicyLab.create({
      name: "drop-log",
      pods: PODS,
      bridgeNetfilter: { node1: true, node2: false },
      configuration: { dropLog: true, logFormat: "json" },
    });
    for (const { key } of PODS) listenAll(lab.prober, lab.place(key));
  });
  after(() => lab?.close());

  function objects(...policies: readonly object[]): readonly object[] {
    return [
      ...lab.nodeManifests(),
      ...["x", "y"].map((name) => namespaceManifest(name, { ns: name })),
      ...PODS.map(({ key, node }) => podManifest(lab.place(key), node, { labels: { app: key.split("/")[1] ?? "" } })),
      ...policies,
    ];
  }

  const logOf = (): string => lab.daemon("node1").process.log();

  /** Returns the lines with a message that the first node's daemon has logged since its log had this length. */
  function linesSince(length: number, message: string): readonly Line[] {
    return logOf()
      .slice(length)
      .split("\n")
      .flatMap((text) => (text.startsWith("{") && text.endsWith("}") ? [JSON.parse(text) as Line] : []))
      .filter((line) => line["msg"] === message);
  }

  /** Waits for a number of lines, and returns them. @throws Error when there are fewer in the end */
  async function linesWhen(length: number, message: string, count: number): Promise<readonly Line[]> {
    return await valueWhen(
      () => linesSince(length, message),
      (lines) => lines.length >= count,
      (lines) => `${lines.length} lines of ${count}:\n${logOf().slice(length)}`,
    );
  }

  async function marks(questions: readonly Question[]): Promise<string> {
    return (await askLab(lab, questions)).map(({ mark }) => mark).join("");
  }

  /** Returns the first node's metrics once a condition holds. The daemon pauses between its reads of the counters. */
  async function metricsWhen(holds: (values: Scrape) => boolean, what: string): Promise<Scrape> {
    const ofPolicies = (values: Scrape) => [...values].filter(([name]) => name.startsWith("drawbridge_policy"));
    return await valueWhen(
      () => scrape(lab.wired("node1").node),
      holds,
      (values) => `${what} does not hold: ${JSON.stringify(ofPolicies(values), null, 1)}`,
    );
  }

  /** Returns metrics no older than this call. */
  async function freshMetrics(): Promise<Scrape> {
    await pause(300);
    return metricsWhen(() => true, "metrics");
  }

  it("DROP-01: the log line of a drop names pod, direction, peer, protocol, port, the isolating policies and the nearest rule", async () => {
    const egress = policy("quiet", { podSelector: labels("b"), policyTypes: ["Egress"] });
    await lab.apply(objects(DB, policy("deny", { podSelector: labels("db") }), egress));
    const start = logOf().length;
    const asked = [
      ...inBoth("y/a", "x/db", "80/TCP"),
      ...inBoth("outside", "x/db", "81/UDP"),
      ...inBoth("x/a", "x/db", "81/TCP"),
      ...inBoth("x/b", "y/a", "80/SCTP"),
    ];
    assert.equal(await marks(asked), "XXXXXXXX");
    const lines = await linesWhen(start, DROPPED, asked.length);
    for (const family of FAMILIES) {
      const text = (name: string): string => formatAddress(lab.place(name).addresses[family]);
      const expected = (from: string, to: string, rest: object): object => ({
        source: text(from),
        destination: text(to),
        ...rest,
      });
      const ingress = { pod: "x/db", direction: "ingress", policies: "x/db, x/deny" };
      const wanted = [
        expected("y/a", "x/db", {
          ...ingress,
          peer: "y/a",
          protocol: "TCP",
          port: 80,
          nearest: "x/db ingress[0], from[0], ports[0], but a podSelector alone is for namespace x",
        }),
        expected("outside", "x/db", {
          ...ingress,
          peer: text("outside"),
          protocol: "UDP",
          port: 81,
          nearest:
            "x/db ingress[0], from[0], ports[0], but selectors are for pods with addresses of their own; it is for TCP; it is for port 80",
        }),
        expected("x/a", "x/db", {
          ...ingress,
          peer: "x/a",
          protocol: "TCP",
          port: 81,
          nearest: "x/db ingress[0], from[0], ports[0], but it is for port 80",
        }),
        expected("x/b", "y/a", {
          pod: "x/b",
          direction: "egress",
          peer: "y/a",
          protocol: "SCTP",
          port: 80,
          policies: "x/quiet",
          nearest: "none: they have no rules",
        }),
      ];
      for (const one of wanted) {
        const found = lines.filter(({ ts: _ts, level: _level, msg: _msg, suppressed: _suppressed, ...fields }) => {
          return JSON.stringify(sorted(fields)) === JSON.stringify(sorted(one));
        });
        assert.equal(found.length, 1, `${JSON.stringify(one)}\n${JSON.stringify(lines, null, 1)}`);
      }
    }
  });

  it("POL-70: a policy in shadow drops nothing; packets that it would have dropped are logged and counted", async () => {
    const shadow = policy("try", { podSelector: labels("db"), ingress: [FROM_A] }, { "drawbridge.dev/shadow": "true" });
    await lab.apply(objects(shadow));
    const start = logOf().length;
    const would = 'drawbridge_policy_would_drop_packets_total{direction="ingress"}';
    const allowed = 'drawbridge_policy_rule_packets_total{policy="x/try",direction="ingress",rule="0"}';
    const before = (await freshMetrics()).get(would) ?? 0;
    assert.equal(await marks([...inBoth("x/b", "x/db", "80/TCP"), ...inBoth("x/a", "x/db", "80/TCP")]), "....");
    const lines = await linesWhen(start, WOULD_DROP, 2);
    assert.deepEqual(
      lines.map(({ pod, peer, policies, nearest }) => [pod, peer, policies, nearest]),
      FAMILIES.map(() => ["x/db", "x/b", "x/try", "x/try ingress[0], from[0], ports[0], but the pod has not app=a"]),
    );
    const values = await metricsWhen((one) => one.get(allowed) === 2, "two packets are allowed");
    assert.equal(values.get(would), before + 2);
    assert.equal(values.get('drawbridge_network_policies{state="shadow"}'), 1);
    assert.deepEqual(linesSince(start, DROPPED), []);
  });

  it("METRIC-06 METRIC-02: a rule's counter goes on when its profile changes, and dropped packets are counted", async () => {
    const rule = 'drawbridge_policy_rule_packets_total{policy="x/db",direction="ingress",rule="0"}';
    const drops = 'drawbridge_policy_dropped_packets_total{direction="ingress",reason="isolated"}';
    const ask = (): Promise<string> =>
      marks([...inBoth("x/a", "x/db", "80/TCP", "80/TCP"), ...inBoth("x/b", "x/db", "80/UDP")]);
    await lab.apply(objects(DB));
    const dropped = (await freshMetrics()).get(drops) ?? 0;
    assert.equal(await ask(), "....XX");
    const values = await metricsWhen((one) => one.get(rule) === 4, "four packets fit the rule");
    const once = (values.get(drops) ?? 0) - dropped;
    assert.ok(once >= 2, `${once}`);
    // Nothing has read the counters in between.
    assert.equal(await ask(), "....XX");
    await lab.apply(objects(DB, policy("more", { podSelector: {}, ingress: [{ ports: [{ port: 9 }] }] })));
    assert.equal(await ask(), "....XX");
    await metricsWhen((one) => one.get(rule) === 12, "twelve packets fit the rule");
    await lab.apply(objects());
    const last = await metricsWhen((one) => !one.has(rule), "there is no such rule");
    assert.ok((last.get(drops) ?? 0) - dropped >= 6);
  });

  it("DROP-05: few packets of a flood are logged, and all are counted", async () => {
    await lab.apply(objects(DB));
    const drops = 'drawbridge_policy_dropped_packets_total{direction="ingress",reason="isolated"}';
    const loggedIn = (values: Scrape): number => {
      const names = [...values.keys()].filter((name) => name.startsWith("drawbridge_policy_log_packets_total"));
      return names.reduce((sum, name) => sum + (values.get(name) ?? 0), 0);
    };
    const before = await freshMetrics();
    const [start, startedAt] = [logOf().length, performance.now()];
    const flood = Array.from({ length: 300 }, (_, i) => inBoth("x/b", "x/db", `${1000 + i}/UDP`)).flat();
    assert.equal(new Set(await marks(flood)).size, 1);
    const counted = flood.length + (before.get(drops) ?? 0);
    const values = await metricsWhen((one) => (one.get(drops) ?? 0) >= counted, "all are counted");
    await linesWhen(start, DROPPED, 1);
    const packets = loggedIn(values) - loggedIn(before);
    const seconds = (performance.now() - startedAt) / 1000;
    // The rule logs 50 at once and 10 in each second.
    assert.ok(packets > 0 && packets <= 50 + 10 * seconds + 1, `${packets} in ${seconds} s`);
  });

  it("PSTATUS-01: the generation in force follows the policy, and the packets of its rules are counted", async () => {
    const db = (generation: number, ports: readonly number[]): object => {
      const spec = { podSelector: labels("db"), ingress: ports.map((port) => ({ ports: [{ port }] })) };
      const metadata = { name: "db", namespace: "x", generation };
      return { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", metadata, spec };
    };
    await lab.apply(objects(db(1, [80])));
    const [first] = await policiesWhen(([one]) => one?.inForce === 1);
    assert.deepEqual([first?.key, first?.state, first?.problems], ["x/db", "enforced", []]);
    assert.equal(await marks(inBoth("x/a", "x/db", "80/TCP")), "..");
    const [counted] = await policiesWhen(([one]) => (one?.rules[0]?.packets ?? 0) > 0);
    assert.deepEqual(
      counted?.rules.map(({ direction, rule }) => [direction, rule]),
      [["ingress", 0]],
    );
    await lab.apply(objects(db(2, [80, 81])));
    const [second] = await policiesWhen(([one]) => one?.inForce === 2);
    assert.ok((second?.since ?? 0) > (first?.since ?? Infinity));
  });

  async function policiesWhen(isSo: (all: readonly ReportedPolicy[]) => boolean): Promise<readonly ReportedPolicy[]> {
    const { policyd } = lab.overrides("node1") as { readonly policyd: { readonly socket: string } };
    const read = (): readonly ReportedPolicy[] => {
      const text = lab.wired("node1").node.inside(() => systemMachine(lab.lab.calls).readPolicies(policyd.socket));
      return text.split("\n").slice(0, -1).map(parseReportLine);
    };
    return await valueWhen(read, isSo, (all) => JSON.stringify(all, null, 1));
  }

  it("POL-53: the log and the metrics say that policies are in force", async () => {
    await lab.apply(objects(DB));
    assert.match(logOf(), /"NetworkPolicy and ClusterNetworkPolicy are in force on this node"/);
    const values = await freshMetrics();
    assert.equal(values.get("drawbridge_policies_in_force"), 1);
    assert.ok((values.get("drawbridge_policy_last_commit_timestamp_seconds") ?? 0) > 0);
    assert.ok((values.get("drawbridge_policy_profiles") ?? 0) > 0);
    // The policy's one group has one pod.
    assert.equal(values.get("drawbridge_policy_sets"), 1);
    assert.equal(values.get("drawbridge_policy_set_members"), 1);
  });
});

function sorted(fields: object): object {
  return Object.fromEntries(Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1)));
}
