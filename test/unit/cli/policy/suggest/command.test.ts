import assert from "node:assert/strict";
import { memoryFiles, runCli } from "../../../../support/cli/cli.ts";
import { namespace, ownedBy, pod } from "../../../../support/cli/objects.ts";

const SHOP =
  namespace("shop", "kubernetes.io/metadata.name: shop") +
  pod("shop/web", "10.244.0.2", { spec: "nodeName: n1" }) +
  pod("shop/db", "10.244.1.3", { ports: "{ name: sql, containerPort: 5432 }", spec: "nodeName: n2" });
const TABLE =
  "tcp 6 100 ESTABLISHED src=10.244.0.2 dst=10.96.0.7 sport=40001 dport=80 src=10.244.1.3 dst=10.244.0.2 sport=5432 dport=40001 [ASSURED] use=1\n";
const COMMAND = ["policy", "suggest", "-f", "shop.yaml", "-n", "shop"];
const FILES = { "shop.yaml": SHOP, "node1.txt": TABLE };

describe("cli/policy/suggest: the command", () => {
  it("SUGGEST-07: the exit code is 1 if a seen connection is not allowed, and 2 without any connections", async () => {
    const ping = TABLE.replace("tcp 6", "icmp 1");
    const table = await runCli([...COMMAND, "--conntrack", "node1.txt"], memoryFiles({ ...FILES, "node1.txt": ping }));
    assert.equal(table.code, 1);
    assert.match(table.err, /^not allowed: 1 by ICMP/m);
    const none = await runCli(COMMAND, memoryFiles(FILES));
    assert.equal(none.code, 2);
    assert.match(none.err, /no connections to go by: give --live, or files with --conntrack/);
  });

  it("SUGGEST-07: each policy has a name of its own that the API server accepts, and domain names without room are listed", async () => {
    const long = `${"a".repeat(230)}.b`;
    const shop =
      pod("shop/web-1", "10.244.0.4", { metadata: ownedBy("StatefulSet", "web"), spec: "nodeName: n1" }) +
      pod("shop/web-2", "10.244.0.5", { metadata: ownedBy("DaemonSet", "web"), spec: "nodeName: n1" }) +
      pod("shop/long-1", "10.244.0.6", { metadata: ownedBy("DaemonSet", long), spec: "nodeName: n1" });
    const row = (i: number): string =>
      `${JSON.stringify({ from: { workload: "shop/daemonset/web" }, to: { outside: `203.0.113.${i}/32`, name: `${"n".repeat(60)}.number-${i}.example.com` }, protocol: "TCP", port: 443, verdict: "allowed", observedAt: "from", firstSeen: "2026-11-01T00:00:00Z", lastSeen: "2026-11-02T00:00:00Z", count: 3, open: 1, bytes: 100 })}\n`;
    const ledger = Array.from({ length: 20 }, (_, i) => row(i)).join("");
    const files = { "shop.yaml": shop, "flows.jsonl": ledger };
    const { code, out, err } = await runCli([...COMMAND, "--ledger", "flows.jsonl"], memoryFiles(files));
    assert.equal(code, 1);
    assert.deepEqual(out.match(/(?<=^ {2}name: )\S+/gm), [
      `observed-${"a".repeat(230)}`,
      "observed-web",
      "observed-web-2",
    ]);
    const [{ length: kept }] = [[...out.matchAll(/number-\d+/g)]];
    assert.match(
      err,
      new RegExp(`^not allowed: shop/daemonset/web: .* and ${20 - kept - 5} more: 1024 characters`, "m"),
    );
    const lint = await runCli(
      ["policy", "lint", "-f", "shop.yaml", "new.yaml"],
      memoryFiles({ ...files, "new.yaml": out }),
    );
    assert.match(lint.out, /^0 errors, 0 warnings/m);
  });
});
