import { NodeJudge } from "../../../objects/nodes/node_judge.ts";
import { Startup } from "../../../policyd/startup.ts";
import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { FakeNftables } from "../nftables/fake/fake_nftables.ts";
import type { AttachmentFollower } from "../../../policyd/attachments/follower.ts";
import { LinkRemoval } from "../../../policyd/attachments/link_removal.ts";
import { AttachmentRegistry } from "../../../policyd/attachments/registry.ts";
import { FakeClock } from "../fake_clock.ts";
import { Daemon } from "../../../policyd/daemon.ts";
import { Ruleset } from "../../../policyd/ruleset/ruleset.ts";
import { RulesetWatch } from "../../../policyd/ruleset/ruleset_watch.ts";
import { withVersion } from "../../../policyd/ruleset/schema.ts";
import { recordingNotices } from "../recording_notices.ts";
import { recordingLogger } from "../recording_logger.ts";
import { LateFlowDeletion } from "../../../policyd/node/late_flow_deletion.ts";
import { AttachmentRules } from "../../../policyd/node/attachment_rules.ts";
import { nodeTables } from "../../../policyd/node/tables/tables.ts";
import { attachmentRecord } from "../cni/attachment_record.ts";
import { NODE_CONFIGURATION } from "../guard/guarded_node.ts";

/** A ruleset that reports that its rules are in force only when the test allows it. */
class HeldRuleset extends Ruleset {
  held: () => Promise<void> | undefined = () => undefined;

  override async inForce(): Promise<boolean> {
    const isInForce = await super.inForce();
    await this.held();
    return isInForce;
  }
}

/** A daemon on a kernel in memory, records of its work, and functions by which tests delay it. */
export interface HeldDaemon {
  readonly daemon: Daemon;
  readonly clock: FakeClock;
  readonly attachments: AttachmentRegistry;
  readonly logger: ReturnType<typeof recordingLogger>;
  /** The steps that were done for pods, in order. */
  readonly journal: string[];
  /** The reports to its follower about flows of pods that come and go. */
  readonly reportedFlows: string[];
  /** The work that began with the daemon and with its objects. */
  readonly begun: string[];
  /** The attachments of which nothing is left, those whose link is missing, and those whose link is a later one's. */
  readonly absent: Set<string>;
  readonly unlinked: Set<string>;
  readonly replaced: Set<string>;
  /** Delays the next caller that waits for something. @returns a function that lets the caller continue */
  readonly hold: (what: string) => () => void;
  /** Returns the pods whose ports are published: the comments of the elements that lead to IPv4 addresses. */
  readonly published: () => readonly string[];
  readonly commentsIn: (set: string) => readonly string[];
  /** Functions that let its follower continue. */
  readonly policies: { readonly prepared: () => void; readonly inForce: () => void };
}

/** @param records of pods that were attached before @param isFollowed whether there are policies */
export function heldDaemon(records: readonly AttachmentRecord[] = [], { isFollowed = false } = {}): HeldDaemon {
  const kernel = new FakeNftables();
  const clock = new FakeClock();
  const logger = recordingLogger();
  const tables = nodeTables(NODE_CONFIGURATION).map(withVersion);
  const options = { tables, obsolete: [], minSyncPeriod: 1000, syncPeriod: 30_000 };
  const ruleset = new HeldRuleset({ kernel, clock, logger, ...options });
  const attachments = new AttachmentRegistry();
  for (const record of records) attachments.add(record);
  const journal: string[] = [];
  const reportedFlows: string[] = [];
  const begun: string[] = [];
  const absent = new Set<string>();
  const unlinked = new Set<string>();
  const replaced = new Set<string>();
  const gates = new Map<string, Promise<void>>();
  const hold = (what: string): (() => void) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    gates.set(what, promise);
    return resolve;
  };
  const gateOf = (what: string): Promise<void> | undefined => {
    const gate = gates.get(what);
    gates.delete(what);
    return gate;
  };
  ruleset.held = () => gateOf("rules");
  const preparation = Promise.withResolvers<void>();
  const inForce = Promise.withResolvers<void>();
  const follower: AttachmentFollower = {
    prepared: () => preparation.promise,
    attached: ({ containerId }, flows) => {
      journal.push(`attached ${containerId}`);
      reportedFlows.push(`attached ${containerId}: ${flows}`);
    },
    inForce: async () => {
      await inForce.promise;
      await gateOf("policies");
    },
    detached: ({ containerId }, flows) => {
      journal.push(`detached ${containerId}`);
      reportedFlows.push(`detached ${containerId}: ${flows}`);
    },
  };
  const lateFlowDeletion = new LateFlowDeletion({
    clock,
    areRulesGone: () => ruleset.inForce(),
    forget: (addresses) => {
      reportedFlows.push(`forget ${addresses.map(formatAddress).join(", ")} once more`);
      return Promise.resolve();
    },
  });
  const component = new AttachmentRules({
    ruleset,
    links: new LinkRemoval({
      batch: (requests) => requests.map((request) => ({ request, error: undefined, messages: [] })),
      inBackground: (request) => {
        if (request.operation.startsWith("delete")) journal.push("link");
        return Promise.resolve({ request, error: undefined, messages: [] });
      },
    }),
    flows: {
      forgetOf: async ({ containerId }) => {
        journal.push(`forget of ${containerId}, ${published().length} published`);
        await gateOf(`flows at the ports of ${containerId}`);
      },
      forgetPod: async ({ containerId }) => {
        journal.push(`forget ${containerId}, ${published().length} published`);
        await gateOf(`flows of ${containerId}`);
        if (containerId === "silent") throw new DrawbridgeError("ERR_NETLINK", "no answer");
      },
    },
    lateFlowDeletion: isFollowed ? lateFlowDeletion : undefined,
    isPresent: ({ containerId }) => !absent.has(containerId),
    endBypass: ({ containerId }) => {
      journal.push(`end of bypass ${containerId}, ${commentsIn("podmac").join(" ")}`);
      if (containerId === "stubborn") throw new DrawbridgeError("ERR_NETLINK", "the kernel refuses");
    },
    hasLink: ({ containerId }) => !unlinked.has(containerId),
    isReplaced: ({ containerId }) => replaced.has(containerId),
    logger,
    attachments,
    furtherElements: () => [],
    follower: isFollowed ? follower : undefined,
  });
  const startup = new Startup({
    ruleset,
    watch: new RulesetWatch({ ruleset, clock, logger, portId: 1 }),
    startEvents: () => {
      begun.push("events");
      return {
        subscribe: () => Promise.reject(new DrawbridgeError("ERR_UNAVAILABLE", "none here")),
        stop: () => Promise.resolve(),
      };
    },
    onObjects: () => void begun.push("objects"),
    follower: isFollowed ? follower : undefined,
    onStart: () => component.started(),
  });
  const source = { start: () => {}, stop: () => {}, problems: () => [], find: () => undefined, count: () => 0 };
  const parts = {
    version: "1",
    nodeName: "n",
    source,
    attachments,
    components: [component, startup],
    logger,
    events: recordingNotices(),
    clock,
    judge: new NodeJudge({ nodeName: "n" }),
  };
  const published = (): readonly string[] => commentsIn("ports4");
  const commentsIn = (name: string): readonly string[] =>
    tables.flatMap((table) =>
      table.sets
        .filter((set) => set.name === name)
        .flatMap((set) => kernel.elements(table, set).map(({ comment }) => comment ?? "")),
    );
  const policies = { prepared: preparation.resolve, inForce: inForce.resolve };
  const daemon = new Daemon(parts);
  return {
    daemon,
    clock,
    attachments,
    journal,
    reportedFlows,
    begun,
    absent,
    unlinked,
    replaced,
    hold,
    logger,
    published,
    commentsIn,
    policies,
  };
}

/** Returns the attachment of a pod with an address, a port and networks of its own, by the first letter of its name. */
export function podRecord(containerId: string, changes: Partial<AttachmentRecord> = {}): AttachmentRecord {
  const [number = 0] = new TextEncoder().encode(containerId);
  return attachmentRecord({
    containerId,
    pod: { namespace: "n", name: containerId, uid: "u" },
    addresses: [parseCidr(`10.244.1.${number}/32`)],
    hostInterface: `dbv${containerId}`,
    portMappings: [{ hostPort: 53, containerPort: 53, protocol: "udp" }],
    policyd: { serviceCidrs: [parseCidr(`10.96.0.0/${number % 16}`)], nonMasqueradeCidrs: [] },
    ...changes,
  });
}
