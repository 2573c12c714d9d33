/**
 * An independent second reading of one rtnetlink message, which compares our bytes with iproute2's: it lists every
 * attribute by its path of numbers ("18.2.1"), without the order, the padding and the "nested" bit.
 */
export interface FlatMessage {
  readonly type: number;
  readonly flags: number;
  readonly header: string;
  readonly attributes: Readonly<Record<string, string>>;
}

/** Maps the path of each attribute that holds attributes to the number of bytes of a struct before them. */
export type NestedPaths = Readonly<Record<string, number>>;

/**
 * Reads one little-endian message.
 *
 * @param structSize bytes of the family's header after the 16 of nlmsghdr
 */
export function readMessage(message: Buffer, structSize: number, nested: NestedPaths): FlatMessage {
  const attributes: Record<string, string> = {};
  collect(message.subarray(16 + structSize, message.readUInt32LE(0)), "", nested, attributes);
  return {
    type: message.readUInt16LE(4),
    flags: message.readUInt16LE(6),
    header: message.toString("hex", 16, 16 + structSize),
    attributes,
  };
}

function collect(buffer: Buffer, prefix: string, nested: NestedPaths, into: Record<string, string>): void {
  for (let offset = 0; offset < buffer.length;) {
    const length = buffer.readUInt16LE(offset);
    const path = `${prefix}${buffer.readUInt16LE(offset + 2) % 0x4000}`;
    const payload = buffer.subarray(offset + 4, offset + length);
    const skipped = nested[path];
    if (skipped === undefined) into[path] = payload.toString("hex");
    else {
      if (skipped > 0) into[`${path}.struct`] = payload.toString("hex", 0, skipped);
      collect(payload.subarray(skipped), `${path}.`, nested, into);
    }
    offset += Math.max(4, Math.ceil(length / 4) * 4);
  }
}
