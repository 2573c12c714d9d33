import type { PluginMachine } from "./host.ts";
import type { Holding } from "../ipam/store.ts";
import { listAttachmentNames, readAttachment } from "../attachment/attachment.ts";

/** Yields the addresses that pods of a network hold in a store, by their records of this boot. */
export function* recordedHoldings(
  node: PluginMachine,
  {
    name,
    runDir,
    ipam,
  }: { readonly name: string; readonly runDir: string; readonly ipam: { readonly dataDir: string } },
): Generator<Holding> {
  for (const owner of listAttachmentNames(runDir, name, node.files)) {
    const record = readAttachment(runDir, name, owner, node.files);
    if (record === undefined || record.bootId !== node.bootId() || record.dataDir !== ipam.dataDir) continue;
    yield { owner, addresses: record.addresses.map(({ address }) => address) };
  }
}
