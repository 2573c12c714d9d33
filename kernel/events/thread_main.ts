import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import type { NetworkNamespace } from "../network_namespace.ts";
import { closeNamespace, currentNamespace, insideNamespace, openNamespace } from "../network_namespace.ts";
import { nodeSyscalls } from "../syscall/node.ts";
import { QueueBudget } from "./queue_budget.ts";
import { EventReader } from "./reader.ts";
import type { Command } from "./thread_message.ts";
import { isCommand, isThreadInput } from "./thread_message.ts";

const input: unknown = workerData;
const port = parentPort;
if (port === null || !isThreadInput(input)) throw new Error("the event thread is started by kernel/events/thread.ts");

const calls = nodeSyscalls();
let home: NetworkNamespace | undefined;
let target: NetworkNamespace | undefined;

/** The thread goes home after each action, so that nothing the runtime starts from it is elsewhere. */
function inside<T>(path: string, action: () => T): T {
  home ??= currentNamespace(calls);
  target ??= openNamespace(calls, path);
  return insideNamespace(calls, home, target, action);
}

const reader = new EventReader({
  calls,
  wakeFd: input.wakeFd,
  budget: new QueueBudget(input.queueBytes, input.memory),
  takeCommands: () => {
    const commands: Command[] = [];
    for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port)) {
      const message: unknown = next.message;
      if (isCommand(message)) commands.push(message);
    }
    return commands;
  },
  post: (report) => {
    const moved = report.kind === "datagrams" ? report.datagrams.map(({ buffer }) => buffer) : [];
    port.postMessage(
      report,
      moved.filter((buffer) => buffer instanceof ArrayBuffer),
    );
  },
  inside: (action) => (input.namespacePath === undefined ? action() : inside(input.namespacePath, action)),
});
try {
  reader.run();
} finally {
  // A descriptor outlives its thread, and that of a namespace keeps the namespace.
  for (const namespace of [home, target]) if (namespace !== undefined) closeNamespace(calls, namespace);
}
