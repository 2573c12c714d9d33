import { spawnSync } from "node:child_process";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { parseSaveText } from "../../../kernel/iptables/save_text.ts";
import type { ForeignTable } from "../../../kernel/nftables/foreign/foreign_ruleset.ts";

const MILLISECONDS = 10_000;
/** A rule of kube-proxy has about 200 bytes: those of 10,000 Services add up to 20 MB. */
const LONGEST_ANSWER = 64 * 1024 * 1024;
/** The administrators' paths, which a user's PATH may lack. */
const ENVIRONMENT = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin" };

/**
 * Reads the rules of the module ip_tables, which only its own program can print. It changes nothing.
 *
 * @param families those for which the kernel has tables
 * @throws DrawbridgeError ERR_UNAVAILABLE where the program is missing or fails
 */
export function readLegacyRules(families: readonly ("ip" | "ip6")[]): readonly ForeignTable[] {
  return families.flatMap((family) => parseSaveText(printed(family === "ip" ? "iptables" : "ip6tables"), family));
}

/** Runs the legacy program: by the plain name where it has no other and is not of nftables. */
function printed(program: string): string {
  const own = run(`${program}-legacy-save`, []);
  if (own !== undefined) return own;
  const version = run(`${program}-save`, ["--version"]);
  const text = version === undefined || version.includes("nf_tables") ? undefined : run(`${program}-save`, []);
  if (text !== undefined) return text;
  throw new DrawbridgeError(
    "ERR_UNAVAILABLE",
    `${program}-legacy-save is not there: install it, or run the doctor where it is`,
  );
}

/** @returns undefined where the program does not exist */
function run(file: string, args: readonly string[]): string | undefined {
  const { status, signal, stdout, stderr, error } = spawnSync(file, args, {
    env: ENVIRONMENT,
    cwd: "/",
    stdio: ["ignore", "pipe", "pipe"],
    encoding: "utf8",
    timeout: MILLISECONDS,
    maxBuffer: LONGEST_ANSWER,
  });
  if (error !== undefined && "code" in error && error.code === "ENOENT") return undefined;
  if (error !== undefined) throw new DrawbridgeError("ERR_UNAVAILABLE", `${file}: ${error.message}`);
  if (status === 0) return stdout;
  throw new DrawbridgeError("ERR_UNAVAILABLE", `${file} ended with ${signal ?? `code ${status}`}: ${stderr.trim()}`);
}
