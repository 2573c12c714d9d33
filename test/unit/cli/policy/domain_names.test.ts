import assert from "node:assert/strict";
import { ask as run, namespace, pod } from "../../../support/cli/objects.ts";

/** Returns a policy by which pods reach names at port 443, and nothing else. */
function policy(names: string): string {
  return `
apiVersion: policy.networking.k8s.io/v1beta1
kind: ClusterNetworkPolicy
metadata: { name: names }
spec:
  tier: Admin
  priority: 1
  subject: { namespaces: {} }
  egress:
    - action: Accept
      to: [{ domainNames: [${names}] }]
      protocols: [{ tcp: { destinationPort: { number: 443 } } }]
    - action: Deny
      to: [{ networks: [0.0.0.0/0, "::/0"] }]
`;
}

const POD = namespace("shop") + pod("shop/web", "10.244.1.5");

/** Returns the exit code and all output of a command about policies. */
async function ask(text: string, ...args: readonly string[]): Promise<string> {
  const { code, out, err } = await run(`${POD}${text}`, "policy", ...args);
  return `${code} ${out}${err}`;
}

const explain = (text: string, to: string, port = "443") =>
  ask(text, "explain", "--from", "shop/web", "--to", to, "--port", port);

describe("domain names on the command line", () => {
  const NAMES = policy('api.example.com, "*.example.org"');

  it("NAME-14: explain answers for a name as the destination, at the rule's port", async () => {
    assert.match(
      await explain(NAMES, "api.example.com"),
      /^0 shop\/web to api\.example\.com, port 443\/TCP.*: allowed/,
    );
    assert.match(await explain(NAMES, "A.B.example.org."), /^0 /);
    assert.match(await explain(NAMES, "api.example.com", "80"), /^1 .*: denied/);
    assert.match(await explain(NAMES, "example.org"), /^1 .*: denied/);
  });

  it("NAME-14: explain says that an address depends on names, on which, and ends with exit code 3", async () => {
    const answer = await explain(NAMES, "203.0.113.7");
    assert.match(answer, /^3 .*: depends on DNS/);
    assert.match(answer, /ClusterNetworkPolicy names egress\[0\].*for api\.example\.com, \*\.example\.org/);
    assert.match(await explain(NAMES, "203.0.113.7", "80"), /^1 .*: denied/);
    assert.match(await explain(NAMES, "outside"), /^3 .*: depends on DNS/);
  });

  for (const command of [["matrix"], ["describe", "shop/web"]]) {
    it(`NAME-14: ${command[0]} says which names it leaves out, and ends with exit code 3`, async () => {
      assert.match(
        await ask(NAMES, ...command),
        /^3 [^]*left out: .*names \*\.example\.org, api\.example\.com; policy/,
      );
    });
  }

  it("NAME-14: lint does not call a policy unneeded that only allows names", async () => {
    const more = policy("other.example.com").replace("name: names", "name: more").replace("priority: 1", "priority: 0");
    const allow = more.slice(0, more.indexOf("    - action: Deny"));
    assert.match(await ask(`${NAMES}---${allow}`, "lint"), /^0 /);
  });
});
