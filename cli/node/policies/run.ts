import * as v from "valibot";
import { ExitCode, type Io } from "../../io.ts";
import { configurationOf } from "../../input/configuration_file.ts";
import { configurationEntries } from "../../input/input_schema.ts";

const optionsSchema = v.object({ ...configurationEntries, socket: v.optional(v.string()) });

/** Prints the policies. @throws DrawbridgeError ERR_UNAVAILABLE where the daemon does not answer */
export async function runNodePolicies(io: Io, options: unknown): Promise<ExitCode> {
  const { config, socket } = v.parse(optionsSchema, options);
  const { socketPath } = configurationOf(io, config);
  const machine = await io.node.open(undefined);
  io.out.write(machine.readPolicies(socket ?? socketPath));
  return ExitCode.YES;
}
