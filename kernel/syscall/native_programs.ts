import { Errno } from "./errno.ts";
import type { NativeCalls } from "./native.ts";
import type { ProgramCalls } from "./program_calls.ts";

/** Returns the calls that start programs, in the plugin's executable. */
export function nativeProgramCalls(): ProgramCalls {
  const native: NativeCalls = globalThis.native;
  return {
    ...native,
    state(pid) {
      const status = native.wait(pid);
      if (status === -Errno.EAGAIN) return { kind: "running" };
      if (status < 0) return status;
      const signal = status & 0x7f;
      return signal === 0 ? { kind: "exited", code: (status >> 8) & 0xff } : { kind: "signalled", signal };
    },
  };
}
