import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { CHECKS } from "../../../../cli/node/doctor/checks.ts";
import type { NodeFacts } from "../../../../cli/node/doctor/facts.ts";
import { diagnosisObject, diagnosisTable } from "../../../../cli/node/doctor/print.ts";
import { parseReply, type PolicydStatus, replyToJson } from "../../../../attachment/policyd_messages.ts";
import { styleOf } from "../../../../cli/io.ts";
import { desiredBridges } from "../../../../cni/node_state/desired.ts";
import type { FailureCause } from "../../../../cni/status/failure_record.ts";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { NodeJudge } from "../../../../objects/nodes/node_judge.ts";
import { AttachmentFailures } from "../../../../policyd/attachments/failures.ts";
import { type MachineFacts, seen, SEVERITIES } from "../../../../policyd/problems/check.ts";
import { diagnose } from "../../../../policyd/problems/diagnose.ts";
import { Examination } from "../../../../policyd/checks/examination.ts";
import { codeOf, PROBLEM_CODES, type ProblemCode, severityOf } from "../../../../policyd/problems/problem.ts";
import { TakeOver } from "../../../../policyd/coexistence/take_over.ts";
import { recordingNotices } from "../../../support/recording_notices.ts";
import { conditionsAnswer } from "../../../../policyd/health/answers.ts";
import { hostFiles } from "../../../../policyd/installation/host_files.ts";
import { Installation, type InstallationParts } from "../../../../policyd/installation/installation.ts";
import { recordingLogger } from "../../../support/recording_logger.ts";
import { NodeStateReconciler } from "../../../../policyd/node_state/node_state_reconciler.ts";
import { NodeStateReport } from "../../../../policyd/node_state/report.ts";
import type { KernelState } from "../../../../policyd/routes/route_kernel/kernel_state.ts";
import { RouteReconciler } from "../../../../policyd/routes/route_reconciler.ts";
import { Startup } from "../../../../policyd/startup.ts";
import { FakeKernelNotifications } from "../../../support/daemon/fake_notifications.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { inTurn } from "../../../support/node/in_turn.ts";
import { link, nodeFacts, pluginFile } from "../../../support/node/node_facts.ts";
import { FakeNodeState } from "../../../support/node_state/fake_node_state.ts";
import { RECORDS } from "../../../support/node_state/records.ts";
import { FakeRouteKernel } from "../../../support/routes/fake_route_kernel.ts";
import { DOCTORS, errorsInSources } from "../../../support/node/error_sites.ts";
import { foreignRoute, machine, node } from "../../../support/routes/machine.ts";
import { withStatus } from "../../../../cli/node/doctor/run.ts";

/** How a problem comes about. */
interface Scenario {
  /** Returns the lines of the status; undefined where no daemon can tell. */
  readonly status?: () => Promise<readonly string[]>;
  /** Facts of a doctor without a daemon; undefined where only the daemon can know. */
  readonly facts?: Partial<NodeFacts>;
  /** Which one of several errors of this code it is. */
  readonly which?: string;
}

const parts = () => ({
  clock: new FakeClock(),
  logger: recordingLogger(),
  events: recordingNotices(),
  nodeName: "a",
  syncPeriod: 30_000,
});

function examined(facts: Partial<MachineFacts>): Scenario {
  return {
    facts,
    status: async () => {
      const report = new NodeStateReport(parts());
      new Examination({ ...parts(), report, facts: () => nodeFacts(facts), period: 30_000 }).begin();
      return report.lines();
    },
  };
}

/** Returns what the daemon reports of its bridge and its surroundings. */
async function nodeState(
  settings: readonly (readonly [string, string])[],
  harm: (kernel: FakeNodeState) => void = () => {},
): Promise<readonly string[]> {
  const [desired] = desiredBridges(RECORDS);
  const kernel = new FakeNodeState(desired ?? assert.fail());
  harm(kernel);
  const values = new Map(settings);
  const reconciler = new NodeStateReconciler({
    ...parts(),
    kernel,
    sysctl: { read: (key) => values.get(key) ?? kernel.settings.get(key) },
    report: new NodeStateReport(parts()),
    attachments: { values: () => RECORDS.values() },
    uplinks: () => ["eth0", "eth1"],
    links: [],
    onAddresses: () => {},
  });
  await reconciler.start(new FakeKernelNotifications());
  await reconciler.stop();
  return reconciler.problems();
}

function setting(key: string, value: string): Scenario {
  return {
    status: () => nodeState([[key, value]]),
    facts: { settings: new Map([[key, value]]), ...TWO_UPLINKS },
  };
}

const TWO_UPLINKS: Partial<NodeFacts> = {
  links: { value: [link(2, "eth0"), link(3, "eth1"), ...(seen(nodeFacts().links) ?? []).slice(2)] },
  // One default route with two next hops.
  routes: {
    value: [
      { ...foreignRoute("0.0.0.0/0", 2), outputInterface: undefined, hasOtherNextHop: true, nextHopLinks: [2, 3] },
    ],
  },
};

const IN_THE_WAY = { ...foreignRoute("10.244.1.0/30", 2), protocol: 80 };

async function routes(
  podCidrs: readonly string[],
  other: readonly string[],
  changes: Partial<KernelState> = { routes: [...machine().routes, IN_THE_WAY] },
): Promise<readonly string[]> {
  const kernel = new FakeRouteKernel(machine(changes));
  const judge = new NodeJudge({ nodeName: "a" });
  const reconciler = new RouteReconciler({
    ...parts(),
    kernel,
    judge,
    options: { encapsulation: "auto", bridge: "drawbridge0" },
  });
  const objects = inTurn(judge, reconciler);
  const nodes = [node("a", ["192.0.2.1"], podCidrs), node("b", other, ["10.244.2.0/24"])];
  objects.apply(nodes.map((object) => ({ type: "set", kind: "Node", key: object.key, object })));
  objects.synced();
  return reconciler.problems();
}

async function failing(cause: FailureCause): Promise<readonly string[]> {
  const recorded = () => [{ network: "pods", cause, seconds: 7, reason: "the reason" }];
  const failures = new AttachmentFailures({ ...parts(), recorded });
  failures.begin();
  return failures.problems();
}

/**
 * Returns what the installation reports; without changes for a Node without pod CIDRs.
 *
 * @param files further files, by their paths below the directory of `bin` and `conf`
 */
async function installation(
  hasPlugin: boolean,
  changes: Partial<InstallationParts> = {},
  files: readonly string[] = [],
): Promise<readonly string[]> {
  const root = mkdtempSync(`${tmpdir()}/drawbridge-problems-`);
  if (hasPlugin) writeFileSync(`${root}/drawbridge`, "#!/bin/sh\n");
  for (const directory of ["bin", "conf"]) mkdirSync(`${root}/${directory}`);
  for (const file of files) writeFileSync(`${root}/${file}`, "{}", { mode: 0o644 });
  const clock = new FakeClock();
  const network = { bridge: "drawbridge0", socketPath: "/run/s", stateDirectory: "/run/d" };
  const places = { source: root, binaries: `${root}/bin`, configurations: `${root}/conf` };
  const of = { ...parts(), clock, files: hostFiles, places, network, podCidrs: [], chain: [], primary: undefined };
  const judge = new NodeJudge({ nodeName: "a", ownCidrs: changes.podCidrs ?? [] });
  const running = new Installation({ ...of, judge, mtu: () => 1450, ...changes });
  running.start();
  running.synced();
  running.rulesInForce();
  for (let left = 200; running.problems().length === 0 && left > 0; left--) {
    clock.pass(100);
    await pause(5);
  }
  await running.stop();
  rmSync(root, { recursive: true });
  return running.problems();
}

async function foreignPort(): Promise<readonly string[]> {
  const look = () => ({ foreignPorts: ["veth1a2b"], isOurs: true });
  const takeOver = new TakeOver({ ...parts(), bridge: "drawbridge0", look });
  await takeOver.granted();
  return takeOver.problems();
}

async function refusedRules(): Promise<readonly string[]> {
  const status = () => ({ lastError: "add chain: no such file (ENOENT)" }) as never;
  const ruleset = { start: () => {}, stop: () => {}, status };
  const watch = { start: async () => {}, stop: () => {} };
  return new Startup({ ruleset, watch, startEvents: () => assert.fail(), onStart: () => {} }).problems();
}

const RULESET = seen(nodeFacts().ruleset) ?? { tables: [], chains: [], markWrites: [] };
const VXLAN = { vni: 107, port: 4789, local: parseAddress("192.0.2.1"), learning: false, hasMore: false };

const SCENARIOS: Readonly<Record<ProblemCode, Scenario>> = {
  addresses: { status: () => failing("addresses") },
  attachments: { status: () => failing("other") },
  clock: examined({ now: 0 }),
  "cni-configuration": {
    status: () => installation(true),
    facts: { network: { value: { kind: "missing" } } },
  },
  "cni-plugin": {
    status: () => installation(false),
    facts: {
      plugins: {
        value: [{ name: "drawbridge", isFile: false, isExecutable: false, isAsShipped: undefined, version: undefined }],
      },
    },
  },
  conntrack: examined({
    settings: new Map([
      ["net/netfilter/nf_conntrack_count", "990"],
      ["net/netfilter/nf_conntrack_max", "1000"],
    ]),
  }),
  daemon: { facts: { daemon: { value: { away: "it is not there" } } } },
  "foreign-drops": examined({ forwardDrops: { value: [{ family: "ip6", table: "filter", chain: "FORWARD" }] } }),
  "former-plugin": {
    status: foreignPort,
    facts: {
      links: { value: [...(seen(nodeFacts().links) ?? []), link(9, "veth1a2b", { kind: "veth", master: 3 })] },
    },
  },
  forwarding: setting("net/ipv4/conf/eth1/forwarding", "0"),
  ipv6: setting("net/ipv6/conf/all/disable_ipv6", "1"),
  "kernel-features": examined({ linkKinds: { value: [{ kind: "vxlan", isKnown: false }] } }),
  "kernel-version": examined({ release: { value: "5.4.0" } }),
  "kube-proxy": examined({ kubeProxy: { value: ["ip6 kube-proxy"] } }),
  "node-state": {
    status: () =>
      nodeState([], (kernel) => {
        kernel.addresses = [];
        kernel.refusal = () => new DrawbridgeError("ERR_NETLINK", "refused");
      }),
    facts: {
      nodeState: {
        value: desiredBridges(RECORDS).map((desired) => {
          const kernel = new FakeNodeState(desired);
          kernel.addresses = [];
          return { desired, observed: kernel.observe(desired, { ports: "all", ways: "all", hasFilters: true }) };
        }),
      },
    },
  },
  "pod-networks": {
    status: () => routes(["10.244.1.0/24"], ["192.0.2.2"]),
    facts: { routes: { value: [IN_THE_WAY] } },
  },
  probe: { facts: { probed: { value: { failure: "it cannot be attached", lost: [] } } } },
  redirects: setting("net/ipv4/conf/all/send_redirects", "1"),
  "reverse-path": setting("net/ipv4/conf/eth0/rp_filter", "1"),
  routes: { status: () => routes([], []) },
  tables: { status: refusedRules, facts: { ruleset: { value: { ...RULESET, tables: [] } } } },
  tunnel: examined({ links: { value: [link(9, "other", { vxlan: { ...VXLAN, hasOwnSocket: false } })] } }),
};

/** Returns the answer of a daemon with these problems. */
function telling(problems: readonly string[], changes: Partial<PolicydStatus> = {}) {
  const answer = seen(nodeFacts().daemon);
  assert.ok(answer !== undefined && "status" in answer);
  return { value: { status: { ...answer.status, problems, problemCount: problems.length, ...changes } } };
}

const OTHERS_ADDRESS = parseCidr("10.244.1.77/24");

/** Further errors of codes that have several. */
const FURTHER: readonly (Scenario & { readonly code: ProblemCode; readonly which: string })[] = [
  {
    code: "cni-configuration",
    which: "another configuration comes first",
    status: () => installation(true, {}, ["conf/00-other.conflist"]),
    facts: { configurations: { value: ["00-other.conflist", "10-drawbridge.conflist"] } },
  },
  {
    code: "cni-plugin",
    which: "a chained plugin is not executable",
    status: () =>
      installation(true, { podCidrs: [parseCidr("10.244.1.0/24")], chain: [{ type: "tuning" }] }, ["bin/tuning"]),
    facts: { plugins: { value: [pluginFile("tuning", { isExecutable: false })] } },
  },
  {
    code: "cni-plugin",
    which: "a chained plugin is missing",
    status: () => installation(true, { podCidrs: [parseCidr("10.244.1.0/24")], chain: [{ type: "tuning" }] }),
    facts: { plugins: { value: [pluginFile("tuning", { isFile: false })] } },
  },
  { code: "clock", which: "the boot has no id", ...examined({ bootId: { value: "" } }) },
  {
    code: "kernel-features",
    which: "rules are refused",
    ...examined({ trials: { value: [{ operation: "add rule", needs: () => [], refusal: "invalid" }] } }),
  },
  {
    code: "pod-networks",
    which: "another link has an address of pods",
    status: () =>
      routes(["10.244.1.0/24"], ["192.0.2.2"], {
        addresses: [
          ...machine().addresses,
          ...machine()
            .addresses.slice(0, 1)
            .map((one) => ({ ...one, address: OTHERS_ADDRESS })),
        ],
      }),
    facts: { addresses: { value: [{ index: 2, address: OTHERS_ADDRESS }] } },
  },
  { code: "tunnel", which: "a socket has the port", ...examined({ udpPorts: new Set([4789]) }) },
];

describe("the problems that status, /readyz and node doctor tell", () => {
  for (const { code, status, facts, which } of [
    ...PROBLEM_CODES.map((one) => ({ code: one, ...SCENARIOS[one] })),
    ...FURTHER,
  ]) {
    const kind = which === undefined ? code : `${code}, that ${which},`;
    const asSevere = SEVERITIES.slice(0, SEVERITIES.indexOf(severityOf(code)) + 1);

    if (status !== undefined)
      it(`DOCTOR-18: a problem of the kind ${kind} is in the status, in the text of /readyz, and a finding of the doctor`, async () => {
        const problems = (await status()).filter((one) => codeOf(one) === code);
        const [line = assert.fail(`nothing about ${code}`)] = problems;
        const told = nodeFacts();
        const daemon = telling(problems);
        const withLines = withStatus(diagnose(told, CHECKS), nodeFacts({ daemon }), CHECKS);
        const found = withLines.findings.find(({ what }) => what.includes(line));
        assert.equal(found?.severity, severityOf(code));
        assert.equal(found.check, CHECKS.some(({ id }) => id === code) ? code : "daemon");
        const ready = conditionsAnswer("readyz", [], true, () => problems);
        assert.deepEqual([ready.status, ready.body.includes(`[!]${line}\n`)], [200, true], ready.body);
      });

    if (facts !== undefined)
      it(`DOCTOR-18: the doctor finds a problem of the kind ${kind} without the daemon, and with the daemon reports it only once`, async () => {
        const daemon = { value: { away: "none" } } as const;
        const alone = diagnose(nodeFacts({ daemon, ...facts }), CHECKS).findings;
        assert.ok(alone.some(({ check, severity }) => check === code && asSevere.includes(severity)));
        const lines = (await status?.()) ?? [];
        const both = nodeFacts({ ...facts, daemon: telling(lines) });
        const own = diagnose(both, CHECKS);
        if (status !== undefined) assert.deepEqual(withStatus(own, both, CHECKS).findings, own.findings);
      });
  }

  it("DOCTOR-18: each error in the sources of the doctor's checks comes about in one of these tests", () => {
    const all = [...PROBLEM_CODES.map((code) => ({ code, ...SCENARIOS[code] })), ...FURTHER, ...DOCTORS];
    const errors = all.flatMap(({ code, facts = {} }) =>
      diagnose(nodeFacts(facts), CHECKS).findings.filter(
        ({ check, severity }) => check === code && severity === "error",
      ),
    );
    const sites = errorsInSources();
    assert.ok(sites.length > 15, `${sites.length} errors`);
    for (const { at, ids, what } of sites)
      assert.ok(
        errors.some((error) => ids.includes(error.check) && what.test(error.what)),
        `${at}: ${what}`,
      );
  });

  for (const { code, why, facts } of DOCTORS)
    it(`DOCTOR-18: the doctor finds an error of the kind ${code} while the daemon answers, since ${why}`, () => {
      const { findings } = diagnose(nodeFacts(facts), CHECKS);
      assert.deepEqual([...new Set(findings.map(({ check, severity }) => `${check} ${severity}`))], [`${code} error`]);
    });

  it("DOCTOR-18: a warning that both the doctor and the daemon have is reported once", async () => {
    const facts: Partial<NodeFacts> = { hasPacketLog: false };
    const problems = (await examined(facts).status?.()) ?? [];
    assert.equal(problems.length, 1);
    const both = nodeFacts({ ...facts, daemon: telling(problems) });
    const { findings } = withStatus(diagnose(both, CHECKS), both, CHECKS);
    assert.deepEqual(
      findings.map(({ check, severity }) => `${check} ${severity}`),
      ["kernel-features warning"],
    );
  });

  it("D1: the doctor prints the address between nodes that the daemon has chosen, and why, in each format", async () => {
    const nodeAddress =
      "192.0.2.1 by eth0, the first InternalIP of Node a that other nodes can use: Node a: InternalIP …";
    const { status } = telling([], { nodeAddress }).value;
    const reply = parseReply(JSON.stringify(replyToJson({ type: "status", status })));
    assert.ok(reply.type === "status");
    const facts = nodeFacts({ daemon: { value: reply } });
    const diagnosis = withStatus(diagnose(facts, CHECKS), facts, CHECKS);
    const table = [...diagnosisTable(diagnosis, 200, styleOf({ hasColour: false }))].join("");
    for (const text of [table, JSON.stringify(diagnosisObject(diagnosis))]) assert.ok(text.includes(nodeAddress), text);
  });

  it("DOCTOR-18: lines about objects and notes are warnings of the check daemon, and problems beyond the status are counted", () => {
    const facts = nodeFacts({ daemon: telling(["Service shop/web: no", "node: often"], { problemCount: 5 }) });
    const { findings } = withStatus(diagnose(facts, CHECKS), facts, CHECKS);
    assert.deepEqual(
      findings.map(({ check, severity, what }) => `${check} ${severity} ${what}`),
      ["Service shop/web: no", "node: often"]
        .map((line) => `daemon warning policyd reports: ${line}`)
        .concat("daemon warning policyd has 3 more problems"),
    );
  });
});
