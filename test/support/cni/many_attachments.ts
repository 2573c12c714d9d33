import { linkSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { formatAddress, parseAddress } from "../../../kernel/ip/address.ts";

/** The directories of a network's records and reservations. */
export interface AttachmentPlaces {
  readonly records: string;
  readonly store: string;
}

/**
 * Writes records and reservations of attachments whose namespaces and links are not there, as copies of the only
 * attachment of a network.
 *
 * @returns their container ids
 */
export function writeAttachments({ records, store }: AttachmentPlaces, count: number): readonly string[] {
  const [name = ""] = readdirSync(records);
  const template = readFileSync(`${records}/${name}`, "utf8");
  const { addresses, hostInterface } = JSON.parse(template) as { addresses: string[]; hostInterface: string };
  return Array.from({ length: count }, (_, i) => {
    const containerId = `container-${i}`;
    const [v4, v6] = [`10.245.${i >> 8}.${i & 255}`, formatAddress(parseAddress(`fd00:245::1:${i.toString(16)}`))];
    writeFileSync(`${store}/${v4}`, `${containerId}\r\neth0`);
    linkSync(`${store}/${v4}`, `${store}/${v6}`);
    const record = template
      .replaceAll(name.slice(0, name.lastIndexOf(":")), containerId)
      .replace(JSON.stringify(addresses), JSON.stringify([`${v4}/32`, `${v6}/128`]))
      .replace(hostInterface, `dbv${i.toString(16).padStart(12, "0")}`)
      .replace(/"netns":\{[^}]*\}/, '"netns":{"path":"/run/netns/no-such-pod","inode":"1"}');
    writeFileSync(`${records}/${containerId}:eth0.json`, record);
    return containerId;
  });
}
