import assert from "node:assert/strict";
import { memoryFiles, type Outcome, runCli } from "../../../../support/cli/cli.ts";
import { clusterPolicy, namespace, networkPolicy, node, pod } from "../../../../support/cli/objects.ts";
import { ScriptedPrograms } from "../../../../support/cli/scripted_programs.ts";

const web = (name: string) => ({ app: "web", labels: "pod-template-hash: h", spec: `nodeName: ${name}` });
const SHOP =
  namespace("shop", "kubernetes.io/metadata.name: shop") +
  namespace("monitoring", "kubernetes.io/metadata.name: monitoring") +
  node("n1", "192.0.2.1") +
  pod("shop/web-1", "10.244.0.2", web("n1")) +
  pod("shop/web-2", "10.244.1.2", web("n2")) +
  pod("shop/db-0", "10.244.0.3", { app: "db", spec: "nodeName: n1" }) +
  pod("monitoring/scraper", "10.244.1.3", { spec: "nodeName: n2" });
const LOCK = networkPolicy(
  "shop/lock",
  "podSelector: { matchLabels: { app: db } }, ingress: [{ from: [{ podSelector: { matchLabels: { app: api } } }] }]",
);

function entry(protocol: string, from: string, to: string, port: number, asked = to): string {
  const number = protocol === "tcp" ? 6 : 17;
  return `ipv4 2 ${protocol} ${number} 100 src=${from} dst=${asked} sport=40001 dport=${port} src=${to} dst=${from} sport=${port} dport=40001 [ASSURED] use=1\n`;
}

interface Live {
  readonly judged: number;
  readonly notJudged: number;
  readonly deniedBefore: number;
  readonly cuts: readonly {
    readonly source: string;
    readonly destination: string;
    readonly port: number | null;
    readonly connections: number;
    readonly reasons: readonly { readonly direction: string; readonly text: string }[];
    readonly rules: readonly { readonly policy?: string; readonly rule?: object; readonly reason?: string }[];
  }[];
}

/** Tries a change on the connections that a node's daemon prints. */
function dryRun(table: string, change = LOCK, ...args: readonly string[]): Promise<Outcome> {
  const command = ["policy", "dry-run", "-f", "lock.yaml", "--against", "shop.yaml", "--live", ...args];
  return onNodes("n1\n", table, command, change);
}

/** Runs a command beside a cluster of which only node n1 has a daemon. */
function onNodes(nodes: string, table: string, command: readonly string[], change = LOCK): Promise<Outcome> {
  const programs = new ScriptedPrograms({ pods: "drawbridge-a n1 Running\n", nodes, exec: table });
  const files = memoryFiles({ "shop.yaml": SHOP, "lock.yaml": change });
  return runCli(command, files, undefined, undefined, { programs });
}

const live = async (table: string, change?: string): Promise<Live> =>
  (JSON.parse((await dryRun(table, change, "-o", "json")).out) as { readonly live: Live }).live;

describe("cli/policy/live: policy dry-run --live", () => {
  const table =
    entry("tcp", "10.244.0.2", "10.244.0.3", 5432, "10.96.0.7") +
    entry("tcp", "10.244.1.2", "10.244.0.3", 5432) +
    entry("tcp", "10.244.1.3", "10.244.0.3", 9187) +
    entry("udp", "10.244.0.3", "8.8.8.8", 53) +
    entry("tcp", "192.0.2.1", "10.244.0.3", 5432) +
    entry("tcp", "203.0.113.9", "10.244.0.3", 5432);

  it("LIVE-03: connections that the change would deny are listed by workload, with the policy and its line", async () => {
    const { judged, cuts } = await live(table);
    assert.equal(judged, 6);
    assert.deepEqual(
      cuts.map(({ source, destination, port, connections }) => [source, destination, port, connections]),
      [
        ["203.0.113.9", "shop/db-0", 5432, 1],
        ["monitoring/scraper", "shop/db-0", 9187, 1],
        ["shop/web-1", "shop/db-0", 5432, 1],
        ["shop/web-2", "shop/db-0", 5432, 1],
      ].sort((a, b) => (String(a[0]) < String(b[0]) ? -1 : 1)),
    );
    for (const { reasons } of cuts) {
      assert.deepEqual(
        reasons.map(({ direction }) => direction),
        ["ingress"],
      );
      assert.match(reasons[0]?.text ?? "", /^isolated by NetworkPolicy shop\/lock \(lock\.yaml:1\)/);
    }
  });

  it("LIVE-04: the smallest rules that keep the connections are listed, for pods by labels and for others by address", async () => {
    const { cuts } = await live(table);
    assert.deepEqual(Object.fromEntries(cuts.map(({ source, rules }) => [source, rules])), {
      "203.0.113.9": [
        {
          direction: "ingress",
          policy: "shop/lock",
          rule: { from: [{ ipBlock: { cidr: "203.0.113.9/32" } }], ports: [{ protocol: "TCP", port: 5432 }] },
        },
      ],
      "monitoring/scraper": [
        {
          direction: "ingress",
          policy: "shop/lock",
          rule: {
            from: [
              {
                namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "monitoring" } },
                podSelector: { matchLabels: { app: "scraper" } },
              },
            ],
            ports: [{ protocol: "TCP", port: 9187 }],
          },
        },
      ],
      ...Object.fromEntries(
        ["shop/web-1", "shop/web-2"].map((name) => [
          name,
          [
            {
              direction: "ingress",
              policy: "shop/lock",
              rule: {
                from: [{ podSelector: { matchLabels: { app: "web" } } }],
                ports: [{ protocol: "TCP", port: 5432 }],
              },
            },
          ],
        ]),
      ),
    });
  });

  it("LIVE-05: where a node has no daemon it is named, and neither dry-run nor suggest ends as if all nodes had been asked", async () => {
    const connection = entry("tcp", "10.244.0.2", "10.244.0.3", 5432);
    const suggest = ["policy", "suggest", "-n", "shop", "-f", "shop.yaml", "--live"];
    const keep = ["policy", "dry-run", "-f", "shop.yaml", "--against", "shop.yaml", "--live"];
    const cut = ["policy", "dry-run", "-f", "lock.yaml", "--against", "shop.yaml", "--live"];
    for (const [command, all, some] of [
      [suggest, 0, 1],
      [keep, 0, 3],
      [cut, 1, 1],
    ] as const) {
      const whole = await onNodes("n1\n", connection, command);
      assert.deepEqual([whole.code, /not asked/.test(whole.err)], [all, false]);
      const { code, err } = await onNodes("n1\nn2\n", connection, command);
      assert.equal(code, some);
      assert.match(err, /^note: not asked: n2 \(no daemon\)$/m);
    }
  });

  it("LIVE-04: where no rule of a NetworkPolicy can keep a connection, the output says why", async () => {
    const deny = clusterPolicy("no-sql", "ingress: [{ name: deny, action: Deny, from: [{ namespaces: {} }] }]");
    const { cuts } = await live(entry("tcp", "10.244.0.2", "10.244.0.3", 5432), deny);
    assert.deepEqual(
      cuts.flatMap(({ rules }) => rules.map(({ reason }) => reason)),
      ["Deny of ClusterNetworkPolicy no-sql, ingress[0], comes before NetworkPolicies"],
    );
  });
});
