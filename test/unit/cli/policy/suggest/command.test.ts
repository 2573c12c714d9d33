import assert from "node:assert/strict";
import { memoryFiles, runCli } from "../../../../support/cli/cli.ts";
import { namespace, pod } from "../../../../support/cli/objects.ts";

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
});
