import assert from "node:assert/strict";
import { MOST_PAIRS } from "../../../../../policyd/policies/policy_size.ts";
import { memoryFiles, runCli } from "../../../../support/cli/cli.ts";
import { object, pod, policy, tryOut } from "../../../../support/cli/dry_run.ts";
import { assertGolden, fixtureFiles } from "../../../../support/cli/golden.ts";

const TENANTS = fixtureFiles("tenants");
const CHANGE = ["policy", "dry-run", "-f", "tenants/change.yaml", "--against", "tenants/before"];

describe("cli/policy/dry_run", () => {
  it("LINT-10: a change that makes a policy too large for nodes is warned of, and one that was too large before is not", async () => {
    const list = (element: string, count: number): string =>
      `[${Array.from({ length: count }, () => element).join(", ")}]`;
    // The same peer and port are repeated, since only their number counts.
    const large = (name: string, pairs: number): string => {
      const peers = list("{ podSelector: {} }", Math.ceil(pairs / 64));
      return policy(
        name,
        `{ podSelector: {}, ingress: [{ from: ${peers}, ports: ${list("{ port: 80 }", Math.min(64, pairs))} }] }`,
      );
    };
    const before = pod("web", "web") + large("a", MOST_PAIRS + 1) + large("b", MOST_PAIRS) + large("c", MOST_PAIRS);
    const { warnings } = await tryOut(before, large("d", 1));
    assert.deepEqual(
      warnings.map(({ id, text }) => `${id}: ${text.replace(/ policies.*/, "")}`),
      ["too-large: NetworkPolicy shop/d ingress: comes after"],
    );
  });

  for (const format of ["table", "json", "md"]) {
    it(`DRYRUN-01: a tenant that closes itself and forgets DNS, as ${format}`, async () => {
      const { code, out, err } = await runCli([...CHANGE, "-o", format], TENANTS);
      assert.deepEqual([code, err], [1, ""]);
      assertGolden(`tenants/expected/dry_run.${format}.txt`, out);
    });
  }

  it("DRYRUN-02: a change takes the place of the object of its kind and name, whatever else is in the cluster", async () => {
    const against =
      pod("web", "web") + pod("db-0", "db") + policy("db", "{ podSelector: { matchLabels: { app: db } } }");
    const allow = policy(
      "db",
      "{ podSelector: { matchLabels: { app: db } }, ingress: [{ from: [{ podSelector: {} }] }] }",
    );
    const { policies, isolation, changes } = await tryOut(against, allow);
    assert.deepEqual(
      policies.map(({ change, selects }) => [change, selects.pods]),
      [["changed", 1]],
    );
    assert.deepEqual(isolation, []);
    assert.deepEqual(
      changes.map(({ change, from, to }) => [change, from, to]),
      [["added", ["shop/deployment/web"], ["shop/deployment/db"]]],
    );
    const same = await tryOut(
      against + allow.replace("name: db", "name: other"),
      allow.replace("name: db", "name: other"),
    );
    assert.deepEqual([same.policies[0]?.change, same.changes], ["unchanged", []]);
  });

  it("DRYRUN-02: --delete removes the objects of -f, or those that it names", async () => {
    const deny = policy("db", "{ podSelector: { matchLabels: { app: db } } }");
    const against = pod("web", "web") + pod("db-0", "db") + deny;
    for (const result of [
      await tryOut(against, deny, "--delete"),
      await tryOut(against, pod("web", "web"), "--delete", "netpol/shop/db"),
    ]) {
      assert.deepEqual(
        result.policies.map(({ change, name }) => [change, name]),
        [["deleted", "NetworkPolicy shop/db"]],
      );
      assert.deepEqual(
        result.isolation.map(({ direction, change, names }) => [direction, change, names]),
        [["ingress", "no longer isolated", ["shop/deployment/db"]]],
      );
      assert.ok(result.changes.length > 0 && result.changes.every(({ change }) => change === "added"));
    }
    const namespace = "---\napiVersion: v1\nkind: Namespace\nmetadata: { name: shop }\n";
    const whole = await tryOut(against + namespace, namespace, "--delete");
    assert.deepEqual(
      [...whole.policies, ...whole.others].map(({ change, name }) => `${change} ${name}`),
      ["NetworkPolicy shop/db", "Namespace shop", "Pod shop/web", "Pod shop/db-0"].map((name) => `deleted ${name}`),
    );
    const missing = await tryOut(against, deny.replaceAll("db", "dv"), "--delete");
    assert.deepEqual(
      missing.warnings.map(({ id, text }) => [id, text]),
      [["not-found", "NetworkPolicy shop/dv is not among the objects: nothing to delete"]],
    );
    const workloads = ["db", "dw"]
      .map((name) =>
        object("Deployment", name, " }\nspec: { template: { spec: { containers: [{ name: c }] } } }", "apps/v1"),
      )
      .join("---\n");
    const gone = await tryOut(pod("web", "web") + pod("db-0", "db"), workloads, "--delete");
    assert.deepEqual(
      gone.warnings.map(({ text }) => text),
      ["a pod of Deployment shop/dw is not among the objects: nothing to delete"],
    );
  });

  it("DRYRUN-02: a workload's template changes the labels of its pods, which keep their addresses", async () => {
    const deployment = (app: string): string =>
      object(
        "Deployment",
        "web",
        ` }\nspec: { template: { metadata: { labels: { app: ${app} } }, spec: { containers: [{ name: c }] } } }`,
        "apps/v1",
      );
    const block =
      "{ podSelector: { matchLabels: { app: db } }, ingress: [{ from: [{ podSelector: { matchLabels: { app: web } } }] }] }";
    const fromAddress = block.replace(
      "podSelector: { matchLabels: { app: web } } }] }",
      "ipBlock: { cidr: 10.244.0.3/32 } }] }",
    );
    const there = pod("web", "web") + pod("db-0", "db");
    const byLabel = await tryOut(there + policy("db", block), deployment("front"));
    assert.deepEqual(
      byLabel.others.map(({ change, name }) => [change, name]),
      [["changed", "Pod shop/web"]],
    );
    assert.deepEqual(
      byLabel.changes.map(({ change, from }) => [change, from]),
      [["removed", ["shop/deployment/web"]]],
    );
    const files = memoryFiles({ "a.yaml": there, "b.yaml": deployment("front") });
    const text = await runCli(["policy", "dry-run", "-f", "b.yaml", "--against", "a.yaml"], files);
    assert.equal(text.out, "changed shop/deployment/web\nno difference in what may be sent\n");
    const byAddress = await tryOut(there + policy("db", fromAddress), deployment("front"));
    assert.deepEqual(byAddress.changes, []);
  });

  it("DRYRUN-02: labels that a controller gave a pod stay, whatever its stand-in has", async () => {
    const template = `spec: { template: { metadata: { labels: { app: db } }, spec: { containers: [{ name: c, ports: [{ name: http, containerPort: 80 }] }] } } }`;
    const stateful = object("StatefulSet", "db", ` }\n${template}`, "apps/v1");
    const running = (ordinal: number): string =>
      pod(`db-${ordinal}`, "db")
        .replace(
          "pod-template-hash: h",
          `statefulset.kubernetes.io/pod-name: db-${ordinal}, controller-revision-hash: r`,
        )
        .replace("kind: ReplicaSet, name: db-h", "kind: StatefulSet, name: db")
        .replace("10.244.0.4", `10.244.0.${40 + ordinal}`);
    const first = "{ podSelector: { matchLabels: { statefulset.kubernetes.io/pod-name: db-1 } } }";
    const { others, changes } = await tryOut(running(0) + running(1) + policy("db", first), stateful);
    assert.deepEqual([others.map(({ change }) => change), changes], [["unchanged", "unchanged"], []]);
  });

  it("DRYRUN-01 MATRIX-06: selectors without a match, unused port names and policies in shadow are warned of", async () => {
    const against = pod("web", "web") + pod("host", "agent", ", hostNetwork: true");
    const change =
      policy("nobody", "{ podSelector: { matchLabels: { app: wbe } } }") +
      policy("host", "{ podSelector: { matchLabels: { app: agent } } }") +
      policy(
        "web",
        "{ podSelector: { matchLabels: { app: web } }, ingress: [{ from: [{ namespaceSelector: { matchLabels: { team: x } } }], ports: [{ port: htpp }, { port: http }] }] }",
      ) +
      object(
        "NetworkPolicy",
        "tried",
        ', annotations: { drawbridge.dev/shadow: "true" } }\nspec: { podSelector: { matchLabels: { app: web } } }',
        "networking.k8s.io/v1",
      );
    const { isolation, warnings } = await tryOut(against, change);
    assert.deepEqual(
      isolation.map(({ names }) => names),
      [["shop/deployment/web"]],
    );
    assert.deepEqual(
      warnings.map(({ text, line }) => [text, line]),
      [
        [
          "NetworkPolicy shop/nobody: selects nothing (pods with app=wbe in namespace shop); fix: there is no app=wbe; probably app=web is meant",
          5,
        ],
        [
          "NetworkPolicy shop/host: selects pods of the host's network, on which it has no effect: shop/host; fix: protect their ports on the node itself, or run them without hostNetwork",
          10,
        ],
        [
          'NetworkPolicy shop/web: no container of the destination pods has a port "htpp"/TCP, so it matches nothing; fix: the names they have: http; or give the number',
          15,
        ],
        [
          "NetworkPolicy shop/web: no pods of a namespace with team=x are among the files; fix: give its files, too, with -f, or the Namespace object of shop",
          15,
        ],
        ["NetworkPolicy shop/tried: in shadow: it isolates nobody; fix: delete the annotation to have it enforced", 19],
      ],
    );
  });

  it("DRYRUN-01: pods that lose DNS are warned of, and those that may still ask for names are not", async () => {
    const closed = policy("closed", "{ podSelector: {}, policyTypes: [Egress], egress: [{ ports: [{ port: 443 }] }] }");
    const lost = await tryOut(pod("web", "web"), closed);
    assert.deepEqual(
      lost.warnings.map(({ text }) => text),
      ["shop/deployment/web can no longer look up names: 53/UDP is cut"],
    );
    const [tcp, udp] = ["{ port: 53 }", "{ port: 53, protocol: UDP }"];
    const dnsAt = (port: number): string =>
      pod("dns-0", "dns")
        .replace("namespace: shop", "namespace: kube-system")
        .replace("{ app: dns,", "{ k8s-app: kube-dns,")
        .replace("name: http, containerPort: 80", `name: dns, protocol: UDP, containerPort: ${port}`);
    const dns = dnsAt(53);
    const [toDns, udp1053] = ["namespaceSelector: {}", "{ port: 1053, protocol: UDP }"];
    const alsoTo = (peer: string, port: string): string =>
      closed.replace("egress: [", `egress: [{ to: [{ ${peer} }], ports: [${port}] }, `);
    for (const [against, change, isLost] of [
      [pod("web", "web"), closed.replace("{ port: 443 }", `{ port: 443 }, ${udp}`), false],
      // Where no server is among the objects, any other one may be meant.
      [pod("web", "web"), alsoTo("ipBlock: { cidr: 192.0.2.53/32 }", udp), false],
      [
        pod("web", "web"),
        alsoTo("ipBlock: { cidr: 192.0.2.53/32 }", "{ port: 50, endPort: 60, protocol: UDP }"),
        false,
      ],
      [pod("web", "web"), alsoTo("ipBlock: { cidr: 192.0.2.53/32 }", tcp), true],
      [pod("web", "web"), alsoTo("ipBlock: { cidr: 192.0.2.53/32 }", "{ port: 54, protocol: UDP }"), true],
      [pod("web", "web") + dns, alsoTo("ipBlock: { cidr: 192.0.2.53/32 }", udp), true],
      [pod("web", "web") + dns, alsoTo(toDns, udp), false],
      // The pods of the DNS listen on another port than its Service.
      [pod("web", "web") + dnsAt(1053), alsoTo(toDns, udp), true],
      [pod("web", "web") + dnsAt(1053), alsoTo(toDns, udp1053), false],
    ] as const) {
      const { warnings: found } = await tryOut(against, change);
      assert.equal(
        found.some(({ id }) => id === "dns-blocked"),
        isLost,
        change,
      );
    }
  });

  it("DIFF-11: a change without a difference ends with 0, and an invalid command with 2 or 3", async () => {
    const files = memoryFiles({
      "a.yaml": pod("web", "web"),
      "b.yaml": policy("all", "{ podSelector: {}, ingress: [{}] }"),
    });
    const run = (...args: readonly string[]) => runCli(["policy", "dry-run", ...args], files);
    assert.deepEqual(await run("-f", "b.yaml", "--against", "a.yaml"), {
      code: 0,
      out:
        "added NetworkPolicy shop/all (b.yaml:2): selects shop/deployment/web (1 pod)\n" +
        "newly isolated for ingress: shop/deployment/web (1 pod)\n" +
        "no difference in what may be sent\n",
      err: "",
    });
    assert.equal((await run("--against", "a.yaml")).code, 2);
    assert.equal((await run("--delete", "--against", "a.yaml")).code, 2);
    assert.equal((await run("-f", "b.yaml")).code, 2);
    const twice = await runCli(
      ["policy", "dry-run", "-f", "-", "--against", "-"],
      memoryFiles({ "-": pod("web", "web") }),
    );
    assert.deepEqual([twice.code, twice.out], [3, ""]);
    assert.match(twice.err, /-: standard input can be read once/);
    assert.match((await run("--delete", "shop/web", "--against", "a.yaml")).err, /expected networkpolicy\/NS\/NAME/);
  });
});
