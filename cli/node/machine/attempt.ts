import type { Seen } from "../../../policyd/problems/check.ts";
import { unseenFor } from "../../../policyd/checks/read_machine.ts";

/** Returns the result of a read that takes time, or why the machine does not permit it. A bug is thrown. */
export async function attemptLater<T>(see: () => Promise<T>): Promise<Seen<T>> {
  try {
    return { value: await see() };
  } catch (error) {
    return unseenFor(error);
  }
}
