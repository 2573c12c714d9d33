import { DrawbridgeError } from "../../error.ts";
import { Writer } from "../../byte_writer.ts";
import { type DataType, paddedSize, type Scalar } from "../model/data_type.ts";
import type { KeyField } from "../model/expression.ts";

/** NFT_REG_VERDICT, the register for verdicts. */
export const VERDICT_REGISTER = 0;
/** NFT_REG32_00, the first of sixteen registers of four bytes. */
const FIRST_REGISTER = 8;

/** Returns the kernel's number of the register at a position: a 16-byte register where one begins, as in nft. */
export function register(position: number): number {
  return position % 4 === 0 ? 1 + position / 4 : FIRST_REGISTER + position;
}

/** Returns the number of registers that values of these types take. */
export function registersOf(types: readonly DataType[]): number {
  let count = 0;
  for (const type of types) count += paddedSize(type) / 4;
  return count;
}

/** Returns values as the kernel stores them: a single one as it is, concatenated ones padded to multiples of four. */
export function valueBytes(types: readonly DataType[], values: readonly Scalar[]): Uint8Array {
  const writer = new Writer(32);
  writeValue(writer, types, values);
  return writer.view();
}

/**
 * Appends {@link valueBytes}.
 *
 * @throws DrawbridgeError ERR_NFTABLES_VALUE when the numbers of values and types differ, or a value is a range
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
