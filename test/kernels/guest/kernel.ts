import { readFileSync } from "node:fs";

/** Whether the guest's kernel was built without an option. */
export function lacks(option: string): boolean {
  return readFileSync("/proc/cmdline", "utf8").split(/\s/).includes(`drawbridge.without=${option}`);
}
