import process from "node:process";
import { NodeJudge } from "../../../policyd/objects/nodes/node_judge.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { type Nftables, NftablesSocket } from "../../../kernel/nftables/socket.ts";
import { realClock } from "../../../policyd/lib/clock.ts";
import { Ruleset } from "../../../policyd/ruleset/ruleset.ts";
import { withVersion } from "../../../policyd/ruleset/schema.ts";
import { recordingLogger } from "../../../policyd/log/recording_logger.ts";
import { nodeTables } from "../../../policyd/node/tables/tables.ts";
import { ServiceProxy } from "../../../policyd/services/service_proxy.ts";
import type { ObjectChange } from "../../../policyd/objects/object_source.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
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

/** An observer of the batches that {@link Ours} commits. */
export interface Observer {
  beforeCommit(): void;
}

/** The tables of a node, with the daemon's default configuration. */
export const TABLES = nodeTables({
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
  readonly kernel: Nftables;
  readonly component: ServiceProxy;
  readonly #ruleset: Ruleset;
  #inKernel = 0;
  #elements = 0;

  constructor(namespace: LabNamespace, observer: Observer = { beforeCommit: () => {} }) {
    this.namespace = namespace;
    const socket = namespace.inside(() => new NftablesSocket(this.#timedCalls()));
    this.kernel = {
      commit: (changes) => {
        observer.beforeCommit();
        for (const change of changes) if ("elements" in change) this.#elements += change.elements.length;
        socket.commit(changes);
      },
      table: (reference) => socket.table(reference),
      head: (reference) => socket.head(reference),
      chains: (reference) => socket.chains(reference),
      sets: (reference) => socket.sets(reference),
      rulesOf: (reference, chain) => socket.rulesOf(reference, chain),
      elements: (reference, set) => socket.elements(reference, set),
      elementsInPieces: (reference, set) => socket.elementsInPieces(reference, set),
      generation: () => socket.generation(),
      close: () => socket.close(),
    };
    this.#ruleset = new Ruleset({
      kernel: this.kernel,
      clock: realClock,
      logger: recordingLogger(),
      tables: TABLES,
      minSyncPeriod: 0,
      syncPeriod: NEVER,
    });
    this.component = new ServiceProxy({
      nodeName: NODE,
      ruleset: this.#ruleset,
      clock: realClock,
      podCidrs: [parseCidr(POD_CIDR)],
      judge: new NodeJudge({ nodeName: NODE, ownCidrs: [parseCidr(POD_CIDR)] }),
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
    this.#inKernel = 0;
    this.#elements = 0;
    const before = process.threadCpuUsage();
    const start = performance.now();
    action();
    const whole = performance.now() - start;
    const { user, system } = process.threadCpuUsage(before);
    const { isReconciled, lastError } = this.#ruleset.status();
    if (!isReconciled) throw new Error(`the kernel did not accept the batch: ${lastError ?? "no reason known"}`);
    return { whole, inKernel: this.#inKernel, processor: (user + system) / 1000, elements: this.#elements };
  }

  #timedCalls(): LabNamespace["calls"] {
    const { calls } = this.namespace;
    const timed = (call: () => number): number => {
      const start = performance.now();
      const result = call();
      this.#inKernel += performance.now() - start;
      return result;
    };
    return {
      ...calls,
      send: (fd, data, flags) => timed(() => calls.send(fd, data, flags)),
      receiveFrom: (fd, buffer, flags, sender) => timed(() => calls.receiveFrom(fd, buffer, flags, sender)),
    };
  }
}
