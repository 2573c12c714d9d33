import process from "node:process";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { realClock } from "../../../policyd/lib/clock.ts";
import { Ruleset } from "../../../policyd/ruleset/ruleset.ts";
import { withVersion } from "../../../policyd/ruleset/schema.ts";
import { recordingLogger } from "../../support/recording_logger.ts";
import { nodeTables } from "../../../policyd/node/tables/tables.ts";
import { ServiceProxy } from "../../../policyd/services/service_proxy.ts";
import type { ObjectChange } from "../../../objects/model.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { rangeOf } from "../../../kernel/ip/ranges.ts";
import { podRangeElement } from "../../../policyd/node/tables/tunnel_guard.ts";
import { ObservedSocket } from "../observed_socket.ts";
import { POD_CIDR } from "./cluster.ts";

/** The costs of a step, in milliseconds. */
export interface Taken {
  /** From the objects' arrival at the component until the kernel has acknowledged the commit. */
  readonly whole: number;
  /** Within the kernel: sending the batch, which is carried out before the call returns, and reading the answer. */
  readonly inKernel: number;
  /** User and system time of this thread. */
  readonly processor: number;
  /** The number of elements that were added or deleted. */
  readonly elements: number;
}

/** The tables of a node, with the daemon's default configuration. */
const TABLES = nodeTables({
  bridge: "drawbridge0",
  markBits: { masquerade: 0x1000_0000, bridged: 0x2000_0000 },
  tableOwner: false,
  services: { masqueradeBit: 0x1000_0000, tcpReset: false, dropInvalid: true },
}).map(withVersion);

const NODE = "node1";
/**
 * A sync period that never ends: no other program writes here, and a full read of the table would fall into a
 * measurement.
 */
const NEVER = 2 ** 30;

/** Drawbridge on a node of its own: the compiler, the ruleset and the socket of the daemon, with its default tables. */
export class Ours implements Disposable {
  readonly namespace: LabNamespace;
  readonly kernel: ObservedSocket;
  readonly component: ServiceProxy;
  readonly #ruleset: Ruleset;

  constructor(namespace: LabNamespace) {
    this.namespace = namespace;
    this.kernel = namespace.inside(() => new ObservedSocket(namespace.calls));
    this.#ruleset = new Ruleset({
      kernel: this.kernel,
      clock: realClock,
      logger: recordingLogger(),
      tables: TABLES,
      minSyncPeriod: 0,
      syncPeriod: NEVER,
    });
    this.#ruleset.claim("pods", [podRangeElement(rangeOf(parseCidr(POD_CIDR)))]);
    this.component = new ServiceProxy({
      // All Services of the benchmark are in one namespace.
      bounds: { share: Number.POSITIVE_INFINITY, pool: 0 },
      nodeName: NODE,
      ruleset: this.#ruleset,
      clock: realClock,
      nodePortAddresses: [],
      refuseExternalIps: false,
    });
  }

  /** Compiles everything and writes the tables, as after a start of the daemon. Call it once. */
  load(changes: readonly ObjectChange[]): Taken {
    return this.#taken(() => {
      this.component.apply(changes);
      this.#ruleset.start();
    });
  }

  /** Compiles the changes and commits them. */
  change(changes: readonly ObjectChange[]): Taken {
    return this.#taken(() => {
      this.component.apply(changes);
      this.#ruleset.flush();
    });
  }

  [Symbol.dispose](): void {
    this.#ruleset.stop();
    this.kernel.close();
  }

  #taken(action: () => void): Taken {
    this.kernel.reset();
    const before = process.threadCpuUsage();
    const start = performance.now();
    action();
    const whole = performance.now() - start;
    const { user, system } = process.threadCpuUsage(before);
    const { isReconciled, lastError } = this.#ruleset.status();
    if (!isReconciled) throw new Error(`the kernel did not accept the batch: ${lastError ?? "no reason known"}`);
    return {
      whole,
      inKernel: this.kernel.inKernel,
      processor: (user + system) / 1000,
      elements: this.kernel.changedElements,
    };
  }
}
