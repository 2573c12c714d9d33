import { writeAttachment } from "../../../attachment/attachment_writer.ts";
import { systemFileSystem } from "../../../ipam/file_system.ts";
import { readTextFile } from "../../../kernel/file.ts";
import type { Lab } from "../../lab/lab.ts";
import { attachmentOf, benchPods, type ClusterSize } from "./cluster.ts";

/** Writes the plugin's records of the node's pods, for a daemon that is about to start. */
export function recordLocalPods(directory: string, size: ClusterSize, lab: Lab): void {
  const bootId = (readTextFile(lab.calls, "/proc/sys/kernel/random/boot_id", 64) ?? "").trim();
  const files = systemFileSystem(lab.calls);
  for (const pod of benchPods(size).filter(({ isLocal }) => isLocal)) {
    writeAttachment(directory, { ...attachmentOf(pod), bootId }, files);
  }
}
