import assert from "node:assert/strict";
import { memoryFiles, runCli } from "../../../../support/cli/cli.ts";
import {
  expectation,
  EXPECTATIONS,
  clusterPolicy,
  networkPolicy,
  pod,
  service,
} from "../../../../support/cli/objects.ts";

describe("policy test: what the input lacks", () => {
  const list = (start: string, end: string): string =>
    Array.from({ length: 70 }, (_, i) => `{ ${start}${i + 1}${end} }`).join();
  const lacking = pod("shop/db") + pod("shop/web") + pod("other/web") + service("shop/db", "db", "{ port: 80 }");
  const db = (peer: string, more = ""): string =>
    networkPolicy("shop/db", `podSelector: { matchLabels: { app: db } }, ingress: [{ from: [${peer}]${more} }]`);
  const CUT = "podSelector: { matchLabels: { app: web } }, policyTypes: [Egress]";
  const byTeam = "namespaceSelector: { matchLabels: { team: x } }";
  const forTeam = (from: string, more = ""): string =>
    clusterPolicy("c", `ingress: [{ action: Deny, from: [{ namespaces: ${from} }]${more} }]`).replace(
      "subject: { namespaces: {} }",
      "subject: { namespaces: { matchLabels: { team: x } } }",
    );
  for (const [what, policy, from, expect, reason, port = "80", to = "shop/db"] of [
    [
      "a rule for addresses that pods may have",
      db("{ ipBlock: { cidr: 10.0.0.0/8 } }"),
      "shop/web",
      "denied",
      "no address",
    ],
    [
      "a rule for labels of the other namespace",
      db(`{ ${byTeam} }`),
      "other/web",
      "denied",
      "no Namespace object was read",
    ],
    [
      "a rule for labels of the other namespace and of its pod",
      db(`{ ${byTeam}, podSelector: { matchLabels: { app: web } } }`),
      "other/web",
      "denied",
      "no Namespace object was read",
    ],
    [
      "a rule for labels of the other namespace and another pod",
      db(`{ ${byTeam}, podSelector: { matchLabels: { app: db } } }`),
      "other/web",
      "denied",
      undefined,
    ],
    [
      "a rule for names of namespaces",
      db("{ namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: x } } }"),
      "other/web",
      "denied",
      undefined,
    ],
    [
      "a rule for the name of another namespace and a label",
      db("{ namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: x, tier: z } } }"),
      "other/web",
      "denied",
      undefined,
    ],
    [
      "a rule for a port of addresses that pods may have, in a question about all ports,",
      db("{ ipBlock: { cidr: 10.0.0.0/8 } }", ", ports: [{ port: 5432 }]"),
      "shop/web",
      "denied",
      "no address",
      "",
    ],
    ["a rule for shared addresses", db("{ ipBlock: { cidr: 100.64.0.0/16 } }"), "shop/web", "denied", "no address"],
    ["a rule for one private address", db("{ ipBlock: { cidr: 192.168.0.7/32 } }"), "shop/web", "denied", undefined],
    [
      "a Deny for the pods of labelled namespaces",
      forTeam("{}"),
      "other/web",
      "allowed",
      "no Namespace object was read",
    ],
    [
      "a Deny for the pods of labelled namespaces, which a pod meets by its own Service,",
      forTeam("{}") + db("{ podSelector: {} }"),
      "shop/db",
      "allowed",
      "no Namespace object was read",
      "80",
      "service/shop/db",
    ],
    [
      "a Pass for addresses that pods may have, above a NetworkPolicy that denies",
      clusterPolicy("c", "egress: [{ action: Pass, to: [{ networks: [10.0.0.0/8] }] }]") +
        networkPolicy("shop/web", CUT),
      "shop/web",
      "denied",
      undefined,
    ],
    [
      "a Pass for addresses that pods may have, above a Deny",
      clusterPolicy(
        "c",
        "egress: [{ action: Pass, to: [{ networks: [10.0.0.0/8] }] }, { action: Deny, to: [{ namespaces: {} }] }]",
      ),
      "shop/web",
      "denied",
      "no address",
    ],
    [
      "a Deny for the pods of labelled namespaces from others",
      forTeam("{ matchLabels: { kubernetes.io/metadata.name: x } }"),
      "other/web",
      "allowed",
      undefined,
    ],
    [
      "a Deny for the pods of labelled namespaces at another port",
      forTeam("{}", ", protocols: [{ tcp: { destinationPort: { number: 25 } } }]"),
      "other/web",
      "allowed",
      undefined,
    ],
    [
      "a Deny for the pods of labelled namespaces after an Accept",
      clusterPolicy("a", "ingress: [{ action: Accept, from: [{ namespaces: {} }] }]") +
        forTeam("{}").replace("priority: 1", "priority: 2"),
      "other/web",
      "allowed",
      undefined,
    ],
    [
      "a rule of a policy beyond the bounds of nodes",
      db(
        "{ podSelector: {} }",
        ` }, { from: [${list("ipBlock: { cidr: 203.0.113.", "/32 }")}], ports: [${list("port: ", "")}]`,
      ),
      "shop/web",
      "allowed",
      "on nodes NetworkPolicy shop/db",
    ],
  ] as const)
    it(`PTEST-01 EXPLAIN-06: ${what} ${reason === undefined ? "leaves" : "does not leave"} the answer known where the input lacks what it asks for`, async () => {
      const files = memoryFiles({
        "a.yaml": lacking + policy,
        "e.yaml": EXPECTATIONS + expectation(from, to, port, expect),
      });
      const { code, out } = await runCli(["policy", "test", "e.yaml", "-f", "a.yaml"], files);
      assert.equal(code, reason === undefined ? 0 : 3, out);
      assert.ok(reason === undefined || out.includes(`not known: ${reason}`), out);
      for (const command of [["matrix"], ["coverage"], ["describe", "shop/db"]]) {
        const { err } = await runCli(["policy", ...command, "-f", "a.yaml"], files);
        assert.equal(err.includes("not known: labels of namespaces other, shop;"), policy.includes("team: x"), err);
        assert.equal(err.includes("not known: addresses of 3 pods;"), /10\.0\.0\.0\/8|100\.64/.test(policy), err);
      }
    });

  it("PTEST-01 EXPLAIN-06: a rule that may deny pods without an address allows nothing for sure, unless an earlier one decides", async () => {
    const pods = pod("shop/db") + pod("shop/web");
    const accept = "{ action: Accept, to: [{ namespaces: {} }] }";
    const deny = "{ action: Deny, to: [{ networks: [10.0.0.0/8] }] }";
    for (const [rules, isKnown] of [
      [deny, false],
      [`${deny}, ${accept}`, false],
      [`${accept}, ${deny}`, true],
      [`${accept.replace("Accept", "Pass")}, ${deny}`, true],
      [deny.replace(" }] }", " }], protocols: [{ udp: { destinationPort: { number: 80 } } }] }"), true],
      ["{ action: Accept, to: [{ networks: [10.0.0.0/8] }] }", true],
    ] as const) {
      const objects = pods + clusterPolicy("deny", `egress: [${rules}]`);
      const files = memoryFiles({
        "a.yaml": objects,
        "e.yaml": EXPECTATIONS + expectation("shop/web", "shop/db", "80", "allowed"),
      });
      const { code, out } = await runCli(["policy", "test", "e.yaml", "-f", "a.yaml"], files);
      assert.equal(code, isKnown ? 0 : 3, `${rules} ${out}`);
      if (!isKnown)
        assert.match(out, /not known: no address is known of shop\/db: ClusterNetworkPolicy deny egress\[0\]/);
      const { err } = await runCli(["policy", "matrix", "-f", "a.yaml"], files);
      assert.match(
        err,
        /^not known: addresses of 2 pods; for them rules of ClusterNetworkPolicy deny are taken not to match$/m,
      );
    }
  });

  it("POL-59 EXPLAIN-06 MATRIX-02: a rule for all addresses of a family matches a pod without an address, one with exceptions does not, and the matrix says the same", async () => {
    const pods = pod("shop/db") + pod("shop/web") + pod("shop/six", "fd00::6");
    const block = (peer: string) =>
      networkPolicy("shop/db", `podSelector: {}, policyTypes: [Ingress], ingress: [{ from: [{ ipBlock: ${peer} }] }]`);
    const deny = (networks: string) =>
      clusterPolicy("deny", `egress: [{ action: Deny, to: [{ networks: [${networks}] }] }]`);
    for (const [policy, from, expect] of [
      [block("{ cidr: 0.0.0.0/0 }"), "web", "allowed"],
      [block('{ cidr: "::/0" }'), "web", "allowed"],
      [block('{ cidr: "::/0" }'), "six", "allowed"],
      [block("{ cidr: 0.0.0.0/0 }"), "six", "denied"],
      [block("{ cidr: 0.0.0.0/0, except: [10.0.0.0/8] }"), "web", "denied"],
      [block("{ cidr: 203.0.113.0/24 }"), "web", "denied"],
      [deny("0.0.0.0/0"), "web", "denied"],
      [deny('"::/0"'), "six", "denied"],
      [deny("0.0.0.0/0"), "six", "allowed"],
    ] as const) {
      const files = memoryFiles({
        "a.yaml": pods + policy,
        "e.yaml": EXPECTATIONS + expectation(`shop/${from}`, "shop/db", "80", expect),
      });
      const { code, out } = await runCli(["policy", "test", "e.yaml", "-f", "a.yaml"], files);
      assert.equal(code, 0, `${policy} ${out}`);
      const { out: cells, err } = await runCli(
        ["policy", "matrix", "--by", "pod", "-f", "a.yaml", "-o", "json"],
        files,
      );
      assert.doesNotMatch(err, /not known: addresses/);
      const always = expect === "allowed" ? '["all"]' : "[]";
      const cell = new RegExp(`"from":"shop/${from}","to":"shop/db","connections":.*,"always":(.*)}`).exec(cells);
      assert.equal(cell?.[1], always, policy);
    }
  });
});
