import process from "node:process";
import { type BpfCall, bpfNumber, setAddresses } from "./bpf_calls.ts";
import { addressOf, openLibc, type Signature } from "./bun_ffi.ts";
import { Errno } from "./errno.ts";

const signatures = {
  syscall: { args: ["u64", "i32", "ptr", "u32"], returns: "i64" },
} as const satisfies Readonly<Record<string, Signature>>;

/**
 * Returns bpf(2) through Bun's FFI. It is not in `bun.ts`, where each symbol slows down every start of the plugin.
 *
 * @throws Error when libc cannot be opened, or this Bun is not the pinned version
 */
export function bunBpf(): BpfCall {
  const number = bpfNumber(process.arch);
  if (number === undefined) return () => -Errno.ENOSYS;
  const { calls: c, outcome } = openLibc(signatures);
  return (command, attributes, arrays) => {
    // The collector does not move an array whose address was taken, and all arrays are in use until the call is over.
    setAddresses(attributes, arrays, addressOf);
    return outcome(c.syscall(number, command, attributes, attributes.length));
  };
}
