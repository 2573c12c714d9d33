import assert from "node:assert/strict";
import { FAMILIES, familyOf } from "../../../../../kernel/ip/address.ts";
import { type Cluster, clusterOf } from "../../../../../cli/cluster/cluster.ts";
import { endNameOf } from "../../../../../cli/cluster/end_name.ts";
import { findEnd } from "../../../../../cli/cluster/find_end.ts";
import { readManifests } from "../../../../../cli/input/manifests.ts";
import { ExplainContext } from "../../../../../cli/policy/explain/context.ts";
import { explain } from "../../../../../cli/policy/explain/explain.ts";
import { answerOf, type Explanation } from "../../../../../cli/policy/explain/explanation.ts";
import { evaluatePolicy } from "../../../../../objects/semantics/policies/evaluate.ts";
import type { Traffic } from "../../../../../objects/semantics/policies/flow.ts";
import { memoryFiles, runCli } from "../../../../support/cli/cli.ts";
import { fixtureFiles } from "../../../../support/cli/golden.ts";
import { manifest, named, networkPolicy, ownedBy, pod, service, workload } from "../../../../support/cli/objects.ts";

function contextOf(fixture: string): ExplainContext {
  return new ExplainContext(clusterOf(readManifests(fixtureFiles(fixture), [fixture], false).manifests));
}

function contextOfText(text: string): ExplainContext {
  return new ExplainContext(clusterOf(readManifests(memoryFiles({ "a.yaml": text }), ["a.yaml"], false).manifests));
}

function ask(
  context: ExplainContext,
  [from, to]: readonly [string, string],
  traffic: Traffic | undefined,
): Explanation {
  const { cluster, worlds } = context;
  const source = findEnd(cluster, endNameOf(from), new Map());
  assert.ok(source.type !== "service");
  return explain(context, { from: source, to: findEnd(cluster, endNameOf(to), worlds.objects.services), traffic });
}

const HTTP = { protocol: "TCP", port: 80 } as const;
const PORTS = [1, 53, 443, 5432, 8080, 9090];
const TRAFFIC: readonly Traffic[] = [
  ...(["TCP", "UDP", "SCTP"] as const).flatMap((protocol) => PORTS.map((port) => ({ protocol, port }))),
  { protocol: "ICMP" },
];

/** Yields every pair of pods of a cluster, without the pods that only represent a node. */
function* pairsOf({ store }: Cluster): Generator<readonly [string, string]> {
  for (const from of store.pods.keys()) for (const to of store.pods.keys()) yield [from, to];
}

function verdictOf(
  { index }: Cluster,
  [from, to]: readonly [string, string],
  family: 4 | 6,
  traffic: Traffic,
): boolean {
  const ends = { source: { type: "pod", key: from }, destination: { type: "pod", key: to } } as const;
  return evaluatePolicy(index, { ...ends, family, ...traffic }).kind === "allowed";
}

describe("policy explain: answers", () => {
  const context = contextOf("shop");
  const { cluster } = context;

  it("EXPLAIN-03: the answer about two pods is the evaluator's, in each family", () => {
    const seen = { allowed: 0, denied: 0 };
    for (const pair of pairsOf(cluster)) {
      for (const traffic of TRAFFIC) {
        const { allowed, partly, cases } = ask(context, pair, traffic);
        const verdicts = FAMILIES.map((family) => verdictOf(cluster, pair, family, traffic));
        const what = `${pair.join(" to ")}, ${traffic.port ?? ""}/${traffic.protocol}`;
        assert.equal(allowed, !verdicts.includes(false), what);
        assert.equal(partly, verdicts.includes(true) && verdicts.includes(false), what);
        for (const [i, verdict] of verdicts.entries()) {
          const own = cases.filter(({ families }) => families.includes(i === 0 ? "IPv4" : "IPv6"));
          assert.deepEqual(
            own.map((one) => one.allowed),
            [verdict],
            what,
          );
        }
        seen[allowed ? "allowed" : "denied"]++;
      }
    }
    assert.ok(seen.allowed > 300 && seen.denied > 300, JSON.stringify(seen));
  });

  it("EXPLAIN-06: running pods that a selector selects are ready endpoints, and finished ones are not endpoints", () => {
    const member = (name: string, status: string, more = ""): string =>
      manifest("Pod", named(`x/${name}`, `labels: { app: a }${more}`), `spec: {}, status: { ${status} }`);
    const text =
      member("runs", "phase: Running, podIP: 10.1.0.1") +
      member("waits", "phase: Pending, podIP: 10.1.0.2") +
      member("done", "phase: Succeeded, podIP: 10.1.0.3") +
      member("ends", "phase: Running, podIP: 10.1.0.4", ", deletionTimestamp: '2026-01-01T00:00:00Z'") +
      service("x/a", "a", "{ port: 80 }", "clusterIP: 10.0.0.1");
    const [report] = ask(contextOfText(text), ["x/runs", "service/x/a"], HTTP).services;
    assert.deepEqual(
      report?.candidates.map(({ host }) => host),
      ["x/runs"],
    );
    assert.deepEqual(
      report.omitted.map(({ host, because }) => `${host}: ${because}`),
      ["x/ends: terminating, and others are ready", "x/waits: not ready"],
    );
  });

  it("EXPLAIN-06: a pod of a file without a status is a ready endpoint", () => {
    const web = manifest("Pod", named("x/web", "labels: { app: web }"), "spec: {}");
    const text = pod("x/p") + web + service("x/web", "web", "{ port: 80 }");
    for (const to of ["x/web", "service/x/web"])
      assert.equal(ask(contextOfText(text), ["x/p", to], HTTP).allowed, true, to);
  });

  it("EXPLAIN-06: a Service without addresses has the families of its ipFamilyPolicy", () => {
    const pods = pod("x/p", "10.1.0.1 fd00::1") + pod("x/web", "10.1.0.2 fd00::2");
    const policy = networkPolicy(
      "x/web",
      "podSelector: { matchLabels: { app: web } }, ingress: [{ from: [{ ipBlock: { cidr: 10.1.0.0/16 } }] }]",
    );
    for (const [fields, families, answer] of [
      ["", "IPv4", "allowed"],
      ["ipFamilyPolicy: SingleStack, ipFamilies: [IPv6]", "IPv6", "denied"],
      ["ipFamilyPolicy: PreferDualStack", "IPv4,IPv6", "denied in part"],
      ["ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv6]", "IPv6,IPv4", "denied in part"],
      ["ipFamilyPolicy: RequireDualStack", "IPv4,IPv6", "denied in part"],
    ] as const) {
      const read = contextOfText(pods + policy + service("x/web", "web", "{ port: 80 }", fields));
      const addresses = read.worlds.objects.services.get("x/web")?.clusterIps ?? [];
      assert.equal(addresses.map((address) => `IPv${familyOf(address)}`).join(","), families, fields);
      assert.equal(answerOf(ask(read, ["x/p", "service/x/web"], HTTP)), answer, fields);
    }
    const single =
      pods.replaceAll(/, \{ ip: "fd00[^}]*\}/g, "") +
      service("x/web", "web", "{ port: 80 }", "ipFamilyPolicy: PreferDualStack");
    assert.equal(contextOfText(single).worlds.objects.services.get("x/web")?.clusterIps.length, 1);
  });

  it("EXPLAIN-06: a missing address that cannot change the answer is not reported", () => {
    const templates = contextOf("shop_templates");
    // A rule for pods already allows the traffic, so the rule for addresses does not matter.
    const { remarks } = ask(templates, ["shop/deployment/frontend", "shop/deployment/cart"], {
      protocol: "TCP",
      port: 8080,
    });
    assert.deepEqual(remarks, []);
  });

  it("EXPLAIN-08 NODE-12: egress policies see a node port before another node translates it, which it does with policy Local", () => {
    const files = fixtureFiles("shop");
    const read = (file: string) => {
      const text = Buffer.concat([...files.read(file)]).toString();
      return [Buffer.from(text.replace("TrafficPolicy: Cluster", "TrafficPolicy: Local"))];
    };
    const local = new ExplainContext(clusterOf(readManifests({ ...files, read }, ["shop"], false).manifests));
    const seen = (where: ExplainContext, node: string) =>
      ask(where, ["shop/redis-0", node], { protocol: "TCP", port: 30_080 }).cases.map(({ egress }) => egress?.judgedAs);
    assert.deepEqual([...new Set(seen(local, "node/worker-2"))], ["to node/worker-2 port 30080/TCP"]);
    assert.deepEqual([...new Set(seen(context, "node/worker-2"))], [null]);
    assert.deepEqual([...new Set(seen(local, "node/worker-1"))], [null]);
  });

  it("EXPLAIN-03: packets from a pod to its own node are explained apart from packets to other nodes", () => {
    const pods = Array.from({ length: 40 }, (_, i) =>
      pod(`x/web-${i}`, `10.1.0.${i}`, { metadata: ownedBy("StatefulSet", "web"), spec: `nodeName: n${i % 20}` }),
    );
    const agent = pod("x/agent", "192.0.2.7", { spec: "nodeName: n7, hostNetwork: true" });
    const policy = networkPolicy("x/p", "podSelector: {}, policyTypes: [Egress]");
    const { cases } = ask(contextOfText(pods.join("") + agent + policy), ["x/statefulset/web", "x/agent"], HTTP);
    assert.deepEqual(
      cases.map(({ allowed, from }) => [allowed, ...from]),
      [
        [false, "x/web-0", "x/web-1"],
        [true, "x/web-27", "x/web-7"],
      ],
    );
  });

  it("EXPLAIN-03 PTEST-02: of many endpoints of a Service those at another port are judged on their own", () => {
    const pods = Array.from({ length: 40 }, (_, i) =>
      pod(`x/b-${i}`, `10.1.0.${i}`, { app: "b", ports: `{ name: http, containerPort: ${i < 30 ? 8080 : 9090} }` }),
    );
    const text =
      pods.join("") +
      pod("x/a", "10.2.0.1") +
      service("x/b", "b", "{ port: 80, targetPort: http }", "clusterIP: 10.0.0.1");
    for (const policy of [
      "podSelector: { matchLabels: { app: b } }, ingress: [{ ports: [{ port: 8080 }] }]",
      "podSelector: { matchLabels: { app: a } }, policyTypes: [Egress], egress: [{ ports: [{ port: 8080 }] }]",
    ]) {
      const { cases } = ask(contextOfText(text + networkPolicy("x/p", policy)), ["x/a", "service/x/b"], HTTP);
      assert.deepEqual(cases.map(({ allowed, to }) => [allowed, ...to].join(" ")).sort(), [
        "false x/b-30 x/b-31",
        "true x/b-0 x/b-1",
      ]);
    }
  });

  it("EXPLAIN-06: an endpoint whose pod is missing in the input does not count as open", () => {
    const endpoints =
      "endpoints: [{ addresses: [10.1.0.9], nodeName: n9, targetRef: { kind: Pod, name: gone, namespace: x } }, { addresses: [192.0.2.9] }]";
    const text =
      manifest("Service", named("x/a"), "spec: { clusterIP: 10.0.0.1, ports: [{ port: 80 }] }") +
      manifest(
        "EndpointSlice",
        named("x/a-1", "labels: { kubernetes.io/service-name: a }"),
        `addressType: IPv4, ports: [{ name: '', port: 8080 }], ${endpoints}`,
      ) +
      pod("x/p", "10.1.0.1");
    const { partly, cases } = ask(contextOfText(text), ["x/p", "service/x/a"], HTTP);
    assert.deepEqual(
      cases.map(({ allowed, unknown, to, stopped }) => [allowed, unknown, ...to, stopped]),
      [
        [false, true, "service/x/a", "10.1.0.9 is pod x/gone, which is not in the input or has another address there"],
        [true, undefined, "192.0.2.9", null],
      ],
    );
    assert.equal(partly, true);
    const missing = contextOfText(text);
    for (const pair of [
      ["10.1.0.9", "x/p"],
      ["x/p", "10.1.0.9"],
      ["10.1.0.9", "service/x/a"],
    ] as const) {
      for (const traffic of [HTTP, undefined]) {
        const answer = ask(missing, pair, traffic);
        assert.deepEqual([answerOf(answer), answer.cases.length], ["not known", 1], pair.join());
        assert.match(answer.cases[0]?.stopped ?? "", /^10\.1\.0\.9 is pod x\/gone/);
      }
    }
  });

  it("EXPLAIN-06: a node port is explained from outside without any Node in the input", () => {
    const text = service("x/a", "a", "{ port: 80, nodePort: 30080 }", "type: NodePort") + workload("Deployment", "x/a");
    const { allowed, services, remarks } = ask(contextOfText(text), ["192.0.2.1", "service/x/a"], HTTP);
    assert.deepEqual([allowed, services[0]?.frontend?.type, services[0]?.frontend?.port], [true, "NodePort", 30_080]);
    assert.match(remarks.join(), /the input has no nodes/);
  });

  it("EXPLAIN-01: a Service that another proxy serves has no known endpoints", () => {
    const others = named("x/a", "labels: { service.kubernetes.io/service-proxy-name: other }");
    const text =
      manifest("Service", others, "spec: { clusterIP: 10.0.0.1, ports: [{ port: 80 }] }") + pod("x/p", "10.1.0.1");
    const { allowed, cases, services } = ask(contextOfText(text), ["x/p", "service/x/a"], HTTP);
    assert.equal(allowed, false);
    assert.deepEqual(
      cases.map(({ stopped }) => stopped),
      ["no Service takes it, and a cluster IP is nobody's own address"],
    );
    assert.match(services[0]?.because.join() ?? "", /Service x\/a has it, but is not served: another proxy/);
  });

  it("EXPLAIN-07: an unknown name is an error with the nearest names, and an invalid command line is an error of usage", async () => {
    const run = (args: string) => runCli(["policy", "explain", "-f", "shop", ...args.split(" ")], fixtureFiles("shop"));
    const unknown = [
      ["--from shop/rediss --to shop/redis-0 --port 80", /did you mean shop\/redis or shop\/redis-0\?/],
      ["--from shop/redis-0 --to shop/deployment/crat", /did you mean shop\/deployment\/cart/],
      ["--from shop/redis-0 --to service/cart/api", /did you mean service\/payments\/api/],
      ["--from shop/redis-0 --to node/worker1", /did you mean node\/worker-1 or node\/worker-2/],
      ["--from shop/redis-0 --to nothing/like-this-at-all", /expected one that is in the input/],
    ] as const;
    for (const [args, message] of unknown) {
      const { code, out, err } = await run(args);
      assert.deepEqual([code, out], [3, ""], args);
      assert.match(err, message);
    }
    const senseless = [
      "--from service/shop/cart --to shop/redis-0",
      "--from 10.0.0.300 --to shop/redis-0",
      "--from shop/redis-0 --to 127.0.0.1 --port 80",
      "--from ::1 --to shop/redis-0 --port 80",
      "--from shop/redis-0 --to shop/redis-0 --port 80/ICMP",
      "--from shop/redis-0 --to shop/redis-0 --port 80,81",
      "--from shop/redis-0",
    ];
    for (const args of senseless) {
      const { code, out } = await run(args);
      assert.deepEqual([code, out], [2, ""], args);
    }
  });
});
