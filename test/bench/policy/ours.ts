import process from "node:process";
import { setImmediate as turn, setTimeout as wait } from "node:timers/promises";
import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import type { NftablesSocket } from "../../../kernel/nftables/socket.ts";
import type { Table } from "../../../kernel/nftables/model/object.ts";
import { realClock } from "../../../policyd/lib/clock.ts";
import type { DesiredElement } from "../../../policyd/ruleset/desired/desired_element.ts";
import { Ruleset } from "../../../policyd/ruleset/ruleset.ts";
import { withVersion } from "../../../policyd/ruleset/schema.ts";
import { recordingLogger } from "../../support/recording_logger.ts";
import { v8CollectionPace } from "../../../policyd/lib/collection_pace.ts";
import { DEFAULT_POLICY_OPTIONS } from "../../../policyd/policies/compile/options.ts";
import { policyTable } from "../../../policyd/policies/compile/policy_table.ts";
import { PolicyEnforcement } from "../../../policyd/policies/policy_enforcement.ts";
import { NO_RETAINED_FILES } from "../../../policyd/policies/retained/retained_files.ts";
import type { ObjectChange } from "../../../objects/model.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { ObservedSocket } from "../observed_socket.ts";
import { NODE } from "./cluster.ts";

/** The costs of a step, in milliseconds. */
export interface Taken {
  /** From the objects' arrival at the component until the kernel has acknowledged the last commit. */
  readonly whole: number;
  /**
   * The time within the kernel: sending the batches, each carried out before the call returns, and reading the answers.
   */
  readonly inKernel: number;
  /** User and system time of this thread. */
  readonly processor: number;
  /** The number of elements that were added or deleted. */
  readonly elements: number;
  readonly commits: number;
}

/** The place where it works: a namespace of a lab, or that of a process made for it. */
export type Place = Pick<LabNamespace, "inside"> & {
  readonly calls: Pick<LabNamespace["calls"], keyof ConstructorParameters<typeof NftablesSocket>[0]>;
};

/**
 * A sync period that never ends: no other program writes here, and a full read of the table would fall into a
 * measurement.
 */
const NEVER = 2 ** 30;
/** The time after a commit after which nothing more comes: the next slice would have been made. */
const QUIET_MILLISECONDS = 60;
const PATIENCE_MILLISECONDS = 30_000;

/** Drawbridge's policies on a node of its own: the compiler, the ruleset and the socket of the daemon. */
export class Ours implements Disposable {
  readonly kernel: ObservedSocket;
  readonly ruleset: Ruleset;
  readonly #component: PolicyEnforcement;

  /** @param others the node's other tables; `claims` are their elements */
  constructor(place: Place, others: readonly Table[] = [], claims: readonly DesiredElement[] = []) {
    this.kernel = place.inside(() => new ObservedSocket(place.calls));
    this.ruleset = new Ruleset({
      kernel: this.kernel,
      clock: realClock,
      logger: recordingLogger(),
      tables: [withVersion(policyTable(DEFAULT_POLICY_OPTIONS)), ...others],
      minSyncPeriod: 0,
      syncPeriod: NEVER,
    });
    this.ruleset.claim("others", claims);
    this.#component = new PolicyEnforcement({
      nodeName: NODE,
      ruleset: this.ruleset,
      options: DEFAULT_POLICY_OPTIONS,
      clock: realClock,
      retained: NO_RETAINED_FILES,
      collectionPace: v8CollectionPace(),
    });
  }

  /** Builds everything, as after a start of the daemon. Call it once. */
  async load(changes: readonly ObjectChange[], attachments: readonly AttachmentRecord[]): Promise<Taken> {
    return await this.#taken(async () => {
      for (const attachment of attachments) this.#component.attached(attachment, "unknown");
      this.#component.apply(changes);
      this.#component.synced();
      await this.#component.prepared();
      this.ruleset.start();
      await this.#quiet();
      await Promise.all(attachments.map((attachment) => this.#component.inForce(attachment)));
    });
  }

  /** Puts a great many changes in force, in the daemon's slices. */
  async change(changes: readonly ObjectChange[]): Promise<Taken> {
    return await this.#taken(async () => {
      this.#component.apply(changes);
      await this.#quiet();
    });
  }

  /** Puts changes in force that make one commit. */
  async changeOnce(changes: readonly ObjectChange[]): Promise<Taken> {
    return await this.#taken(async () => {
      this.#component.apply(changes);
      const deadline = performance.now() + PATIENCE_MILLISECONDS;
      while (this.kernel.commits === 0) {
        if (performance.now() > deadline) throw this.#failure("the changes made no commit");
        await turn();
      }
    });
  }

  [Symbol.dispose](): void {
    void this.#component.stop();
    this.ruleset.stop();
    this.kernel.close();
  }

  async #quiet(): Promise<void> {
    const deadline = performance.now() + PATIENCE_MILLISECONDS;
    // Long policies are compiled in many slices, and after the first there may be nothing to commit.
    await this.#component.prepared();
    const isUnderWay = (): boolean =>
      this.kernel.commits === 0 ||
      !this.ruleset.status().isReconciled ||
      performance.now() < this.kernel.lastCommit + QUIET_MILLISECONDS;
    while (isUnderWay()) {
      if (performance.now() > deadline) throw this.#failure("no end of commits");
      await wait(10);
    }
  }

  #failure(what: string): Error {
    const { lastError, pending } = this.ruleset.status();
    return new Error(`${what}: ${this.kernel.commits} commits, ${pending} pending, ${lastError ?? "no reason known"}`);
  }

  async #taken(action: () => Promise<void>): Promise<Taken> {
    this.kernel.reset();
    const before = process.threadCpuUsage();
    const start = performance.now();
    // The component's own timers do not keep a process alive.
    const alive = setInterval(() => {}, 1000);
    await action();
    clearInterval(alive);
    const { user, system } = process.threadCpuUsage(before);
    const { isReconciled } = this.ruleset.status();
    if (!isReconciled) throw this.#failure("the kernel did not accept the change");
    return {
      whole: this.kernel.lastCommit - start,
      inKernel: this.kernel.inKernel,
      processor: (user + system) / 1000,
      elements: this.kernel.changedElements,
      commits: this.kernel.commits,
    };
  }
}
