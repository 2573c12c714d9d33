import assert from "node:assert/strict";
import { memoryFiles, runCli } from "../../../support/cli/cli.ts";
import { assertGolden, fixtureFiles } from "../../../support/cli/golden.ts";
import { ask, manifest, named, pod, service } from "../../../support/cli/objects.ts";

const QUESTIONS = [
  [
    "service",
    "a workload to a Service by its port's name",
    "--from shop/deployment/cart --to service/payments/api:https",
    0,
  ],
  ["node_port", "from outside to a node port", "--from 203.0.113.9 --to 192.168.10.11:30080/TCP --node worker-1", 0],
  ["hairpin", "a pod that may be its own endpoint", "--from shop/cart-7f5b6d9c8-4hj2w --to 10.96.0.11:80", 0],
  [
    "no_such_port",
    "a cluster IP at a port that its Service does not have",
    "--from shop/redis-0 --to 10.96.0.11:81",
    1,
  ],
  ["pass", "an address that no Service has", "--from shop/redis-0 --to [2001:db8::1]:443/UDP", 0],
] as const;

/** The answers whose JSON is compared, too: these together have every field. */
const COMPARED_AS_JSON: readonly string[] = ["service", "hairpin", "no_such_port"];

describe("cli/service/explain", () => {
  for (const [name, what, args, code] of QUESTIONS) {
    it(`EXPLAIN-09: ${what}`, async () => {
      const command = ["service", "explain", "-f", "shop", ...args.split(" ")];
      const files = fixtureFiles("shop");
      const asText = await runCli(command, files);
      const asJson = await runCli([...command, "-o", "json"], files);
      assert.deepEqual([asText.err, asText.code, asJson.code], ["", code, code]);
      assertGolden(`service_explain/${name}.txt`, `$ drawbridge service explain -f shop ${args}\n${asText.out}`);
      if (COMPARED_AS_JSON.includes(name)) assertGolden(`service_explain/${name}.json`, asJson.out);
    });
  }

  it("EXPLAIN-09 SVC-24: packets to a Service do not count as delivered where one of its two endpoints is a cluster IP, which refuses them", async () => {
    const slice =
      "addressType: IPv4, ports: [{ port: 8080 }], endpoints: [{ addresses: [10.96.0.20] }, { addresses: [10.244.1.5] }]";
    const objects =
      service("shop/web", "", "{ port: 80 }", "clusterIP: 10.96.0.10") +
      service("shop/other", "", "{ port: 8080 }", "clusterIP: 10.96.0.20") +
      manifest("EndpointSlice", named("shop/web-1", "labels: { kubernetes.io/service-name: web }"), slice) +
      pod("shop/client", "10.244.1.9", { spec: "nodeName: n1" });
    const args = "service explain --from shop/client --to service/shop/web:80 -o json";
    const { code, out } = await ask(objects, ...args.split(" "));
    assert.deepEqual([(JSON.parse(out) as { delivered: boolean }).delivered, code], [false, 1]);
  });

  it("EXPLAIN-09 D1: an external IP in a Node's pod CIDR is refused although another Node names it as ExternalIP", async () => {
    const node = (name: string, cidr: string, addresses: string) =>
      manifest("Node", `name: ${name}`, `spec: { podCIDRs: [${cidr}] }, status: { addresses: [${addresses}] }`);
    const objects =
      node(
        "n1",
        "10.244.1.0/24",
        "{ type: InternalIP, address: 192.0.2.1 }, { type: ExternalIP, address: 10.244.2.7 }",
      ) +
      node("n2", "10.244.2.0/24", "{ type: InternalIP, address: 192.0.2.2 }") +
      service("shop/web", "", "{ port: 80 }", "clusterIP: 10.96.0.10, externalIPs: [10.244.2.7]");
    const files = memoryFiles({
      "all.yaml": objects,
      "policyd.yaml": "apiVersion: drawbridge.dev/v1alpha1\nkind: PolicydConfiguration\n",
    });
    const args = "service explain -f all.yaml --config policyd.yaml --from 203.0.113.9 --to 10.244.2.7:80 --node n1";
    const { out } = await runCli(args.split(" "), files);
    assert.match(out, /shop\/web claims it and does not get it: it is an address of the pods' networks$/m);
  });

  it("EXPLAIN-09: a question without a node, about a headless Service, or with an unknown name is an error", async () => {
    const askShop = (args: string) =>
      runCli(["service", "explain", "-f", "shop", ...args.split(" ")], fixtureFiles("shop"));
    const nowhere = await askShop("--from 203.0.113.9 --to 192.168.10.11:30080");
    assert.deepEqual([nowhere.code, nowhere.out], [2, ""]);
    assert.match(nowhere.err, /203\.0\.113\.9 is on no node; name the node its packet comes to by --node/);
    const cases = [
      ["--from shop/redis-0 --to service/shop/redis:6379", /service\/shop\/redis has no address of its own/],
      [
        "--from shop/redis-0 --to service/shop/cart:80 --node worker-3",
        /did you mean node\/worker-1 or node\/worker-2\?/,
      ],
      ["--from shop/redis-0 --to service/shop/cart:https", /port "https"; expected http/],
      ["--from shop/redis-0 --to service/shop/cart:longer-than-of-pods", /port "longer-than-of-pods"; expected http/],
    ] as const;
    for (const [args, message] of cases) {
      const { code, out, err } = await askShop(args);
      assert.deepEqual([code, out], [3, ""]);
      assert.match(err, message);
    }
  });
});
