import { readFileSync } from "node:fs";
import { CniErrorCode, toCniError } from "../../../cni/error.ts";
import { DrawbridgeError, type ErrorCode } from "../../../kernel/error.ts";

/** An error code of the plugin. */
export interface PluginError {
  readonly name: string;
  readonly code: number;
  /** The codes of our own errors that become this one; a runtime prints them after the message. */
  readonly details: readonly string[];
}

/** Returns all error codes of the plugin, by number. */
export function pluginErrors(): readonly PluginError[] {
  const details = Map.groupBy(ownCodes(), (code) => toCniError(new DrawbridgeError(code, "")).code);
  return Object.entries(CniErrorCode)
    .map(([name, code]) => ({ name, code, details: details.get(code) ?? [] }))
    .toSorted((a, b) => a.code - b.code);
}

function ownCodes(): readonly ErrorCode[] {
  const source = readFileSync("kernel/error.ts", "utf8");
  const codes = [...source.matchAll(/\| "(ERR_[A-Z_]+)"/g)].map(([, code = ""]) => code);
  return codes.filter((code): code is ErrorCode => code !== "").toSorted();
}
