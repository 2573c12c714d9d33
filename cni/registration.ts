import type { AttachmentRecord } from "../attachment/attachment.ts";
import { answerOf, askPolicyd, callPolicyd, type PolicydCall } from "../attachment/policyd_client.ts";
import type { AttachmentName, PolicydReply } from "../attachment/policyd_messages.ts";
import { DrawbridgeError } from "../kernel/error.ts";
import { realWaiting, type Waiting } from "../kernel/waiting.ts";
import type { PolicydAccess, RegistrationAccess } from "./configuration/policyd_access.ts";
import type { PluginMachine } from "./host.ts";

/** The milliseconds between two tries to connect: a restarting daemon is away for about half a second. */
const PAUSE = 20;

/** The directory of the records, and the clock. */
export interface RegistrationPlace {
  readonly runDir: string;
  readonly waiting?: Waiting;
}

/** A registration in progress. */
export interface Registration {
  /** Waits, once, until the pod's policies are in force. @throws DrawbridgeError when the daemon does not accept it */
  wait(): void;
}

/**
 * Registers a pod with the daemon, which works while the pod is wired. {@link Registration.wait} returns the outcome.
 *
 * While the daemon is away, or when it goes away during the call, registration is tried again until the time is over.
 * No pod is missed: the record of the attachment exists already, and a starting daemon reads the records. After that
 * time `onUnavailable` applies; it also applies when the daemon answers but cannot accept the pod yet.
 *
 * A host port that the daemon refuses is requested once more if its holder has ended without DEL.
 *
 * @throws DrawbridgeError ERR_UNAVAILABLE when the daemon is away, or with "closed" when the tables do not keep the pod
 *   closed
 */
export function register(
  node: PluginMachine,
  access: RegistrationAccess,
  attachment: AttachmentRecord,
  { runDir, waiting = realWaiting }: RegistrationPlace,
): Registration {
  const deadline = waiting.now() + access.wait;
  const left = (): number => deadline - waiting.now();
  const call = (): PolicydCall => {
    const request = { type: "register", attachment, wait: Math.max(1, Math.floor(left())) } as const;
    return callPolicyd(node.syscalls, access.socket, request, left(), waiting);
  };
  const isWorthAnotherTry = (error: unknown): boolean => isUnavailable(error) && left() > PAUSE;
  /** @returns undefined if the pod continues closed, without the daemon */
  function orClosed<T>(work: () => T): T | undefined {
    try {
      return work();
    } catch (error) {
      if (access.onUnavailable === "fail" || !isUnavailable(error)) throw error;
      node.nodeRules().demandClosed(node, attachment, error.message);
      return undefined;
    }
  }
  function connect(): PolicydCall {
    for (;;) {
      try {
        return call();
      } catch (error) {
        if (!isWorthAnotherTry(error)) throw error;
      }
      waiting.pause(PAUSE);
    }
  }
  function receive(connected: PolicydCall): PolicydReply {
    for (let running: PolicydCall | undefined = connected; ; running = undefined) {
      try {
        running ??= call();
        return running.wait();
      } catch (error) {
        if (!isWorthAnotherTry(error)) throw error;
      }
      waiting.pause(PAUSE);
    }
  }
  function beTaken(connected: PolicydCall): void {
    const reply = receive(connected);
    try {
      answerOf(reply);
    } catch (error) {
      if (!isPortTaken(error) || !freeHostPorts(node, access, runDir, attachment)) throw error;
      answerOf(receive(call()));
    }
  }
  const first = orClosed(connect);
  return {
    wait: () => {
      if (first !== undefined) orClosed(() => beTaken(first));
    },
  };
}

/**
 * Makes the daemon forget pods that hold host ports of this one and have ended without DEL. The plugin sees their
 * namespaces, and the daemon in its container does not. Pods that were attached without a daemon have their ports in
 * the plugin's own tables.
 *
 * @returns whether there were any
 */
function freeHostPorts(
  node: PluginMachine,
  access: PolicydAccess,
  runDir: string,
  attachment: AttachmentRecord,
): boolean {
  const rules = node.nodeRules();
  const holders = rules.givingWay(node, runDir, attachment);
  for (const holder of holders) {
    const { network, containerId, ifname } = holder;
    unregister(node, access, { network, containerId, ifname });
    if (holder.policyd === undefined) {
      const addresses = holder.addresses.map(({ address }) => address);
      rules.withdraw(node, runDir, holder.hostInterface, { ...holder, addresses });
    }
    rules.noteEnded(node, runDir, holder);
  }
  return holders.length > 0;
}

function isPortTaken(error: unknown): boolean {
  return error instanceof DrawbridgeError && error.code === "ERR_HOST_PORT_TAKEN";
}

function isUnavailable(error: unknown): error is DrawbridgeError {
  return error instanceof DrawbridgeError && (error.code === "ERR_UNAVAILABLE" || error.code === "ERR_POD_UNKNOWN");
}

/**
 * The daemon's progress with a pod that is removed. "undone": it did nothing. "forgotten": it has forgotten the pod.
 * "detached": it knew the pod, and the link and the bridge's neighbours are gone, too.
 */
export type Unregistration = "undone" | "forgotten" | "detached";

/**
 * Asks the daemon to remove the pod's link, together with those of other pods that are removed now, and to forget the
 * pod. If the daemon is away or dies meanwhile, the plugin itself removes the rest.
 */
export function unregister(node: PluginMachine, access: PolicydAccess, attachment: AttachmentName): Unregistration {
  try {
    const answer = askPolicyd(node.syscalls, access.socket, { type: "unregister", attachment }, access.wait);
    return answer.type === "done" && answer.isDetached === true ? "detached" : "forgotten";
  } catch (error) {
    if (!(error instanceof DrawbridgeError)) throw error;
    return "undone";
  }
}
