import { DrawbridgeError } from "../../error.ts";
import { type Address, addressFromBytes, addressFromValue, addressToBytes, formatAddress } from "../../ip/address.ts";
import { littleEndian } from "../../byte_order.ts";
import type { Writer } from "../../byte_writer.ts";
import type { DataType, DataTypeName, Scalar } from "./data_type.ts";
import { isInterfaceNameText } from "./identifier.ts";

function refuse(type: string, value: Scalar, expectation: string): DrawbridgeError {
  return new DrawbridgeError(
    "ERR_NFTABLES_VALUE",
    `nftables ${type}: ${typeof value === "string" ? JSON.stringify(value) : String(value)}; expected ${expectation}`,
  );
}

/** @throws DrawbridgeError ERR_NETLINK_MALFORMED unless there are exactly the bytes of a value */
function exactly(type: string, bytes: Uint8Array, size: number): Uint8Array {
  if (bytes.length === size) return bytes;
  throw new DrawbridgeError("ERR_NETLINK_MALFORMED", `nftables ${type}: ${bytes.length} bytes; expected ${size}`);
}

/** Symbols by name. Numbers without a symbol stay numbers. */
type Symbols = Readonly<Record<string, number>>;

const noSymbols: ReadonlyMap<string, number> = new Map();

interface IntegerOptions {
  readonly symbols?: Symbols;
  readonly isBitmask?: boolean;
  /** Returns nft's text of a number without a symbol. */
  readonly text?: (value: number) => string;
}

type Write = (writer: Writer, value: number) => void;

const writeByte: Write = (writer, value) => writer.u8(value);

/** By size, each in host and in network order. */
const writers: Readonly<Record<1 | 2 | 4, readonly [Write, Write]>> = {
  1: [writeByte, writeByte],
  2: [(writer, value) => writer.u16(value), (writer, value) => writer.be16(value)],
  4: [(writer, value) => writer.u32(value), (writer, value) => writer.be32(value)],
};

/** Returns a type of numbers of one to four bytes, some with names. `id` is nft's number of the type. */
export function integer(
  name: DataTypeName,
  id: number,
  size: 1 | 2 | 4,
  byteOrder: 1 | 2,
  options: IntegerOptions = {},
): DataType {
  const symbols = new Map(Object.entries(options.symbols ?? {}));
  const names = new Map([...symbols].map(([symbol, value]) => [value, symbol]));
  const isBitmask = options.isBitmask === true;
  const limit = 2 ** (8 * size);
  const isBigEndian = byteOrder === 2 || !littleEndian;
  const write = writers[size][byteOrder === 1 ? 0 : 1];
  function valueOf(value: Scalar): number {
    const number = typeof value === "string" ? symbols.get(value) : value;
    if (typeof number === "number" && Number.isInteger(number) && number >= 0 && number < limit) {
      if (!isBitmask || names.has(number)) return number;
    }
    throw refuse(name, value, symbols.size > 0 ? [...symbols.keys()].join(", ") : `an integer below ${limit}`);
  }
  return {
    name,
    id,
    size,
    byteOrder,
    symbols,
    isBitmask,
    encode: (writer, value) => write(writer, valueOf(value)),
    decode: (bytes) => {
      exactly(name, bytes, size);
      let number = 0;
      for (let i = 0; i < size; i++) number = number * 256 + (bytes[isBigEndian ? i : size - 1 - i] ?? 0);
      return names.get(number) ?? number;
    },
    text: (value) => {
      const number = valueOf(value);
      return names.get(number) ?? options.text?.(number) ?? String(number);
    },
  };
}

/** Returns the type of addresses of one family. */
export function addressType(name: "ipv4_addr" | "ipv6_addr", id: number, size: 4 | 16): DataType {
  function valueOf(value: Scalar): Address {
    const fits = size === 4 ? Number.isInteger(value) : typeof value === "bigint";
    const address = fits ? addressFromValue(size === 4 ? 4 : 6, BigInt(value)) : undefined;
    if (address === undefined) throw refuse(name, value, size === 4 ? "an IPv4 address" : "an IPv6 address");
    return address;
  }
  return {
    name,
    id,
    size,
    byteOrder: 2,
    symbols: noSymbols,
    isBitmask: false,
    encode: (writer, value) => {
      // No bigint on this path, because these addresses come by the ten thousand.
      if (size === 4 && typeof value === "number" && value >>> 0 === value) return writer.be32(value);
      const address = valueOf(value);
      if (typeof address === "number") writer.be32(address);
      else writer.bytes(addressToBytes(address));
    },
    decode: (bytes) => addressFromBytes(exactly(name, bytes, size)),
    text: (value) => formatAddress(valueOf(value)),
  };
}

/** Sixteen bytes of a packet that nft has no name for, such as an IPv6 address. nft prints them in hexadecimal. */
export const sixteenBytes: DataType = {
  ...addressType("ipv6_addr", 4, 16),
  name: "sixteen_bytes",
  text: (value) => `0x${value.toString(16)}`,
};

/** Ethernet addresses, as six lower-case hexadecimal pairs. */
export const etherAddress: DataType = {
  name: "ether_addr",
  id: 9,
  size: 6,
  byteOrder: 2,
  symbols: noSymbols,
  isBitmask: false,
  encode: (writer, value) => {
    if (typeof value !== "string" || !/^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/.test(value)) {
      throw refuse("ether_addr", value, 'six lower-case hexadecimal pairs ("0a:58:0a:f4:01:07")');
    }
    for (let i = 0; i < 6; i++) writer.u8(Number.parseInt(value.slice(3 * i, 3 * i + 2), 16));
  },
  decode: (bytes) => [...exactly("ether_addr", bytes, 6)].map((byte) => byte.toString(16).padStart(2, "0")).join(":"),
  text: String,
};

const IFNAME_SIZE = 16;

/** Interface names. */
export const interfaceName: DataType = {
  name: "ifname",
  id: 41,
  size: IFNAME_SIZE,
  byteOrder: 1,
  symbols: noSymbols,
  isBitmask: false,
  encode: (writer, value) => {
    if (typeof value !== "string" || !isInterfaceNameText(value)) {
      throw refuse("ifname", value, "1 to 15 letters, digits, or any of . _ - : @");
    }
    writeInterfaceName(writer, value);
  },
  decode: (bytes) => {
    const end = exactly("ifname", bytes, IFNAME_SIZE).indexOf(0);
    return String.fromCharCode(...bytes.subarray(0, end < 0 ? bytes.length : end));
  },
  text: (value) => `"${String(value)}"`,
};

/** Interface names as any program may have written them, including names that {@link interfaceName} refuses. */
export const presentInterfaceName: DataType = {
  ...interfaceName,
  encode: (writer, value) => {
    const text = String(value);
    if (text.length > IFNAME_SIZE) throw refuse("ifname", value, `at most ${IFNAME_SIZE} bytes`);
    writeInterfaceName(writer, text);
  },
};

function writeInterfaceName(writer: Writer, name: string): void {
  for (let i = 0; i < IFNAME_SIZE; i++) writer.u8(i < name.length ? name.charCodeAt(i) : 0);
}

const CT_LABEL_BITS = 128;

/** A set of up to 128 bits, written as the number of one of them. */
export const connectionLabel: DataType = {
  name: "ct_label",
  id: 30,
  size: CT_LABEL_BITS / 8,
  byteOrder: 1,
  symbols: noSymbols,
  isBitmask: false,
  encode: (writer, value) => {
    if (typeof value !== "number" || !Number.isInteger(value) || value < 0 || value >= CT_LABEL_BITS) {
      throw refuse("ct_label", value, `a bit from 0 to ${CT_LABEL_BITS - 1}`);
    }
    // The kernel stores labels as longs, so a bit's position within its long follows the machine's byte order.
    const byte = littleEndian ? value >> 3 : (value & ~63) / 8 + (7 - ((value & 63) >> 3));
    for (let i = 0; i < CT_LABEL_BITS / 8; i++) writer.u8(i === byte ? 1 << (value & 7) : 0);
  },
  decode: (bytes) => {
    exactly("ct_label", bytes, CT_LABEL_BITS / 8);
    for (let bit = 0; bit < CT_LABEL_BITS; bit++) {
      const byte = littleEndian ? bit >> 3 : (bit & ~63) / 8 + (7 - ((bit & 63) >> 3));
      if (((bytes[byte] ?? 0) & (1 << (bit & 7))) !== 0) return bit;
    }
    return 0;
  },
  text: String,
};
