import assert from "node:assert/strict";
import { Registry } from "prom-client";
import { addMetrics, type MetricSources } from "../../../../policyd/metrics/metrics.ts";
import { PolicySums } from "../../../../policyd/metrics/policy_sums.ts";

describe("policyd/metrics", () => {
  let commits = 3;
  const sources: MetricSources = {
    daemon: () => ({
      version: "1.2.3",
      nodeName: "n",
      uptimeSeconds: 1,
      isSynced: true,
      objects: { Service: 4, Pod: 5 },
      attachments: 6,
      problemCount: 7,
      problems: [],
    }),
    objectProblems: () => new Map([["Service", 2]]),
    staleness: () => new Map([["pods", 1.5]]),
    restored: () => new Map(),
    nodeRepairs: () => new Map([["address", 3]]),
    attachmentFailures: () => [{ network: "pods", cause: "addresses", seconds: 35 }],
    ruleset: () => ({
      isReconciled: false,
      elements: 100,
      pending: 9,
      pendingSince: undefined,
      commits,
      failures: 10,
      repairs: 11,
      replacements: 12,
      lastError: undefined,
    }),
    services: () => ({ ignoredEndpoints: 13, refused: 35, withoutLocal: { internal: 1, external: 0 } }),
    refusedHostPorts: () => 36,
    drops: () => new Map([["no endpoint on this node", 14]]),
    staleFlows: () => 15,
    flowLedger: () => ({ size: 16, rows: 1, connections: 2, overruns: 3 }),
    events: () => ({ created: 31, known: 32, suppressed: 33, dropped: 34 }),
    policies: {
      isWorkedOut: () => true,
      notices: { isInForce: true, states: () => ({ enforced: 16, restricted: 17, shadow: 18, off: 0 }) },
      counters: { sums: new PolicySums(), lastCommit: 19 },
      counts: {
        sets: () => ({ sets: 25, members: 26, elements: 40, closed: 41 }),
        dropLog: () => ({ explained: 20, repeated: 21, "too many": 22, "not ours": 23, overruns: 24 }),
        names: () => ({ known: 41, answers: 42, refused: 43, dropped: 44, overruns: 45 }),
        cuts: () => ({ cut: 25, restored: 26, settled: 27, reset: 28, failures: 30 }),
      },
    },
  };

  it("drawbridge_synced is 0 until the policies are worked out and the kernel has all rules", async () => {
    const printed = async (isReconciled: boolean, isWorkedOut: boolean): Promise<string> => {
      const registry = new Registry();
      const ruleset = { ...sources.ruleset(), isReconciled };
      addMetrics(registry, {
        ...sources,
        ruleset: () => ruleset,
        policies: { ...sources.policies, isWorkedOut: () => isWorkedOut },
      });
      return /^drawbridge_synced .*$/m.exec(await registry.metrics())?.[0] ?? "";
    };
    assert.equal(await printed(true, true), "drawbridge_synced 1");
    assert.equal(await printed(true, false), "drawbridge_synced 0");
    assert.equal(await printed(false, true), "drawbridge_synced 0");
  });

  it("every value is printed under its name, and read again for each page", async () => {
    const registry = new Registry();
    addMetrics(registry, sources);
    const lines = new Set((await registry.metrics()).split("\n"));
    const expected = [
      'drawbridge_build_info{version="1.2.3"} 1',
      'drawbridge_objects{kind="Service"} 4',
      'drawbridge_objects{kind="Pod"} 5',
      "drawbridge_objects_read 1",
      'drawbridge_object_problems_total{kind="Service"} 2',
      'drawbridge_kubernetes_events_total{outcome="created"} 31',
      'drawbridge_kubernetes_events_total{outcome="dropped"} 34',
      "drawbridge_problems 7",
      "drawbridge_attachments 6",
      'drawbridge_attachment_failure_seconds{network="pods",reason="addresses"} 35',
      "drawbridge_synced 0",
      "drawbridge_elements 100",
      "drawbridge_sync_pending_elements 9",
      "drawbridge_sync_commits_total 3",
      "drawbridge_sync_failures_total 10",
      "drawbridge_sync_repairs_total 11",
      "drawbridge_sync_table_replacements_total 12",
      "drawbridge_ignored_endpoints 13",
      'drawbridge_services_without_local_endpoints{traffic_policy="internal"} 1',
      'drawbridge_services_without_local_endpoints{traffic_policy="external"} 0',
      'drawbridge_dropped_packets_total{reason="no endpoint on this node"} 14',
      "drawbridge_stale_flows_deleted_total 15",
      "drawbridge_policies_in_force 1",
      'drawbridge_network_policies{state="enforced"} 16',
      'drawbridge_network_policies{state="restricted"} 17',
      'drawbridge_network_policies{state="shadow"} 18',
      "drawbridge_policy_profiles 0",
      "drawbridge_policy_sets 25",
      "drawbridge_policy_set_members 26",
      "drawbridge_policy_set_elements 40",
      "drawbridge_policy_closed_sets 41",
      "drawbridge_policy_last_commit_timestamp_seconds 19",
      'drawbridge_policy_would_drop_packets_total{direction="ingress"} 0',
      'drawbridge_policy_log_packets_total{result="too many"} 22',
      "drawbridge_policy_log_overruns_total 24",
      'drawbridge_policy_live_connections_total{result="cut"} 25',
      'drawbridge_policy_live_connections_total{result="restored"} 26',
      'drawbridge_policy_numbered_connections{state="settled"} 27',
      'drawbridge_policy_numbered_connections{state="reset"} 28',
      "drawbridge_policy_cut_failures_total 30",
      "drawbridge_policy_named_addresses 41",
      'drawbridge_policy_name_answers_total{result="used"} 42',
      'drawbridge_policy_name_answers_total{result="refused"} 43',
      'drawbridge_policy_name_answers_total{result="dropped"} 44',
      'drawbridge_policy_name_answers_total{result="overrun"} 45',
      "# TYPE drawbridge_sync_commits_total counter",
      "# TYPE drawbridge_synced gauge",
    ];
    assert.deepEqual(
      expected.filter((line) => !lines.has(line)),
      [],
    );
    commits = 4;
    assert.match(await registry.metrics(), /^drawbridge_sync_commits_total 4$/m);
  });
});
