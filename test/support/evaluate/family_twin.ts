const ADDRESS = /(?<![\d.])(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?:\/(\d+)|:(\d+))?(?![\d.])/g;

/** Beginnings of addresses with a special meaning, and their counterparts in IPv6. */
const SPECIAL: Readonly<Record<string, string>> = {
  "0.0.0.0": "::",
  "127.0.0.1": "::1",
  "127.0.0.0": "::1",
};

const PREFIX_LENGTHS: Readonly<Record<string, string>> = { 0: "0", 8: "32", 16: "48", 24: "64", 32: "128" };

/** Returns the value with every IPv4 address and prefix in its texts and keys replaced by one of IPv6. */
export function ipv6Twin(value: unknown): unknown {
  if (typeof value === "string") return twinText(value);
  if (Array.isArray(value)) return value.map(ipv6Twin);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [twinText(key), ipv6Twin(member)]));
}

function twinText(text: string): string {
  return text
    .replaceAll(ADDRESS, (_whole, ...[a, b, c, d, length, port]: readonly (string | undefined)[]) => {
      const address = SPECIAL[`${a}.${b}.${c}.${d}`] ?? `${beginning(a, b, c)}::${d === "0" ? "" : d}`;
      if (length !== undefined) return `${address}/${address === "::1" ? "128" : (PREFIX_LENGTHS[length] ?? length)}`;
      return port === undefined ? address : `[${address}]:${port}`;
    })
    .replaceAll("IPv4", "IPv6");
}

function beginning(a: string | undefined, b: string | undefined, c: string | undefined): string {
  if (a === "169") return "fe80";
  return a === "224" ? "ff02" : `fd00:${a}:${b}:${c}`.replace(/(:0)+$/, "");
}
