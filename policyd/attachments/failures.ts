import {
  type Failure,
  FAILURE_MEMORY,
  type FailureCause,
  type FailureReader,
  readFailure,
  uptime,
} from "../../cni/status/failure_record.ts";
import type { StoreFileSystem } from "../../ipam/file_system.ts";
import type { Machine } from "../machine.ts";
import { attempt } from "../../kernel/error.ts";
import { problemLine } from "../problems/problem.ts";
import type { Cancel } from "../lib/clock.ts";
import type { Lifecycle } from "../component.ts";
import { nodeNamed } from "../events/notice.ts";

/** Milliseconds between two reads of two directories that are nearly always missing or empty. */
const PERIOD = 5000;
/** The largest number of networks reported: a node has one or two, and each is a line of the metrics. */
const MOST_NETWORKS = 64;
const SUFFIX = ".json";

/** The most urgent first: where ADDs fail for a reason of the node, a full range does not matter. */
const KINDS = ["attach", "full"] as const;

const WAY_OUT: Readonly<Record<FailureCause, string>> = {
  addresses:
    "its range has no free address: move pods to other nodes, give this node a larger range, or run drawbridge node audit --repair, which frees what ended pods have left",
  ports: "its bridge has no free port: move pods to other nodes, or give the kubelet a smaller maxPods",
  daemon: "policyd did not answer in time, as during an update of it: where this lasts, look into its log",
  other: "correct what the reason names",
};

/** The seconds for which pods of a network cannot be attached, by cause. */
export interface FailureSeconds {
  readonly network: string;
  readonly cause: FailureCause;
  readonly seconds: number;
}

/** A failure that the plugin has noted, and how many seconds ago it began. */
export interface RecordedFailure extends FailureSeconds, Pick<Failure, "reason"> {}

/** Returns the plugin's notes about ADDs that fail now, at most one for each network. */
export type RecordedFailures = () => readonly RecordedFailure[];

/**
 * Returns a function that reads the failures noted by the plugin in its run directory (cni/status/). Files that are
 * torn, too large, not regular or of another boot do not count, nor do failures that have not recurred for 5 minutes.
 */
export function recordedFailures(
  node: FailureReader & { readonly files: Pick<StoreFileSystem, "readSmallFile" | "readDirectory"> },
  runDir: string,
): RecordedFailures {
  const namesOf = (kind: (typeof KINDS)[number]): readonly string[] =>
    attempt<readonly string[]>(
      () => node.files.readDirectory(`${runDir}/failures/${kind}`),
      () => [],
    );
  return () => {
    const found = new Map<string, RecordedFailure>();
    for (const kind of KINDS) {
      const files = namesOf(kind).filter((name) => name.endsWith(SUFFIX) && !name.startsWith("."));
      for (const file of files.slice(0, MOST_NETWORKS)) {
        const network = file.slice(0, -SUFFIX.length);
        if (found.has(network) || found.size >= MOST_NETWORKS) continue;
        const failure = readFailure(node, runDir, network, kind);
        const now = uptime(node);
        if (failure === undefined || now === undefined || now - failure.last > FAILURE_MEMORY) continue;
        const { since, reason, cause } = failure;
        found.set(network, { network, cause, reason, seconds: now - since });
      }
    }
    return [...found.values()];
  };
}

export interface AttachmentFailuresParts extends Pick<Machine, "clock" | "logger" | "events" | "nodeName"> {
  readonly recorded: RecordedFailures;
}

/**
 * Reports that pods cannot be attached on this node: once as an Event and in the log when that begins, and in the
 * status and the metrics as long as it lasts (STATUS-05). The next daemon reports ADDs that failed while none ran
 * (STATUS-05).
 *
 * The plugin notes failures in files, since the daemon may be the one that does not answer.
 */
export class AttachmentFailures implements Lifecycle {
  readonly #parts: AttachmentFailuresParts;
  #current: ReadonlyMap<string, RecordedFailure> = new Map();
  /** The causes reported since a network began to fail: ADDs that fail alternately for two causes make two Events. */
  readonly #reported = new Map<string, Set<FailureCause>>();
  /** The causes seen so far, by network: their lines stay in the metrics, with 0. */
  readonly #seen = new Map<string, Set<FailureCause>>();
  #cancel: Cancel = () => {};

  constructor(parts: AttachmentFailuresParts) {
    this.#parts = parts;
  }

  begin(): void {
    this.#look();
  }

  problems(): readonly string[] {
    return [...this.#current.values()].map((failure) =>
      problemLine(failure.cause === "addresses" ? "addresses" : "attachments", textOf(failure)),
    );
  }

  async stop(): Promise<void> {
    this.#cancel();
  }

  /** Returns for how long pods cannot be attached, by network and cause; 0 seconds for what is over. */
  seconds(): readonly FailureSeconds[] {
    return [...this.#seen].flatMap(([network, causes]) =>
      [...causes].map((cause) => {
        const current = this.#current.get(network);
        return { network, cause, seconds: current?.cause === cause ? current.seconds : 0 };
      }),
    );
  }

  #look(): void {
    const { recorded, clock, logger, events, nodeName } = this.#parts;
    this.#current = new Map(recorded().map((failure) => [failure.network, failure]));
    for (const failure of this.#current.values()) {
      addTo(this.#seen, failure);
      if (!addTo(this.#reported, failure)) continue;
      const note = textOf(failure);
      logger.warn("pods cannot be attached", { reason: note });
      events.tell({ regarding: nodeNamed(nodeName), reason: "AttachmentsFail", note });
    }
    for (const network of this.#reported.keys()) {
      if (this.#current.has(network)) continue;
      this.#reported.delete(network);
      logger.info("pods can be attached again, or none is waiting", { network });
    }
    this.#cancel = clock.after(PERIOD, () => this.#look());
  }
}

/** Adds a cause to those of its network. @returns whether it is new; false for networks beyond the bound */
function addTo(causes: Map<string, Set<FailureCause>>, { network, cause }: RecordedFailure): boolean {
  const known = causes.get(network);
  if (known?.has(cause) === true || (known === undefined && causes.size >= MOST_NETWORKS)) return false;
  causes.set(network, new Set([...(known ?? []), cause]));
  return true;
}

function textOf({ network, cause, reason }: RecordedFailure): string {
  return `pods cannot be attached to network ${network}: ${WAY_OUT[cause]} (${reason})`;
}
