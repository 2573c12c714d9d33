import assert from "node:assert/strict";
import { MOST_FRONTENDS } from "../../../../policyd/services/elements/service_size.ts";
import { MOST_PAIRS } from "../../../../policyd/policies/policy_size.ts";
import { memoryFiles, runCli } from "../../../support/cli/cli.ts";
import { networkPolicy, node, pod } from "../../../support/cli/objects.ts";

const CLUSTER = node("n1", "192.0.2.1") + pod("shop/web", "10.244.1.7", { spec: "nodeName: n1" });

/** Returns a Service with this number of pairs of a port and an address, among them its cluster IP and node port. */
function serviceOf(pairs: number): string {
  const addresses = Array.from({ length: pairs - 2 }, (_, i) => `198.${18 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`);
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "web", namespace: "shop" },
    spec: {
      type: "NodePort",
      clusterIP: "10.96.0.10",
      selector: { app: "web" },
      externalIPs: addresses,
      ports: [{ port: 80, nodePort: 30_080 }],
    },
  });
}

async function ask(pairs: number, args: string) {
  const files = memoryFiles({ "a.yaml": CLUSTER, "b.json": serviceOf(pairs) });
  return runCli(
    args.split(" ").flatMap((word) => (word === "-f" ? ["-f", "a.yaml", "-f", "b.json"] : word)),
    files,
  );
}

const NOTE = new RegExp(
  `on nodes Service shop/web: ${MOST_FRONTENDS + 1} pairs of a port and an address.*only its cluster IPs are`,
);

/** Returns a policy with this number of ports. They are all the same, since only their number counts. */
function policyOf(ports: number): string {
  const all = Array.from({ length: ports }, () => "{ port: 80 }");
  return networkPolicy("shop/large", `podSelector: {}, ingress: [{ ports: [${all.join()}] }]`);
}

describe("cli: policies and Services that are too large for nodes", () => {
  it("LINT-10: every command that judges by policies notes one that is too large", async () => {
    const note = /on nodes NetworkPolicy shop\/large does less than this: ingress: 4097 pairs/;
    for (const [args, stream] of [
      ["policy explain -f new.yaml --from 203.0.113.7 --to shop/web --port 80", "out"],
      ["policy matrix -f new.yaml --port 80", "err"],
      ["policy diff old.yaml new.yaml", "err"],
    ] as const) {
      const run = async (ports: number): Promise<string> => {
        const files = memoryFiles({ "old.yaml": CLUSTER, "new.yaml": CLUSTER + policyOf(ports) });
        return (await runCli(args.split(" "), files))[stream].replaceAll(/\s+/g, " ");
      };
      const said = await run(MOST_PAIRS + 1);
      assert.match(said, note, args);
      assert.equal(said.startsWith("new: "), args.startsWith("policy diff"), said);
      assert.doesNotMatch(await run(MOST_PAIRS), /on nodes/, args);
    }
  });

  it("LINT-10: policy explain follows no address that nodes do not serve, and reports it", async () => {
    const to = (end: string) => `policy explain -f --from 203.0.113.7 --to ${end} --port 80`;
    const whole = await ask(MOST_FRONTENDS, to("198.18.0.1"));
    assert.equal(whole.code, 0);
    assert.doesNotMatch(whole.out, /on nodes/);
    const cut = await ask(MOST_FRONTENDS + 1, to("198.18.0.1"));
    assert.equal(cut.code, 1);
    assert.match(cut.out, /no Service takes it: Service shop\/web is too large for nodes/);
    assert.match(cut.out, NOTE);
    const byName = await ask(MOST_FRONTENDS + 1, to("service/shop/web"));
    assert.match(byName.out, /^Service shop\/web: cluster IP 10\.96\.0\.10:80, TCP$/m);
    assert.match(byName.out, NOTE);
  });

  it("LINT-10: service explain answers as nodes do, for external address, node port and cluster IP", async () => {
    const to = (target: string) => `service explain -f --from 203.0.113.7 --node n1 --to ${target}`;
    for (const [target, isServed] of [
      ["198.18.0.1:80", false],
      ["192.0.2.1:30080", false],
      ["10.96.0.10:80", true],
    ] as const) {
      const { out } = await ask(MOST_FRONTENDS + 1, to(target));
      assert.equal(out.includes("goes to a Service"), isServed, target);
      assert.match(out, NOTE);
      const whole = await ask(MOST_FRONTENDS, to(target));
      assert.match(whole.out, /goes to a Service/);
      assert.doesNotMatch(whole.out, /on nodes Service/);
    }
  });

  it("LINT-10: policy lint finds Services that are too large, also before they have an address", async () => {
    const only = "policy lint -f --only too-large";
    const { code, out } = await ask(MOST_FRONTENDS + 1, only);
    assert.equal(code, 1);
    assert.match(out, /^1 +error +too-large +Service shop\/web: 16385 pairs.*only its cluster IPs are served$/m);
    assert.equal((await ask(MOST_FRONTENDS, only)).code, 0);
    const without = serviceOf(MOST_FRONTENDS + 1).replace('"clusterIP":"10.96.0.10",', "");
    const raw = await runCli(["policy", "lint", "-f", "-", "--only", "too-large"], memoryFiles({ "-": without }));
    assert.equal(raw.code, 1, raw.err);
  });
});
