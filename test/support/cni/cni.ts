import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { type BridgeConfiguration, bridgeConfiguration } from "../../../cni/configuration/configuration.ts";
import { decodeConfiguration } from "../../../cni/configuration/decoding.ts";
import type { Attachment, CniArguments } from "../../../cni/environment.ts";
import { toCniError } from "../../../cni/error.ts";
import { networkShape } from "../../../cni/configuration/network_input.ts";

/** Computes SHA-256 as the plugin is given it. */
export function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

export const noArguments: CniArguments = { mac: undefined, ip: undefined, pod: undefined };

/** Returns the parameters of an ADD. */
export function attachment(changes: Partial<Attachment> = {}): Attachment {
  return { containerId: "c1", ifname: "eth0", netns: "/run/netns/c1", arguments: noArguments, ...changes };
}

/** Returns a configuration that the plugin accepts: one range set of each family. */
export function networkInput(changes: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return {
    cniVersion: "1.1.0",
    name: "pods",
    type: "drawbridge",
    ipam: { type: "host-local", ranges: [[{ subnet: "10.244.1.0/24" }], [{ subnet: "fd00:244:1::/64" }]] },
    ...changes,
  };
}

/** Returns the configuration of {@link networkInput} with changed members of its `ipam`. */
export function ipamInput(changes: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { ipam } = networkInput();
  assert.ok(typeof ipam === "object");
  return networkInput({ ipam: { ...ipam, ...changes } });
}

/** Reads a configuration object as the plugin does. */
export function configurationOf(input: unknown, args: CniArguments = noArguments): BridgeConfiguration {
  return bridgeConfiguration(decodeConfiguration(JSON.stringify(input), networkShape), args);
}

/** An expected refusal: the error code of the CNI specification, and texts that its message and details contain. */
export interface Refusal {
  readonly code: number;
  readonly says: readonly string[];
}

/** Asserts that the action fails with this refusal, and that neither its text nor its details contain a stack trace. */
export function assertRefusal(action: () => unknown, { code, says }: Refusal): void {
  assert.throws(action, (error: unknown) => {
    const { code: actual, message, details = "" } = toCniError(error);
    const text = `${message}\n${details}`;
    assert.equal(actual, code, text);
    for (const part of says) assert.ok(text.includes(part), `${JSON.stringify(part)} is not in: ${text}`);
    assert.doesNotMatch(text, /^\s+at .*:\d+/m);
    return true;
  });
}
