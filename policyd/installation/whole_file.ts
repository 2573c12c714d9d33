import { randomBytes } from "node:crypto";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { HostFiles } from "./host_files.ts";

/** Matches temporary names, which no runtime takes for a plugin or a configuration. */
export const TEMPORARY = /^\.drawbridge\.[0-9a-f]{16}\.tmp$/;

/** Returns a new name that matches {@link TEMPORARY}. */
export function temporaryIn(directory: string): string {
  return `${directory}/.drawbridge.${randomBytes(8).toString("hex")}.tmp`;
}

/**
 * Writes a file under a temporary name and syncs it.
 *
 * @returns the name of the complete, synced file
 * @throws DrawbridgeError ERR_STORE; no file is left then
 */
export async function writeBeside(
  files: HostFiles,
  directory: string,
  data: Uint8Array,
  mode: number,
): Promise<string> {
  const name = temporaryIn(directory);
  try {
    await files.writeNew(name, data, mode);
  } catch (error) {
    await discard(files, name);
    throw error;
  }
  return name;
}

/** Renames a temporary file to its place, or removes it where that fails. @throws DrawbridgeError ERR_STORE */
export async function moveInto(files: HostFiles, name: string, place: string): Promise<void> {
  try {
    await files.rename(name, place);
  } catch (error) {
    await discard(files, name);
    throw error;
  }
}

/** Removes a file after a failure. Where nothing can be removed either, the first failure says more. */
async function discard(files: HostFiles, name: string): Promise<void> {
  try {
    await files.remove(name);
  } catch (error) {
    if (!(error instanceof DrawbridgeError)) throw error;
  }
}
