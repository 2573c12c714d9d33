import { localAddresses } from "../../cni/node_rules/stale_flows.ts";
import { peekTuples } from "../../kernel/conntrack/flow_tuples.ts";
import { relabelFlows } from "../../kernel/conntrack/relabelling.ts";
import { walkMatches } from "../../kernel/conntrack/sliced_walk.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import { attempt } from "../../kernel/error.ts";
import type { Address } from "../../kernel/ip/address.ts";
import type { KernelNotifications } from "../../kernel/notifications/notifications.ts";
import type { AttachmentFollower } from "../attachments/follower.ts";
import type { Component } from "../component.ts";
import type { Machine } from "../machine.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { FlowLedger } from "../flows/flow_ledger.ts";
import { openFlowLedger } from "../flows/open.ts";
import { v8CollectionPace } from "../lib/collection_pace.ts";
import type { Logger } from "../log/logger.ts";
import { policyOptions, type PolicyOptions } from "./compile/options.ts";
import type { Ruleset } from "../ruleset/ruleset.ts";
import type { EnforcedMark } from "./closing/enforced_mark.ts";
import { POLICY_TABLE } from "./compile/policy_table.ts";
import { ConnectionLimit, kernelConnectionTable } from "./connection_limit/connection_limit.ts";
import { podsOf } from "./connection_limit/fair_share.ts";
import { Cuts, type CutsStatus } from "./cuts/cuts.ts";
import { kernelOpening } from "./cuts/startup_rules.ts";
import { DropLog, type DropLogCounts, type DropLogParts } from "./drop_log/drop_log.ts";
import { flowEvaluator, peerView } from "./live/flow_evaluator.ts";
import { MemberIndex } from "./live/index/member_index.ts";
import { type PolicyView, policyView } from "./live/policy_view.ts";
import type { SetTotals } from "./live/sets/member_sets.ts";
import { openAnswerQueue } from "./names/answer_queue.ts";
import { DnsServers } from "./names/dns_servers.ts";
import { type NameCounts, NameLearning } from "./names/name_learning.ts";
import { inPodNetworks, OwnNetworks } from "./own_networks.ts";
import { PolicyEnforcement } from "./policy_enforcement.ts";
import { PolicyNotices } from "./status/policy_notices.ts";

/** The parts of the daemon that {@link openPolicies} needs. */
export interface PoliciesMachine extends Machine {
  readonly mark: EnforcedMark;
}

/** Functions for the present numbers of the parts that follow policies. */
export interface PolicyCounts {
  readonly sets: () => SetTotals;
  readonly dropLog: () => DropLogCounts;
  readonly cuts: () => CutsStatus;
  readonly names: () => NameCounts;
}

/** Policies, and the parts of the daemon that depend on their verdicts. */
export interface OpenedPolicies {
  /** Enforce policies, in this order; empty where the configuration enforces none. */
  readonly components: readonly Component[];
  readonly follower: AttachmentFollower;
  readonly notices: PolicyNotices;
  /** Undefined where flows are not recorded. */
  readonly flowLedger: FlowLedger | undefined;
  /** Empty where no policies are enforced. */
  readonly view: Pick<PolicyView, "profile" | "peers">;
  /** Starts to record packets and flows. Their lines give reasons that only the objects contain. */
  readonly record: (events: KernelNotifications) => void;
  /** Whether the desired state covers all objects. */
  readonly isWorkedOut: () => boolean;
  /** Undefined where no policies are enforced. */
  readonly counts: PolicyCounts | undefined;
  readonly knownNames: NameLearning["knownByPolicy"];
}

/**
 * Opens policies as configured, in the network namespace of this thread; nothing is written yet.
 *
 * @throws SyscallError when the kernel refuses a socket
 */
export function openPolicies(configuration: Configuration, machine: PoliciesMachine): OpenedPolicies {
  const options = policyOptions(configuration);
  return options === undefined ? notEnforced(configuration, machine) : enforced(configuration, options, machine);
}

const NO_HOLDERS = { holderOf: () => undefined, domainNameOf: () => undefined };

/** Returns the parts that stay where no policies are enforced: they say so. */
function notEnforced(configuration: Configuration, machine: PoliciesMachine): OpenedPolicies {
  const { logger, events, ruleset } = machine;
  const notices = new PolicyNotices({ logger, events, isEnforced: false });
  ruleset.committed.subscribe(() => notices.rulesInForce());
  return {
    components: [],
    follower: { prepared: async () => {}, attached: () => {}, inForce: async () => {}, detached: () => {} },
    notices,
    flowLedger: openFlowLedger(configuration, NO_HOLDERS, machine),
    view: { profile: () => undefined, peers: peerView(new MemberIndex()) },
    record: () => {},
    isWorkedOut: () => true,
    counts: undefined,
    knownNames: () => new Map(),
  };
}

function enforced(configuration: Configuration, given: PolicyOptions, machine: PoliciesMachine): OpenedPolicies {
  const { nodeName, objectsDirectory, connectionLimit } = configuration;
  const { conntrack, clock, logger, attachments, events, judge, mark, ruleset } = machine;
  const queue = openAnswerQueue(machine.syscalls, given.answerLogGroup);
  const options = { ...given, hasAnswerQueue: typeof queue !== "string" };
  const policies = new PolicyEnforcement({
    nodeName,
    ruleset,
    clock,
    options,
    isEarlier: objectsDirectory === undefined ? (key) => attachments.isEarlier(key) : undefined,
    collectionPace: v8CollectionPace(),
  });
  const view = policyView(policies.live);
  const notices = new PolicyNotices({
    logger,
    events,
    isEnforced: true,
    restrictions: () => policies.live.profiles.restrictions(),
    progress: { clock, isInForce: () => ruleset.isReconciled && policies.isWorkedOut },
  });
  ruleset.committed.subscribe(() => notices.rulesInForce());
  markWhenInForce(mark, ruleset, logger);
  const isPodAddress = inPodNetworks(judge);
  const nodeAddresses = () => localAddresses(machine.syscalls);
  const names = new NameLearning({
    ...machine,
    eachFlow(asked, onFlow): Promise<void> {
      const see = ({ body }: ReceivedMessage): void => {
        const flow = peekTuples(body);
        if (flow !== undefined) onFlow(flow);
      };
      return conntrack.with((socket) => walkMatches(socket, asked, { see }, conntrack.calls));
    },
    group: options.answerLogGroup,
    queue,
    namedPods: () => view.namedPods(),
    clusterDomain: configuration.clusterDomain,
    isOfCluster: (address) => view.holderOf(address) !== undefined || isPodAddress(address),
  });
  // Before the cuts, which ask what pods know.
  policies.follow(names);
  const dnsServers = new DnsServers({
    ruleset,
    configured: [...options.nodeLocalDNS, ...configuration.dnsServers],
    areNeeded: () => view.namedPods().length > 0,
  });
  const cuts = new Cuts({
    ...machine,
    flows: { relabel: (asked, relabelling) => relabelFlows(conntrack, asked, relabelling), nodeAddresses },
    evaluatorOf: (own) => flowEvaluator(policies.live, options, own, (...asked) => names.knownNames(...asked)),
    isSettled: () => policies.isSettled,
    opening: kernelOpening({
      kernel: machine.kernel,
      commit: (changes) => ruleset.commitBeside(changes),
      policyTable: { ...POLICY_TABLE, sets: ruleset.tableNamed(POLICY_TABLE.family, POLICY_TABLE.name)?.sets ?? [] },
      bridge: options.bridge,
    }),
    policyReset: options.policyReset,
  });
  policies.follow(cuts);
  if (connectionLimit !== 0) {
    const table = kernelConnectionTable(conntrack);
    const pods = () => podsOf(attachments.values());
    policies.follow(
      new ConnectionLimit({ ...machine, limit: connectionLimit, pods, isPodAddress, nodeAddresses, table }),
    );
  }
  const ends = {
    holderOf: (address: Address) => view.holderOf(address),
    domainNameOf: (pod: Address, remote: Address) => names.nameOf(pod, remote),
  };
  const flowLedger = openFlowLedger(configuration, ends, machine);
  const dropLog = new DropLog({
    group: options.dropLogGroup,
    view,
    options,
    logger,
    clock,
    observer: flowLedger === undefined ? undefined : recorder(flowLedger),
  });
  policies.follow(dropLog);
  return {
    components: [policies, dnsServers, new OwnNetworks({ ruleset, nodeName, judge, attachments })],
    follower: policies,
    notices,
    flowLedger,
    view,
    record: (started) => {
      names.start(started);
      void dropLog.start(started);
      void flowLedger?.start(started);
    },
    isWorkedOut: () => policies.isWorkedOut,
    counts: {
      sets: () => policies.live.setTotals(),
      dropLog: () => dropLog.counts(),
      cuts: () => cuts.status(),
      names: () => names.counts(),
    },
    knownNames: (most) => names.knownByPolicy(most),
  };
}

const VERDICTS = { drop: "denied", "would drop": "would be denied" } as const;

/** Returns the observer of dropped packets that records their flows. */
function recorder(ledger: FlowLedger): DropLogParts["observer"] {
  return {
    denied: ({ source, destination, protocol, traffic, origin }, reason) => {
      const flow = { source, destination, protocol, port: traffic.port, verdict: VERDICTS[origin.outcome] };
      ledger.denied(flow, reason);
    },
  };
}

/** Sets the mark by which the next daemon knows that missing tables were lost. */
function markWhenInForce(mark: EnforcedMark, ruleset: Pick<Ruleset, "committed">, logger: Logger): void {
  ruleset.committed.subscribe(() => {
    if (mark.isOurs) return;
    attempt(
      () => mark.set(),
      (error) =>
        logger.warn("a daemon that finds no tables will not close pods at its start", { reason: error.message }),
    );
  });
}
