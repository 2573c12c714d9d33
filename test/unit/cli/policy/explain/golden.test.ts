import assert from "node:assert/strict";
import { stripVTControlCharacters } from "node:util";
import { runCli } from "../../../../support/cli/cli.ts";
import { assertGolden, fixtureFiles } from "../../../../support/cli/golden.ts";

interface Question {
  readonly name: string;
  /** The behaviours that the answer proves besides EXPLAIN-01. */
  readonly ids?: string;
  readonly what: string;
  readonly fixture?: string;
  readonly args: string;
  readonly code: 0 | 1 | 3;
  /** Whether the JSON is compared, too: these questions together have every field. */
  readonly isJsonCompared?: true;
}

const QUESTIONS: readonly Question[] = [
  {
    name: "service",
    ids: "EXPLAIN-06",
    what: "a workload to a Service, whose slices have both families",
    args: "--from shop/deployment/frontend --to service/shop/cart --port 80",
    code: 0,
  },
  {
    name: "derived",
    ids: "EXPLAIN-06 POL-50",
    what: "endpoints by a selector with the named port of each pod, and a rule with the Service's port",
    args: "--from shop/deployment/frontend --to service/payments/api --port 443/TCP",
    code: 1,
  },
  {
    name: "dns",
    what: "DNS of a pod under default deny",
    args: "--from shop/redis-0 --to service/kube-system/kube-dns --port 53/UDP",
    code: 0,
    isJsonCompared: true,
  },
  {
    name: "families",
    what: "two families with different answers are two cases",
    args: "--from shop/redis-0 --to payments/ledger-0 --port 5432",
    code: 1,
  },
  {
    name: "everything",
    what: "without a port, the allowed ports and the reasons for all ports",
    args: "--from payments/deployment/api --to 192.0.2.10",
    code: 0,
  },
  {
    name: "monitoring",
    what: "a ClusterNetworkPolicy's tier comes first",
    args: "--from monitoring/prometheus-0 --to shop/deployment/cart --port 9090",
    code: 0,
    isJsonCompared: true,
  },
  {
    name: "balancer",
    ids: "EXPLAIN-08",
    what: "from outside by a balancer: policies of another node see the node that accepts the connection",
    args: "--from 203.0.113.9 --to service/shop/frontend --port 80",
    code: 1,
    isJsonCompared: true,
  },
  {
    name: "node_port",
    ids: "EXPLAIN-08 NODE-12",
    what: "a pod by a node port of another node: its own node translates it, so policies see both pods",
    args: "--from monitoring/prometheus-0 --to node/worker-1 --port 30080",
    code: 1,
  },
  {
    name: "hairpin",
    ids: "EXPLAIN-03",
    what: "pods by their own Service reach themselves and each other",
    args: "--from shop/deployment/cart --to service/shop/cart --port 80",
    code: 1,
  },
  {
    name: "headless",
    what: "a headless Service means its pods",
    args: "--from shop/deployment/cart --to service/shop/redis --port 6379",
    code: 0,
  },
  {
    name: "host_network",
    ids: "POL-50",
    what: "pods of the host's network count as their nodes",
    args: "--from monitoring/daemonset/node-exporter --to shop/redis-0 --port 6379",
    code: 1,
  },
  {
    name: "icmp",
    what: "an echo request is matched by rules without ports",
    args: "--from shop/redis-0 --to monitoring/prometheus-0 --port icmp",
    code: 1,
    isJsonCompared: true,
  },
  {
    name: "templates",
    ids: "EXPLAIN-06",
    what: "pods of templates have no addresses, so it is not known whether a rule for private addresses matches them",
    fixture: "shop_templates",
    args: "--from shop/deployment/mailer --to service/shop/cart --port 80",
    code: 3,
  },
  {
    name: "local_templates",
    what: "internalTrafficPolicy Local without nodes",
    fixture: "shop_templates",
    args: "--from shop/deployment/frontend --to service/shop/agent",
    code: 0,
    isJsonCompared: true,
  },
  {
    name: "no_endpoint",
    what: "a named targetPort that no container has gives no endpoint",
    fixture: "shop_templates",
    args: "--from shop/deployment/cart --to service/shop/mailer --port 25",
    code: 1,
    isJsonCompared: true,
  },
];

describe("cli/policy/explain", () => {
  for (const { name, ids = "", what, fixture = "shop", args, code, isJsonCompared } of QUESTIONS) {
    it(`EXPLAIN-01${ids === "" ? "" : ` ${ids}`}: ${what} (${name})`, async () => {
      const command = ["policy", "explain", "-f", fixture, ...args.split(" ")];
      const files = fixtureFiles(fixture);
      const asText = await runCli(command, files);
      const asJson = await runCli([...command, "-o", "json"], files);
      assert.deepEqual([asText.err, asText.code, asJson.code], ["", code, code]);
      assertGolden(`explain/${name}.txt`, `$ drawbridge policy explain -f ${fixture} ${args}\n${asText.out}`);
      if (isJsonCompared) assertGolden(`explain/${name}.json`, asJson.out);
      const parsed: unknown = JSON.parse(asJson.out);
      assert.ok(typeof parsed === "object" && parsed !== null && "allowed" in parsed);
      assert.equal(parsed.allowed, code === 0);
      assert.doesNotMatch(asJson.out, /\b240\.|100::/, "an address that we invented for a pod without one");
    });
  }

  it("EXPLAIN-11: the answer fits the screen, and only a terminal gets colours", async () => {
    const args = "policy explain -f shop --from shop/deployment/frontend --to service/payments/api --port 443".split(
      " ",
    );
    const narrow = await runCli(args, fixtureFiles("shop"), { columns: 72, hasColour: false });
    const longWord = 60;
    const tooWide = narrow.out.split("\n").filter(
      (line) =>
        line.length > 72 &&
        !line
          .trim()
          .split(" ")
          .some((word) => word.length > longWord),
    );
    assert.deepEqual(tooWide, []);
    const coloured = await runCli(args, fixtureFiles("shop"), { columns: 72, hasColour: true });
    assert.ok(coloured.out.includes("\u{1b}[31mdenied\u{1b}[39m"));
    assert.equal(stripVTControlCharacters(coloured.out), narrow.out);
  });
});
