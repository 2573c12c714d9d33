import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { setTimeout as pause } from "node:timers/promises";
import { systemMachine } from "../../../cli/node/machine/system_machine.ts";
import type { Address } from "../../../kernel/ip/address.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { memoryFiles, runCli } from "../../support/cli/cli.ts";
import { namespaceManifest, podManifest, type PodPlace } from "../../support/policy/lab/place.ts";
import { PolicyLab } from "../../support/policy/lab/policy_lab.ts";
import { requireKernel } from "../../support/privilege.ts";
import { valueWhen } from "../../support/until.ts";
import { listOf } from "../../support/services/manifest.ts";

const PODS: readonly PodPlace[] = [
  { key: "shop/web", node: "node1" },
  { key: "shop/report", node: "node1" },
  { key: "shop/db", node: "node1" },
];
const PORT = 5432;
const SHADOW = { "drawbridge.dev/shadow": "true" };

describe("the rollout of a policy from draft to shadow to enforcement, as the guide describes it", function () {
  this.timeout(120_000);
  let lab: PolicyLab;

  before(async function () {
    requireKernel(this);
    lab = await PolicyLab.create({
      name: "rollout",
      pods: PODS,
      bridgeNetfilter: { node1: true, node2: true },
      configuration: { dropLog: true },
      hasFlowLedger: true,
    });
  });
  after(() => lab?.close());

  /** Returns the database's policy, which lets only these apps in. Its draft forgets the reports. */
  function policy(annotations: object, ...apps: readonly string[]): object {
    const from = apps.map((app) => ({ podSelector: { matchLabels: { app } } }));
    const ingress = [{ from, ports: [{ protocol: "UDP", port: PORT }] }];
    return {
      apiVersion: "networking.k8s.io/v1",
      kind: "NetworkPolicy",
      metadata: { name: "db", namespace: "shop", generation: 1, annotations },
      spec: { podSelector: { matchLabels: { app: "db" } }, ingress },
    };
  }

  function world(...policies: readonly object[]): readonly object[] {
    return [
      ...lab.nodeManifests(),
      namespaceManifest("shop", {}),
      ...PODS.map(({ key, node }) => podManifest(lab.place(key), node, { labels: { app: key.slice(5) } })),
      ...policies,
    ];
  }

  /** Runs the command line on the node, with these files. */
  async function drawbridge(args: readonly string[], files: Readonly<Record<string, string>> = {}) {
    const { policyd } = lab.overrides("node1") as { readonly policyd: { readonly socket: string } };
    const place = ["--socket", policyd.socket];
    const flows = args[1] === "flows" ? [...place, "--flow-directory", lab.flowDirectory("node1")] : [];
    const given = args[1] === "policies" ? place : flows;
    const node = { open: async () => systemMachine(lab.lab.calls), sleep: () => pause(0) };
    return await runCli([...args, ...given], memoryFiles(files), undefined, undefined, { node });
  }

  /** Sends a datagram to the database, and returns whether it arrives. */
  async function asks(from: string): Promise<boolean> {
    const to: Address = lab.place("shop/db").addresses[4];
    const server = ProbeSocket.open(lab.place("shop/db").namespace, 4, SocketType.DATAGRAM);
    const client = ProbeSocket.open(lab.place(from).namespace, 4, SocketType.DATAGRAM);
    try {
      server.bind({ address: to, port: PORT });
      client.connect({ address: to, port: PORT });
      client.send(Buffer.from(from));
      await pause(200);
      return server.receive().kind === "data";
    } finally {
      client.close();
      server.close();
    }
  }

  async function outputWhen(args: readonly string[], isSo: RegExp): Promise<string> {
    const { out } = await valueWhen(
      () => drawbridge(args),
      (printed) => isSo.test(printed.out),
      (printed) => printed.out + printed.err,
    );
    return out;
  }

  it("ROLLOUT-01: dry-run --ledger names the flows that a draft would cut, its shadow shows them without a cut, and the corrected policy cuts none", async () => {
    await lab.apply(world());
    assert.deepEqual([await asks("shop/web"), await asks("shop/report")], [true, true]);

    const ledger = await outputWhen(["node", "flows", "-o", "jsonl"], /shop\/report/);
    const draft = {
      "change.json": JSON.stringify(policy({}, "web")),
      "world.json": listOf(world()),
      "flows.jsonl": ledger,
    };
    const tried = ["policy", "dry-run", "-f", "change.json", "--against", "world.json", "--ledger", "flows.jsonl"];
    const cut = await drawbridge(tried, draft);
    assert.equal(cut.code, 1);
    assert.match(cut.out, /shop\/report +shop\/db +5432\/UDP +1 +ingress: /);
    assert.match(cut.out, /app: report/);
    assert.doesNotMatch(cut.out, /shop\/web +shop\/db/);

    await lab.apply(world(policy(SHADOW, "web")));
    assert.deepEqual([await asks("shop/web"), await asks("shop/report")], [true, true]);
    const denied = await outputWhen(["node", "flows", "--denied"], /shop\/report/);
    assert.match(
      denied,
      /shop\/report +shop\/db +5432\/UDP +would be denied .*isolated by shop\/db; nearest: .*ingress\[0\]/s,
    );
    assert.doesNotMatch(denied, /shop\/web/);

    const mended = { ...draft, "change.json": JSON.stringify(policy({}, "web", "report")) };
    const again = await drawbridge(tried, mended);
    assert.equal(again.code, 0, again.out);
    await lab.apply(world(policy({}, "web", "report")));
    assert.deepEqual([await asks("shop/web"), await asks("shop/report")], [true, true]);
    const { out } = await drawbridge(["node", "policies"]);
    assert.match(out, /"key":"shop\/db","generation":1,"inForce":1,"state":"enforced"/);
  });
});
