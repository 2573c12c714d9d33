import { encodeArm64 } from "./arm64.ts";
import { assemble, type Encode } from "./assemble.ts";
import { shimItems } from "./data.ts";
import { BASE_ADDRESS, CODE_OFFSET, SegmentFlag, addressOfSecondSegment, executableFile } from "./elf.ts";
import { addressesOf, fill, place } from "./image.ts";
import type { ShimParameters } from "./parameters.ts";
import { shimProgram } from "./program.ts";
import type { Machine } from "./system_call.ts";
import { encodeX64 } from "./x64.ts";

const encoders: Readonly<Record<Machine, Encode>> = { x64: encodeX64, arm64: encodeArm64 };

/**
 * Returns the file of a shim, which the kernel executes without a library.
 *
 * The first segment contains headers, code and constants; the second, which is writable, data and buffers.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION for parameters that no shim can have
 */
export function shimExecutable(parameters: ShimParameters): Uint8Array {
  const { machine } = parameters;
  const operations = shimProgram(parameters);
  const items = shimItems(parameters);
  const encode = encoders[machine];

  // First with arbitrary addresses, for the length, which does not depend on them.
  const codeLength = assemble(operations, encode, () => BASE_ADDRESS).length;
  const constants = place(items, "constants", BASE_ADDRESS + CODE_OFFSET + codeLength);
  const dataOffset = constants.end - BASE_ADDRESS;
  const dataAddress = addressOfSecondSegment(dataOffset);
  const data = place(items, "data", dataAddress);
  const buffers = place(items, "buffers", data.end);
  const addressOf = addressesOf(constants, data, buffers);

  const first = new Uint8Array(dataOffset);
  first.set(assemble(operations, encode, addressOf), CODE_OFFSET);
  const constantsContents = fill(items, "constants", addressOf);
  first.set(constantsContents, dataOffset - constantsContents.length);
  return executableFile(
    machine,
    {
      flags: SegmentFlag.READ | SegmentFlag.EXECUTE,
      offset: 0,
      address: BASE_ADDRESS,
      contents: first,
      memorySize: first.length,
    },
    {
      flags: SegmentFlag.READ | SegmentFlag.WRITE,
      offset: dataOffset,
      address: dataAddress,
      contents: fill(items, "data", addressOf),
      memorySize: buffers.end - dataAddress,
    },
  );
}
