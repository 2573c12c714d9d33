import { spawnSync } from "node:child_process";
import * as v from "valibot";

const MILLISECONDS = 5000;
const LONGEST_ANSWER = 64 * 1024;

const versionSchema = v.object({ cniVersion: v.string(), supportedVersions: v.array(v.string()) });

/**
 * Asks a plugin for its CNI versions, as a runtime does (CNI specification, VERSION). The doctor starts no other program
 * than a plugin, which runs as root for each pod of this node anyway.
 */
export function askVersion(path: string): { readonly answer: string } | { readonly failure: string } {
  const { status, signal, stdout, error } = spawnSync(path, {
    env: { CNI_COMMAND: "VERSION" },
    cwd: "/",
    input: '{"cniVersion":"1.0.0"}',
    encoding: "utf8",
    timeout: MILLISECONDS,
    maxBuffer: LONGEST_ANSWER,
  });
  // A plugin may answer and close its input before it has read it; for VERSION this does not matter.
  const isUnread = error !== undefined && "code" in error && error.code === "EPIPE";
  if (error !== undefined && !isUnread) return { failure: error.message };
  if (status !== 0) return { failure: `it ended with ${signal ?? `code ${status}`}` };
  try {
    return { answer: v.parse(versionSchema, JSON.parse(stdout)).supportedVersions.join(", ") };
  } catch {
    return { failure: `its answer is ${JSON.stringify(stdout.slice(0, 80))}` };
  }
}
