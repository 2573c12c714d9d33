import {
  BRIDGE_TABLE,
  INET_TABLE,
  PLUGIN_BRIDGE_TABLE,
  PLUGIN_MARK,
  PLUGIN_TABLE,
  POLICY_TABLE,
  isOfDaemon,
} from "../../attachment/our_tables.ts";
import { CLOSING_BRIDGE_TABLE, CLOSING_TABLE } from "../policies/closing/closing_tables.ts";
import { EARLY_TABLE } from "../protection/early_table.ts";
import { OPENING_TABLE } from "../policies/cuts/startup_rules.ts";

/** The tables with names of Drawbridge. */
export const OUR_TABLES = [
  INET_TABLE,
  POLICY_TABLE,
  OPENING_TABLE,
  CLOSING_TABLE,
  CLOSING_BRIDGE_TABLE,
  EARLY_TABLE,
  BRIDGE_TABLE,
  PLUGIN_TABLE,
  PLUGIN_BRIDGE_TABLE,
] as const;

/** Returns whether Drawbridge made a table, by its name and the comment that each of ours has. */
export function isOurTable(table: {
  readonly family: string;
  readonly name: string;
  readonly comment: string | undefined;
}): boolean {
  if (!OUR_TABLES.some(({ family, name }) => family === table.family && name === table.name)) return false;
  return isOfDaemon(table.comment) || table.comment?.startsWith(PLUGIN_MARK) === true;
}

/** Returns whether a table has one of our names, whoever made it. */
export function isOurName(family: string, table: string): boolean {
  return OUR_TABLES.some((one) => one.family === family && one.name === table);
}
