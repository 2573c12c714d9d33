import assert from "node:assert/strict";
import { memoryFiles, type Outcome, runCli } from "../../support/cli/cli.ts";
import { manifest, networkPolicy, pod, service } from "../../support/cli/objects.ts";

const NODE = manifest(
  "Node",
  "name: n1",
  "spec: { podCIDRs: [10.244.1.0/24] }, status: { addresses: [{ type: InternalIP, address: 192.0.2.1 }, { type: InternalIP, address: 198.18.0.1 }] }",
);
const onNode = (name: string, more = "", ip = `10.244.1.${name.length}`): string =>
  pod(`shop/${name}`, ip, { spec: `nodeName: n1${more}` });
const OBJECTS = NODE + onNode("web") + onNode("agent", ", hostNetwork: true", "192.0.2.1");
const SERVICE = service(
  "shop/web",
  "web",
  "{ port: 80, nodePort: 30080 }",
  "type: NodePort, clusterIP: 10.96.0.10, externalIPs: [203.0.113.9]",
);
const policy = (spec: string): string => networkPolicy("shop/p", `podSelector: {}, ${spec}`);
const CLOSED = policy("policyTypes: [Egress]");

const FILES = {
  "closed.yaml": OBJECTS + CLOSED,
  "pods.yaml": NODE + onNode("web") + onNode("dns-cache") + onNode("other") + CLOSED,
  "open.yaml": OBJECTS,
  "change.yaml": CLOSED,
  "web.yaml": OBJECTS + SERVICE,
  "egress.yaml": OBJECTS + SERVICE + policy("egress: [{ to: [{ podSelector: {} }] }]"),
};

/** Runs a command line without and with a configuration of these fields. */
async function both(fields: string, args: string): Promise<readonly [Outcome, Outcome]> {
  const policyd = `apiVersion: drawbridge.dev/v1alpha1\nkind: PolicydConfiguration\n${fields}\n`;
  const files = memoryFiles({ ...FILES, "policyd.yaml": policyd });
  const words = args.split(" ");
  return [await runCli(words, files), await runCli([...words, "--config", "policyd.yaml"], files)];
}

describe("cli: the nodes' configuration", () => {
  it("CLI-13: POL-72: only port 53 of the nodes' own DNS stays open", async () => {
    const ask = "policy explain -f closed.yaml --from shop/web --to 169.254.20.10";
    const fields = "nodeLocalDNS: [169.254.20.10]";
    for (const [port, code] of [
      ["53/UDP", 0],
      ["53", 0],
      ["53/SCTP", 1],
      ["54/UDP", 1],
    ] as const) {
      const [before, after] = await both(fields, `${ask} --port ${port}`);
      assert.deepEqual([before.code, after.code], [1, code], port);
    }
    const [, everything] = await both(fields, ask);
    assert.match(everything.out, /^shop\/web to 169\.254\.20\.10: 53\/TCP, 53\/UDP$/m);
  });

  it("CLI-13: policy diff and dry-run distinguish the nodes' own DNS from the rest of the outside", async () => {
    const fields = "nodeLocalDNS: [169.254.20.10]";
    const [before, after] = await both(fields, "policy diff open.yaml closed.yaml -o json");
    const toDns = ({ out }: Outcome) => {
      const { changes } = JSON.parse(out) as { changes: { to: string[]; connections: string[] }[] };
      return changes.find(({ to }) => to.includes("outside 169.254.20.10/32"))?.connections.join();
    };
    assert.notEqual(toDns(before), toDns(after));
    assert.equal(toDns(after), "1-52/TCP,54-65535/TCP,1-52/UDP,54-65535/UDP,all/SCTP,ICMP");
    const [warned, quiet] = await both(fields, "policy dry-run -f change.yaml --against open.yaml");
    assert.match(warned.out, /can no longer look up names/);
    assert.doesNotMatch(quiet.out, /can no longer look up names/);
    assert.deepEqual([warned.code, quiet.code], [1, 1]);
  });

  it("CLI-13: policy lint takes nodeLocalDNS and refuseExternalIPs into account", async () => {
    const fields = "nodeLocalDNS: [169.254.20.10]\nrefuseExternalIPs: true";
    const [before, after] = await both(fields, "policy lint -f egress.yaml");
    assert.match(before.out, /dns-forgotten/);
    assert.match(before.out, /external-ips/);
    assert.doesNotMatch(after.out, /dns-forgotten|external-ips/);
  });

  it("CLI-13: service explain and policy explain know which addresses of Services the nodes serve", async () => {
    const fields = "nodePortAddresses: [primary]\nrefuseExternalIPs: true";
    const ask = "service explain -f web.yaml --from 203.0.113.7 --node n1 --to";
    const [all, primary] = await both(fields, `${ask} 198.18.0.1:30080`);
    assert.match(all.out, /goes to its only endpoint/);
    assert.match(primary.out, /passes unchanged.*not within nodePortAddresses/s);
    const [taken, refused] = await both(fields, `${ask} 203.0.113.9:80`);
    assert.match(taken.out, /Service shop\/web: external IP/);
    assert.match(refused.out, /No Service takes it/);
    const [, stale] = await both("podCIDRs: [203.0.113.0/24]", `${ask} 203.0.113.9:80`);
    assert.match(stale.out, /Service shop\/web: external IP/, "the Node's podCIDRs count");
    const [external, nodePort] = await both(
      fields,
      "policy explain -f web.yaml --from 203.0.113.7 --to service/shop/web --port 80",
    );
    assert.match(external.out, /external IP 203\.0\.113\.9:80/);
    assert.match(nodePort.out, /node port 192\.0\.2\.1:30080/);
  });

  it("CLI-13: a command gives no answer about policies or Services that the nodes leave to another program", async () => {
    for (const args of [
      "policy explain -f closed.yaml --from shop/web --to node/n1",
      "policy matrix -f closed.yaml",
      "policy diff open.yaml closed.yaml",
      "policy dry-run -f change.yaml --against open.yaml",
    ]) {
      const [, { code, out, err }] = await both("policies: false", args);
      assert.deepEqual([code, out], [3, ""], args);
      assert.match(err, /--config: policies: false; expected true: these nodes enforce no policies/);
    }
    const ask = "-f web.yaml --from shop/web --to service/shop/web";
    const [, served] = await both("services: false", `service explain ${ask}:80`);
    assert.deepEqual([served.code, served.out], [3, ""]);
    assert.match(served.err, /--config: services: false; expected true/);
    const [, explained] = await both("services: false", `policy explain ${ask} --port 80`);
    assert.match(explained.out.replaceAll(/\s+/g, " "), /Note: by --config another program serves Services/);
  });
});
