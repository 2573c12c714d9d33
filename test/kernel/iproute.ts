import type { LabNamespace } from "../lab/namespace.ts";

/** One object of what `ip -j`, `bridge -j` or `tc -j` prints. */
export type Printed = Readonly<Record<string, unknown>>;

/** What iproute2 says is in a namespace: a reading of the kernel's state that shares no code with ours. */
export function iproute(namespace: LabNamespace, program: "ip" | "bridge" | "tc", command: string): readonly Printed[] {
  const text = namespace.exec(program, ["-j", "-d", ...command.split(" ")]).trim();
  const printed: unknown = text === "" ? [] : JSON.parse(text);
  if (!Array.isArray(printed)) throw new Error(`${program} ${command} printed no list: ${text}`);
  return printed.filter(isPrinted);
}

/** The one object `command` prints. */
export function iprouteOne(namespace: LabNamespace, program: "ip" | "bridge" | "tc", command: string): Printed {
  const printed = iproute(namespace, program, command);
  const [only] = printed;
  if (only === undefined || printed.length > 1)
    throw new Error(`${program} ${command} printed ${printed.length} objects; expected 1`);
  return only;
}

/** A member that is an object itself ("linkinfo"), as an empty one when it is not there. */
export function inner(printed: Printed, ...path: readonly string[]): Printed {
  return path.reduce<Printed>((object, name) => {
    const value = object[name];
    return isPrinted(value) ? value : {};
  }, printed);
}

/** Only the named members, to compare with what was asked for. */
export function pick(printed: Printed, ...names: readonly string[]): Printed {
  return Object.fromEntries(names.map((name) => [name, printed[name]]));
}

function isPrinted(value: unknown): value is Printed {
  return typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length > 0;
}
