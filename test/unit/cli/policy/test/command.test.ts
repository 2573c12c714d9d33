import assert from "node:assert/strict";
import { memoryFiles, type Outcome, runCli } from "../../../../support/cli/cli.ts";
import {
  expectation,
  EXPECTATIONS,
  manifest,
  named,
  networkPolicy,
  ownedBy,
  pod,
  service,
} from "../../../../support/cli/objects.ts";
import { processIo } from "../../../../../cli/process_io.ts";
import { readXml } from "../../../../support/xml.ts";

const OBJECTS =
  pod("shop/db", "10.1.0.1 fd00::1", { ports: "{ name: sql, containerPort: 5432 }" }) +
  pod("shop/web", "10.1.0.2 fd00::2") +
  networkPolicy(
    "shop/db",
    "podSelector: { matchLabels: { app: db } }, ingress: [{ ports: [{ port: sql }], from: [{ podSelector: {} }, { ipBlock: { cidr: 192.0.2.0/24 } }] }]",
  );

function test(tests: string, ...args: readonly string[]): Promise<Outcome> {
  const files = memoryFiles({ "a.yaml": OBJECTS, "e.yaml": tests });
  return runCli(["policy", "test", "e.yaml", "-f", "a.yaml", ...args], files);
}

const MIXED =
  EXPECTATIONS +
  expectation("shop/web", "shop/db", "5432", "allowed") +
  expectation("shop/web", "shop/db", "80", "allowed") +
  expectation("203.0.113.1", "shop/db", "", "denied");

describe("policy test", () => {
  it("PTEST-01: expectations that hold end with 0, and one that fails ends with 1, its reason and the explanation", async () => {
    const good = await test(
      EXPECTATIONS +
        expectation("shop/web", "shop/db", "sql", "allowed") +
        expectation("203.0.113.1", "shop/db", "", "denied"),
    );
    assert.deepEqual(good, {
      code: 0,
      out: "ok   shop/web to shop/db sql: allowed\nok   203.0.113.1 to shop/db: denied\n2 expectations: 2 hold, 0 fail\n",
      err: "",
    });
    const bad = await test(MIXED);
    assert.equal(bad.code, 1);
    assert.match(
      bad.out,
      /^FAIL shop\/web to shop\/db 80: expected allowed, but it is denied\n {5}reason: so it is \(e\.yaml:5\)$/m,
    );
    assert.match(
      bad.out,
      /nearest: NetworkPolicy shop\/db ingress\[0\].*\(a\.yaml:\d+\), but the destination calls port 5432/,
    );
    assert.match(bad.out, /^3 expectations: 2 hold, 1 fails$/m);
  });

  it("PTEST-02: an expectation must hold in every case, so a verdict in only one of two families fails both ways", async () => {
    const half = OBJECTS.replace(
      "{ podSelector: {} }, { ipBlock: { cidr: 192.0.2.0/24 } }",
      "{ ipBlock: { cidr: 10.1.0.0/16 } }",
    );
    for (const expect of ["allowed", "denied"]) {
      const files = memoryFiles({
        "a.yaml": half,
        "e.yaml": EXPECTATIONS + expectation("shop/web", "shop/db", "5432", expect),
      });
      const { code, out } = await runCli(["policy", "test", "e.yaml", "-f", "a.yaml"], files);
      assert.equal(code, 1, out);
      assert.match(out, /but it is denied in part/);
    }
    const nothing = await test(EXPECTATIONS + expectation("192.0.2.1", "shop/db", "", "denied"));
    assert.equal(nothing.code, 1, "without a port no port at all may be allowed");
  });

  it("PTEST-01: an expectation about a missing object cannot be evaluated, and ends with 3", async () => {
    const { code, out } = await test(
      EXPECTATIONS +
        expectation("shop/wbe", "shop/db", "80", "denied") +
        expectation("shop/web", "shop/db", "sql", "allowed"),
    );
    assert.equal(code, 3);
    assert.match(out, /^\?{4} shop\/wbe to shop\/db 80: .*did you mean shop\/web or/m);
    assert.match(out, /^2 expectations: 1 holds, 0 fail, 1 cannot be judged$/m);
  });

  it("PTEST-01: an expectation about a workload whose pods have all ended cannot be evaluated, except about a Job", async () => {
    const ended = (name: string, kind: string, owner: string): string =>
      pod(`shop/${name}`, "10.1.0.9", { metadata: ownedBy(kind, owner) }).replace("phase: Running", "phase: Succeeded");
    const files = memoryFiles({
      "a.yaml": OBJECTS + ended("night", "Job", "backup-29388888") + ended("once", "Job", "move"),
      "e.yaml":
        EXPECTATIONS +
        expectation("shop/cronjob/backup", "shop/db", "80", "denied") +
        expectation("shop/move", "shop/db", "80", "denied"),
    });
    const { code, out } = await runCli(["policy", "test", "e.yaml", "-f", "a.yaml"], files);
    assert.equal(code, 3);
    assert.match(out, /^\?{4} shop\/cronjob\/backup to .*: all its pods have ended, and the next are not known/m);
    assert.match(out, /^2 expectations: 1 holds, 0 fail, 1 cannot be judged$/m);
  });

  it("PTEST-01 EXPLAIN-06: an endpoint that the input does not show is neither allowed nor denied, and ends with 3", async () => {
    const objects =
      OBJECTS +
      service("shop/gone", "gone", "{ port: 80 }") +
      manifest(
        "EndpointSlice",
        named("shop/gone-1", "labels: { kubernetes.io/service-name: gone }"),
        'addressType: IPv4, ports: [{ name: "", port: 80 }], endpoints: [{ addresses: [10.1.0.9], targetRef: { kind: Pod, name: gone, namespace: shop } }]',
      ) +
      manifest("Service", named("shop/hand"), "spec: { ports: [{ port: 80 }] }") +
      manifest("Service", named("shop/headless"), "spec: { clusterIP: None, ports: [{ port: 80 }] }") +
      service("shop/none", "none", "{ port: 80 }");
    for (const expect of ["allowed", "denied"]) {
      for (const [name, isKnown] of [
        ["gone", false],
        ["hand", false],
        ["headless", false],
        ["none", true],
      ] as const) {
        const to = `service/shop/${name}`;
        const files = memoryFiles({
          "a.yaml": objects,
          "e.yaml": EXPECTATIONS + expectation("shop/web", to, "80", expect),
        });
        const tested = await runCli(["policy", "test", "e.yaml", "-f", "a.yaml"], files);
        assert.equal(tested.code, isKnown ? Number(expect === "allowed") : 3, tested.out);
        const args = ["policy", "explain", "-f", "a.yaml", "--from", "shop/web", "--to", to, "--port", "80"];
        const explained = await runCli(args, files);
        assert.equal(explained.code, isKnown ? 1 : 3, explained.out);
        const ofService = ["service", "explain", "-f", "a.yaml", "--from", "shop/web", "--to", `${to}:80`];
        if (name !== "headless" && name !== "gone")
          assert.equal((await runCli(ofService, files)).code, isKnown ? 1 : 3, name);
        assert.match(explained.out, isKnown ? /: denied$/m : /: not known$/m);
      }
    }
  });

  it("PTEST-04: an invalid file of expectations ends with 3, with file and line of each error", async () => {
    for (const [tests, message] of [
      [
        `${EXPECTATIONS}  - { from: shop/web, to: shop/db, port: 80, expect: allowed }\n`,
        /^e\.yaml:4: tests\[0\]: reason is missing$/m,
      ],
      [
        EXPECTATIONS + "  - { from: s/a, to: s/b, expects: allowed, reason: x }\n",
        /unknown field expects; did you mean expect\?/,
      ],
      [EXPECTATIONS + "  - 5\n", /^e\.yaml:4: tests\[0\]: expectation: 5; expected an object$/m],
      [
        EXPECTATIONS.replace("tests", "test") + expectation("s/a", "s/b", "1", "denied"),
        /unknown field test; did you mean tests\?/,
      ],
      [EXPECTATIONS + "  - { from: 3, to: s/b, expect: denied, reason: x }\n", /: from: 3; expected a text$/m],
      [
        EXPECTATIONS + expectation("shop/web", "shop/db", "80", "maybe"),
        /^e\.yaml:4: tests\[0\]: expect: "maybe"; expected one of allowed, denied$/m,
      ],
      [
        EXPECTATIONS + "  - { from: a, to: b, port: [80], expect: denied, reason: x }\n",
        /: port: a list; expected such as 80, 53\/UDP, icmp or/,
      ],
      [
        EXPECTATIONS + expectation("shop/web", "127.0.0.1", "80", "denied"),
        /^e\.yaml:4: tests\[0\]: loopback never leaves the pod/,
      ],
      [EXPECTATIONS + expectation("service/shop/db", "shop/db", "80", "denied"), /^e\.yaml:4: tests\[0\]: from: /],
      [EXPECTATIONS + expectation("shop/web", "shop/db", "", "allowed"), /^e\.yaml:4: tests\[0\]: port: expected one/],
      [EXPECTATIONS + expectation("shop/web", "shop/db", "99999", "denied"), /^e\.yaml:4: tests\[0\]: port: "99999"/],
      [
        EXPECTATIONS + expectation("shop/web", "shop/db", "80", "denied", ", why: x"),
        /^e\.yaml:4: tests\[0\]: unknown field why; expected name, from, /,
      ],
      [
        EXPECTATIONS + expectation("shop/web", "shop/db", "80", "denied", ", b: x"),
        /unknown field b; expected name, from, /,
      ],
      [`${EXPECTATIONS}  []\n`, /^e\.yaml:1: tests: /],
      ["apiVersion: v1\nkind: Pod\n", /^e\.yaml:1: .*expected a PolicyTest/],
      ["", /^e\.yaml: no expectations/],
      ["a: [", /^e\.yaml: /],
    ] as const) {
      const { code, out, err } = await test(tests);
      assert.deepEqual([code, out], [3, ""], tests);
      assert.match(err, message);
      assert.doesNotMatch(err, /Invalid|received/);
    }
    assert.equal((await test(`${EXPECTATIONS}# ${"x".repeat(1024 * 1024)}\n`)).code, 3, "more than a mebibyte");
    const missing = await runCli(["policy", "test", "no.yaml", "-f", "a.yaml"], memoryFiles({ "a.yaml": OBJECTS }));
    assert.equal(missing.code, 3);
    assert.equal((await runCli(["policy", "test", "-f", "a.yaml"], memoryFiles({ "a.yaml": OBJECTS }))).code, 2);
  });

  it("PTEST-05: TAP has a plan, a test point for each expectation and a diagnostic with the explanation", async () => {
    const { code, out } = await test(MIXED, "-o", "tap");
    assert.equal(code, 1);
    assert.match(
      out,
      /^TAP version 14\n1\.\.3\nok 1 - shop\/web to shop\/db 5432\nnot ok 2 - shop\/web to shop\/db 80\n {2}---\n/,
    );
    assert.match(out, /\n {2}reason: "so it is"\n {2}at: "e\.yaml:5"\n {2}explanation:\n {4}- "[^\n]+"\n/);
    assert.match(out, /\n {2}\.\.\.\nok 3 - 203\.0\.113\.1 to shop\/db\n$/);
  });

  it("PTEST-05: JUnit is well-formed, with a failure for a failed expectation and an error for one that cannot be evaluated", async () => {
    const { out } = await test(MIXED + expectation("shop/x", "shop/db", "80", "denied"), "-o", "junit");
    assert.deepEqual(readXml(out), [
      "testsuites",
      "testsuite",
      "testcase",
      "testcase",
      "failure",
      "testcase",
      "testcase",
      "error",
    ]);
    assert.match(out, /<testsuites tests="4" failures="1" errors="1">/);
  });

  it("CLI-11: the documented example holds", async () => {
    const args = ["policy", "test", "test/fixtures/cli/expectations/shop.yaml", "-f", "test/fixtures/cli/shop"];
    const { code, out } = await runCli(args, processIo().files);
    assert.equal(code, 0, out);
  });
});
