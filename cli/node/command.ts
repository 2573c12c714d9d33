import { Command, Option } from "commander";
import { withFlowOptions } from "../flows/options.ts";
import { addWords, withConfiguration } from "../input/options.ts";
import { actionOf, type Run } from "../io.ts";
import { DOCUMENT_FORMATS } from "../output/document.ts";
import { withPlace } from "./place.ts";

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
    .addCommand(flowsCommand(run))
    .addCommand(policiesCommand(run));
}

/** Returns the command `node doctor`, which reports what is wrong with this node. */
function doctorCommand(run: Run): Command {
  const command = withConfiguration(new Command("doctor"))
    .description("what is wrong with this node, and how to mend it; run it there, as root")
    .addOption(new Option("--only <checks>", "only these checks, such as forwarding,tables").argParser(addWords))
    .option("--list", "print the checks and look at nothing", false)
    .option("--probe", "attach two pods, send packets to and from them, and delete them; as root on the node", false)
    .addOption(new Option("-o, --output <format>", "how to print it").choices(DOCUMENT_FORMATS).default("table"))
    .addHelpText(
      "after",
      "\nWithout --probe it changes nothing.\n\nExamples:\n  drawbridge node doctor -o json\n  drawbridge node doctor --probe\n",
    );
  return withPlace(command).action(actionOf(run, async () => (await import("./doctor/run.ts")).runDoctor));
}

/** Returns the command `node audit`, which lists what ended sandboxes have left on the node, and removes it. */
function auditCommand(run: Run): Command {
  const command = withConfiguration(new Command("audit"))
    .description("list addresses, links, elements, records and host ports that belong to no pod of this node")
    .option("--repair", "release and remove what is listed, as far as its sandbox is known to have ended", false)
    .addOption(new Option("-o, --output <format>", "how to print it").choices(DOCUMENT_FORMATS).default("table"))
    .addHelpText(
      "after",
      "\nWithout --repair it changes nothing. Pods may come and go meanwhile.\n\nExamples:\n  drawbridge node audit\n  drawbridge node audit --repair -o json\n",
    );
  return withPlace(command).action(actionOf(run, async () => (await import("./audit/run.ts")).runAudit));
}

/** Returns the command `node cleanup`, which removes what Drawbridge has left on this node. */
function cleanupCommand(run: Run): Command {
  const command = withConfiguration(new Command("cleanup"))
    .description("remove what Drawbridge has left on this node; without --yes only say what")
    .option("--yes", "do it", false)
    .option("--pods", "with the pods' links and the bridge: pods that still run lose their network", false)
    .option("--wait", "with --yes: stay until the pods that Drawbridge attached are gone, then remove the rest", false)
    .option("--force", "also while policyd runs, which puts back what it can", false)
    .addOption(new Option("-o, --output <format>", "how to print it").choices(DOCUMENT_FORMATS).default("table"))
    .addHelpText(
      "after",
      "\nExamples:\n  drawbridge node cleanup\n  drawbridge node cleanup --pods --yes\n  drawbridge node cleanup --pods --yes --wait\n",
    );
  return withPlace(command).action(actionOf(run, async () => (await import("./cleanup/run.ts")).runCleanup));
}

/** Returns the command `node connections`, which prints this node's table of connections. */
function connectionsCommand(run: Run): Command {
  return new Command("connections")
    .description("print this node's table of connections, as conntrack -L -o extended does; run it there, as root")
    .option("--network-namespace <path>", "look at this network namespace instead of our own")
    .addHelpText(
      "after",
      "\nIt changes nothing. `policy dry-run --live` runs it on every node; `policy suggest --conntrack` reads what it prints.\n",
    )
    .action(actionOf(run, async () => (await import("./connections/run.ts")).runConnections));
}

/** Returns the command `node flows`, which prints this node's ledger of flows. */
function flowsCommand(run: Run): Command {
  const command = withFlowOptions(withConfiguration(new Command("flows")))
    .description("who has talked to whom, as this node's ledger of flows has it; run it there, as root")
    .option("--socket <path>", "policyd's socket (default: /run/drawbridge/policyd.sock)")
    .option("--flow-directory <path>", "where the ledger is (default: /var/lib/cni/drawbridge-flows)")
    .addHelpText(
      "after",
      "\nThe daemon keeps a ledger with flowLedger: true. `drawbridge flows` runs this on every node, and --ledger of\n" +
        "`policy dry-run` and `policy suggest` reads what it prints with -o jsonl.\n",
    );
  return command.action(actionOf(run, async () => (await import("./flows/run.ts")).runNodeFlows));
}

/** Returns the command `node policies`, which prints the policies in force on this node. */
function policiesCommand(run: Run): Command {
  return withConfiguration(new Command("policies"))
    .description("print a line of JSON for each policy: its generation in force on this node; run it there, as root")
    .option("--socket <path>", "policyd's socket (default: /run/drawbridge/policyd.sock)")
    .addHelpText("after", "\n`policy status` runs it on every node.\n")
    .action(actionOf(run, async () => (await import("./policies/run.ts")).runNodePolicies));
}
