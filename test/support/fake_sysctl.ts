import type { Sysctl } from "../../kernel/sysctl.ts";

/** Returns settings in memory. A key that is not in the map is one that the kernel lacks. */
export function fakeSysctl(settings: Map<string, string>): Sysctl {
  return {
    read: (key) => settings.get(key),
    write: (key, value) => {
      if (!settings.has(key)) return false;
      settings.set(key, value);
      return true;
    },
  };
}
