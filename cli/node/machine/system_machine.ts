import type { NodeMachine } from "./machine.ts";
import { readFacts } from "./read_facts.ts";
import type { MachineCalls } from "../../../kernel/syscall/machine_calls.ts";
import { readInventory, readPods } from "./read_inventory.ts";
import { remove } from "./remove.ts";

/** The machine as the calling thread sees it: its namespace is the thread's at the moment of each call. */
export function systemMachine(syscalls: MachineCalls): NodeMachine {
  return {
    readFacts: (place, expected) => readFacts(syscalls, place, expected),
    readInventory: (place) => readInventory(syscalls, place),
    readPods: (place) => readPods(syscalls, place),
    remove: (removal) => remove(syscalls, removal),
  };
}
