import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { ClusterObject } from "../../objects/model.ts";
import { judge } from "../../objects/gate/gate.ts";
import { RESOURCES } from "../../policyd/sources/api/resources.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { selectorOf } from "./api.ts";
import type { Command, Envelope, Reply } from "./command.ts";
import type { RawObject } from "./storage.ts";

const PROGRAM = fileURLToPath(new URL("main.ts", import.meta.url));

/** Controls the API server of test/apiserver/main.ts from its parent process. */
export class ApiServerProcess {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, { resolve: (reply: Reply) => void; reject: (error: Error) => void }>();
  #ids = 0;

  /** Starts it in a namespace, or in this one; {@link stop} ends it. */
  constructor(namespace?: LabNamespace) {
    const start = (): ChildProcess => fork(PROGRAM, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
    this.#child = namespace === undefined ? start() : namespace.inside(start);
    this.#child.on("message", (reply: Reply) => {
      this.#waiting.get(reply.id)?.resolve(reply);
      this.#waiting.delete(reply.id);
    });
    this.#child.on("exit", () => {
      for (const { reject } of this.#waiting.values()) reject(new Error("the API server has ended"));
    });
  }

  /** Sends it a command and returns its reply. @throws Error when it ends before that */
  tell(command: Command): Promise<Reply> {
    const id = ++this.#ids;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#child.send({ id, command } satisfies Envelope);
    });
  }

  async apply(...objects: readonly RawObject[]): Promise<void> {
    await this.tell({ type: "apply", objects });
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await ended;
  }

  /** Returns all stored objects that a daemon requests, without using watches. */
  async objects(): Promise<readonly RawObject[]> {
    const lists = RESOURCES.map(async ({ path, labelSelector = "" }) => {
      const { objects = [] } = await this.tell({ type: "read", path });
      return objects.filter(selectorOf(labelSelector));
    });
    return (await Promise.all(lists)).flat();
  }

  /** Returns the model of {@link objects} after the gate. */
  async model(): Promise<ReadonlyMap<string, ClusterObject>> {
    const objects = new Map<string, ClusterObject>();
    for (const object of await this.objects()) {
      const verdict = judge(object);
      if (verdict.type !== "accepted") throw new Error(`not accepted: ${JSON.stringify(verdict)}`);
      objects.set(`${verdict.object.kind} ${verdict.object.key}`, verdict.object);
    }
    return objects;
  }
}
