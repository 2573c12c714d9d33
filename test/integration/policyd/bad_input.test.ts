import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import process from "node:process";
import { createLab, type Lab } from "../../lab/lab.ts";
import type { MaskedFeature } from "../../lab/mask/features.ts";
import { masked } from "../../lab/mask/mask.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { askHttp, type HttpAnswer } from "../../support/http.ts";
import { BUNDLE, configured, type DaemonProcess, followDaemon, installing } from "../../support/daemon/policyd.ts";
import { requireKernel } from "../../support/privilege.ts";
import { listOf } from "../../support/services/manifest.ts";

/** Returns a Node object with pod CIDRs. That of node1 has the address of the lab's node. */
function node(name: string, ...podCIDRs: readonly string[]): object {
  const status = { addresses: name === "node1" ? [{ type: "InternalIP", address: "192.0.2.10" }] : [] };
  return { apiVersion: "v1", kind: "Node", metadata: { name }, spec: { podCIDRs }, status };
}

describe("a daemon with impossible input", function () {
  this.timeout(300_000);
  let lab: Lab;
  let wired: WiredNode;
  let directory = "";
  let daemon: DaemonProcess | undefined;

  beforeEach(function () {
    requireKernel(this);
    lab = createLab("policyd-bad-input");
    ({ node1: wired } = twoNodes(lab));
    directory = `${lab.scratch}/policyd`;
    mkdirSync(`${directory}/objects`, { recursive: true });
  });
  afterEach(async () => {
    await daemon?.kill("SIGKILL");
    lab?.destroy();
  });

  const socketPath = (): string => `${directory}/run/policyd.sock`;
  const put = (...items: readonly object[]): void => writeFileSync(`${directory}/objects/nodes.json`, listOf(items));
  const ready = (): HttpAnswer => askHttp(wired.node, "127.0.0.1", 10_256, "/readyz");

  /** Starts a daemon that is to install the plugin. */
  function start(
    fields: Readonly<Record<string, unknown>>,
    args: readonly string[] = [`--objects=${directory}/objects`],
    without: readonly MaskedFeature[] = [],
  ): DaemonProcess {
    const command = [
      BUNDLE,
      configured(directory, { nodeName: "node1", ...installing(directory), ...fields }),
      `--socket=${socketPath()}`,
      `--state-directory=${wired.node.runDir}`,
      `--network-namespace=${wired.node.path}`,
      ...args,
    ];
    const run =
      without.length === 0 ? { file: process.execPath, args: command } : masked(without, process.execPath, command);
    const child = spawn(run.file, run.args, { cwd: "/", stdio: ["ignore", "ignore", "pipe"] });
    daemon = followDaemon(child, socketPath());
    return daemon;
  }

  /** Asserts that there are no rules, no socket and no files for the runtime. */
  function expectNothingApplied(): void {
    assert.equal(wired.node.ruleset(), "");
    assert.deepEqual(
      [existsSync(socketPath()), existsSync(`${directory}/conf`), existsSync(`${directory}/bin`)],
      [false, false, false],
    );
  }

  const configurationFile = (): string => `${directory}/conf/10-drawbridge.conflist`;

  /** Asserts that a daemon runs, reports the reason, is not ready and lets no runtime call the plugin. */
  async function expectWaiting(running: DaemonProcess, reason: RegExp): Promise<void> {
    await running.statusWhen(({ problems }) => reason.test(problems.join("\n")), String(reason));
    const { status, body } = ready();
    assert.equal(status, 503, body);
    assert.match(body, /^\[-\]/m);
    assert.ok(!existsSync(configurationFile()));
  }

  async function expectReady(running: DaemonProcess): Promise<void> {
    await running.statusWhen(({ problemCount }) => problemCount === 0 && ready().status === 200, "ready");
    assert.ok(existsSync(configurationFile()));
  }

  const refused: readonly (readonly [string, Readonly<Record<string, unknown>>, readonly RegExp[], MaskedFeature[]])[] =
    [
      [
        "unknown keys, wrong units and types",
        {
          logFormt: "json",
          syncPeriod: 30,
          conntrackEstablishedTimeout: "1 day",
          podCIDRs: ["10.244.1.5/24"],
          services: "no",
        },
        [
          /logFormt: unknown field; did you mean logFormat\?/,
          /syncPeriod: 30; expected a duration such as 1s/,
          /conntrackEstablishedTimeout: "1 day"; expected a duration/,
          /podCIDRs.*10\.244\.1\.5\/24.*expected a prefix without host bits/,
          /services: "no"; expected true or false/,
        ],
        [],
      ],
      [
        "a kernel without nftables",
        {},
        [/nftables: .*CONFIG_NF_TABLES.*modprobe nf_tables.*EPROTONOSUPPORT/],
        ["nftables"],
      ],
    ];
  for (const [what, fields, messages, without] of refused) {
    it(`BAD-03: ${what}: the daemon says so in one line, exits with code 1 and applies nothing`, async () => {
      const failed = start(fields, undefined, without);
      assert.deepEqual(await failed.ended, { code: 1, signal: null });
      for (const message of messages) assert.match(failed.log(), message);
      assert.match(failed.log(), /^policyd: [^\n]+\n$/);
      expectNothingApplied();
    });
  }

  it("BAD-04: without pod CIDRs of its Node, or with overlapping ones, a daemon waits and reports the way out", async () => {
    put(node("node1"));
    const running = start({});
    await expectWaiting(
      running,
      /Node node1 has no spec\.podCIDRs.*--allocate-node-cidrs=true.*or give podCIDRs in the configuration/,
    );
    put(node("node1", "10.244.1.0/24"), node("other", "10.244.0.0/16"));
    await expectWaiting(
      running,
      /Node node1: pod CIDRs 10\.244\.1\.0\/24: .*overlaps with 10\.244\.0\.0\/16 of Node other/,
    );
    put(node("node1", "10.244.1.0/24", "10.244.1.128/25"));
    await expectWaiting(running, /10\.244\.1\.128\/25: expected at most one prefix of each family/);
    put(node("node1", "10.244.1.0/24"));
    await expectReady(running);
  });

  it("HEALTH-06: a kubeconfig that is missing, broken or incomplete is reported with its path and read again; nothing is programmed", async () => {
    const path = `${directory}/kubeconfig`;
    const running = start({}, [`--kubeconfig=${path}`]);
    const steps = [
      [undefined, "ENOENT"],
      ["{", "unexpected end"],
      ["kind: Config\n", "no contexts; expected a kubeconfig with one"],
    ] as const;
    for (const [text, reason] of steps) {
      if (text !== undefined) writeFileSync(path, text);
      await expectWaiting(running, new RegExp(`${path}: ${reason}`));
    }
    assert.match(ready().body, /^\[-\]objects: not all are read yet$/m);
    // There are only the tables that keep pods closed until policies are read (DP-20).
    const tables = wired.node.exec("nft", ["list", "tables"]).trim().split("\n").toSorted();
    assert.deepEqual(tables, ["table bridge drawbridge-closing", "table inet drawbridge-closing"]);
    assert.equal(running.child.exitCode, null);
    assert.doesNotMatch(running.log(), /unexpected error/);
  });

  it("D11: on a kernel without IPv6 a daemon reports no error and serves IPv4", async () => {
    put(node("node1", "10.244.1.0/24"));
    const running = start({}, undefined, ["ipv6"]);
    await expectReady(running);
    assert.equal(askHttp(wired.node, "127.0.0.1", 10_256, "/healthz").status, 200);
    assert.doesNotMatch(running.log(), /health is not served/);
  });
});
