import { decodeConfiguration } from "../configuration/decoding.ts";
import type { DetachConfiguration } from "../configuration/detach_configuration.ts";
import type { DetachInput } from "../configuration/network_input.ts";
import type { Attachment } from "../environment.ts";
import type { PluginMachine } from "../host.ts";
import { lockPending, pendingPath, readPending } from "./delegation_file.ts";
import { type PluginInput, usableType } from "./ipam_choice.ts";
import type { IpamCall } from "./ipam_program.ts";

/** The external IPAM plugin that a DEL has to call. */
export interface AddressTaker {
  /** Lets it take the addresses back. @throws CniError the plugin's answer */
  take(): void;
  /** Releases the lock. */
  end(): void;
}

/**
 * Returns the IPAM plugin that may hold addresses for an attachment that is removed: that of the ADD, otherwise the
 * configured one.
 *
 * Waits until the plugin of a killed ADD has ended.
 *
 * @returns undefined if this process serves the addresses
 * @throws DrawbridgeError ERR_LOCK_TIMEOUT when that plugin still runs after ten seconds
 */
export function addressTaker(
  node: PluginMachine,
  call: PluginInput,
  input: DetachInput,
  { runDir, name }: Pick<DetachConfiguration, "runDir" | "name">,
  attachment: Attachment,
): AddressTaker | undefined {
  const path = pendingPath(runDir, name, attachment);
  const ipam = ipamOfDetach(node, call, input, path);
  if (ipam === undefined) return undefined;
  const lock = lockPending(node, path);
  return {
    take() {
      node.rare().runIpam(node, ipam, "DEL", lock?.fd);
      node.files.unlink(path);
    },
    end: () => lock?.release(),
  };
}

/**
 * Returns the IPAM plugin's call with the given configuration, or with that of the attachment's ADD where the ADD used
 * another plugin or no DEL gave the configuration: what an ADD or a GC gives says nothing of this attachment.
 */
function ipamOfDetach(node: PluginMachine, call: PluginInput, input: DetachInput, path: string): IpamCall | undefined {
  const { environment, stdin } = call;
  const configured = usableType(input.ipam?.type, call.self);
  const earlier = readPending(node, path);
  const added = earlier === undefined ? undefined : typeIn(earlier, call.self);
  const isItsOwn = environment["CNI_COMMAND"] === "DEL";
  if (earlier !== undefined && added !== undefined && (added !== configured || !isItsOwn))
    return { type: added, environment, stdin: earlier };
  return configured === undefined ? undefined : { type: configured, environment, stdin };
}

function typeIn(stdin: string, self: string): string | undefined {
  try {
    return usableType(decodeConfiguration(stdin, { ipam: { type: "any" } }).ipam?.type, self);
  } catch {
    // A call that was killed while it wrote the file has not executed any plugin.
    return undefined;
  }
}
