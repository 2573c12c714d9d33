import type { DetachConfiguration } from "./configuration/detach_configuration.ts";
import type { PluginMachine } from "./host.ts";
import type { Holding } from "../ipam/store.ts";
import { listAttachmentNames, readAttachment } from "../attachment/attachment_reader.ts";

// The parts that read and remove existing attachments: for DEL, and for other verbs where an attachment exists.
export { readAttachment, recordedNetworks } from "../attachment/attachment_reader.ts";
export { addressTaker } from "./delegation/address_taker.ts";
export { del } from "./del/del.ts";

/** Yields the addresses that pods of a network hold in a store, by their records of this boot. */
export function* recordedHoldings(
  node: PluginMachine,
  { name, runDir, ipam }: Pick<DetachConfiguration, "name" | "runDir" | "ipam">,
): Generator<Holding> {
  for (const owner of listAttachmentNames(runDir, name, node.files)) {
    const record = readAttachment(runDir, name, owner, node.files);
    if (record === undefined || record.bootId !== node.bootId() || record.dataDir !== ipam.dataDir) continue;
    yield { owner, addresses: record.addresses.map(({ address }) => address) };
  }
}
