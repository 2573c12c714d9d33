import { type Command, Option } from "commander";
import * as v from "valibot";
import { endFilter, type FlowFilter, momentOf } from "./filter.ts";
import { FLOW_FORMATS } from "./print.ts";

/** Adds the options by which flows are chosen and printed. */
export function withFlowOptions(command: Command): Command {
  return command
    .option("--from <end>", "flows from these: shop, shop/web, own-node, node/n1, 203.0.113.0/24, api.example.com")
    .option("--to <end>", "flows to these, likewise")
    .option("--denied", "only what policies drop, or one in shadow would drop", false)
    .option("--since <time>", "only what exists, or was seen since: 90m, 24h or 7d ago, or a date of ISO 8601")
    .option("--follow", "print what happens from now on, until it is stopped", false)
    .addOption(new Option("-o, --output <format>", "how to print it").choices(FLOW_FORMATS).default("table"));
}

/** The entries of {@link withFlowOptions} in a schema of options. */
export const flowEntries = {
  from: v.optional(v.string()),
  to: v.optional(v.string()),
  denied: v.boolean(),
  since: v.optional(v.string()),
  follow: v.boolean(),
  output: v.picklist(FLOW_FORMATS),
};

export type FlowOptions = v.InferOutput<v.ObjectSchema<typeof flowEntries, undefined>>;

/** Returns the filter in options. @throws DrawbridgeError ERR_INPUT, ERR_ADDRESS for a malformed time or prefix */
export function filterOf({ from, to, denied, since }: FlowOptions, now: number): FlowFilter {
  return {
    from: from === undefined ? undefined : endFilter(from),
    to: to === undefined ? undefined : endFilter(to),
    isDenied: denied,
    since: since === undefined ? undefined : momentOf(since, now),
  };
}
