/**
 * Returns a listing or one of our texts in normal form: without counters' values, handles and remaining times, blanks
 * as one space, the elements of each list sorted. Any remaining difference is one of meaning or of nft's wording.
 */
export function normalListing(text: string): string {
  return text
    .replaceAll(/ packets \d+ bytes \d+/g, "")
    .replaceAll(/ expires [0-9a-z]+/g, "")
    .replaceAll(/# .*$/gm, "")
    .replaceAll(/\{([^{}]*)\}/g, (whole, inside: string) =>
      inside.includes("\n\t\t}") ? whole : `{${sorted(inside)}}`,
    )
    .replaceAll(/[ \t]+/g, " ")
    .replaceAll(/ ?\n+ ?/g, "\n")
    .trim();
}

function sorted(inside: string): string {
  if (/;|^\s*type /m.test(inside) || !/\S/.test(inside)) return inside;
  const isList = inside.includes(",") || !inside.includes("\n");
  if (!isList) return inside;
  const items = inside
    .split(",")
    .map((item) =>
      item
        .trim()
        .replaceAll(/\s+/g, " ")
        .replace(/ counter\b/, ""),
    )
    .filter((item) => item !== "");
  return ` ${items.sort().join(", ")} `;
}

/**
 * Returns a listing by nft without pods' shares of ports: a port that a share has once omitted for a host port stays
 * omitted (POD-25).
 */
export function withoutPortShares(listing: string): string {
  return listing.replaceAll(
    /^[ \t]*(?:map (?:pod_ports[46]|port_shares)|chain ports_\d+_\d+\w*) \{\n(?:.*\n)*?[ \t]*\}\n/gm,
    "",
  );
}

/** Returns a listing by nft without the sets and maps that packets fill. */
export function withoutDynamicSets(listing: string): string {
  return listing.replaceAll(/^\t(?:map|set) \S+ \{\n(?:\t\t.*\n)*\t\}\n/gm, (set) =>
    /^\t\tflags .*dynamic/m.test(set) ? "" : set,
  );
}
