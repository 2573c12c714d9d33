import { DAEMON_MARK } from "../../attachment/our_tables.ts";

/** Returns the comment that identifies a table as ours. @param version where its version is found */
export function ownComment(version: string): string {
  return `${DAEMON_MARK}${version}`;
}
