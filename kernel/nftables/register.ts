import { DrawbridgeError } from "../error.ts";
import { Writer } from "../netlink/writer.ts";
import type { DataType, Scalar } from "./data_type.ts";
import { paddedSize } from "./data_type.ts";
import type { KeyField } from "./expression.ts";

/** NFT_REG_VERDICT, where a verdict goes. */
export const VERDICT_REGISTER = 0;
/** NFT_REG32_00: sixteen registers of four bytes follow. */
const FIRST_REGISTER = 8;
export const REGISTERS = 16;

/** The kernel's number of the register at a position: 16-byte registers where one begins, as nft numbers them. */
export function register(position: number): number {
  return position % 4 === 0 ? 1 + position / 4 : FIRST_REGISTER + position;
}

/** How many registers values of these types take. */
export function registersOf(types: readonly DataType[]): number {
  let count = 0;
  for (const type of types) count += paddedSize(type) / 4;
  return count;
}

/** Values as the kernel stores them: alone as they are, in a concatenation each filled up to a multiple of four. */
export function valueBytes(types: readonly DataType[], values: readonly Scalar[]): Uint8Array {
  const writer = new Writer(32);
  writeValue(writer, types, values);
  return writer.view();
}

/**
 * Appends {@link valueBytes}.
 *
 * @throws DrawbridgeError ERR_NFTABLES_VALUE when there are not as many values as types, or a range among them
 */
export function writeValue(writer: Writer, types: readonly DataType[], values: readonly KeyField[]): void {
  if (values.length !== types.length) {
    throw new DrawbridgeError(
      "ERR_NFTABLES_VALUE",
      `nftables value: ${values.length} fields; expected ${types.length}`,
    );
  }
  for (let i = 0; i < types.length; i++) {
    const value = values[i] ?? "";
    if (typeof value === "object") {
      throw new DrawbridgeError("ERR_NFTABLES_VALUE", "nftables value: a range; expected one in an interval set only");
    }
    types[i]?.encode(writer, value);
    if (types.length > 1) writer.align();
  }
}
