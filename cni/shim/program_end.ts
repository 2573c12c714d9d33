import { type Message, messages } from "./data.ts";
import { sizeOf } from "./image.ts";
import { address, jump, label, type Operation, set, system } from "./operation.ts";
import { STDOUT, writeAll } from "./program_part.ts";

const FAILED = 1;

/** Returns the part that ends the shim without a plugin or a server: each message is the label that leads to it. */
export function endings(pluginName: string): readonly Operation[] {
  const texts = messages(pluginName);
  const report = (message: Message): readonly Operation[] => [
    label(message),
    set("cursor", address(message)),
    set("left", sizeOf(texts[message])),
    jump("tell"),
  ];
  return [
    ...report("no plugin"),
    ...report("no memory"),
    ...report("died in the middle"),
    label("tell"),
    ...writeAll("write message", STDOUT, "fail"),
    label("fail"),
    system("exit_group", FAILED),
  ];
}
