import { Command } from "commander";
import type { Run } from "../io.ts";
import { auditCommand } from "./audit/command.ts";
import { cleanupCommand } from "./cleanup/command.ts";
import { connectionsCommand } from "./connections/command.ts";
import { doctorCommand } from "./doctor/command.ts";
import { nodeFlowsCommand } from "./flows/command.ts";
import { nodePoliciesCommand } from "./policies/command.ts";

/** Returns the command `node`, whose commands are about the node on which they run. */
export function nodeCommand(run: Run): Command {
  return new Command("node")
    .description(
      "the node this runs on: what is wrong with it, what is left on it, its connections, flows and policies",
    )
    .addCommand(doctorCommand(run))
    .addCommand(auditCommand(run))
    .addCommand(cleanupCommand(run))
    .addCommand(connectionsCommand(run))
    .addCommand(nodeFlowsCommand(run))
    .addCommand(nodePoliciesCommand(run));
}
