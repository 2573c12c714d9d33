import { isOfDaemon } from "../../attachment/our_tables.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { Change } from "../../kernel/nftables/encode/change.ts";
import type { Nftables } from "../../kernel/nftables/socket.ts";
import type { AttachmentFollower } from "../attachments/follower.ts";
import type { Logger } from "../log/logger.ts";
import { openingChanges } from "./closing/closing_tables.ts";
import { POLICY_TABLE } from "./compile/policy_table.ts";
import { OPENING_TABLE } from "./cuts/startup_rules.ts";

/**
 * Takes the place of policies if the configuration enforces none. Before anything else is written it removes the tables
 * of an earlier daemon, since pods would never become known to them any more.
 */
export function policiesOff(kernel: Pick<Nftables, "head" | "commit">, logger: Logger): AttachmentFollower {
  return {
    prepared: async () => {
      try {
        removeTables(kernel, logger);
      } catch (error) {
        if (!(error instanceof DrawbridgeError)) throw error;
        logger.error("policies of an earlier daemon stay in force; remove their table by hand", {
          table: POLICY_TABLE.name,
          error: error.message,
        });
      }
    },
    attached: () => {},
    inForce: async () => {},
    detached: () => {},
  };
}

function removeTables(kernel: Pick<Nftables, "head" | "commit">, logger: Logger): void {
  const isThere = isOfDaemon(kernel.head(POLICY_TABLE)?.comment);
  const isOpening = kernel.head(OPENING_TABLE) !== undefined;
  const tables = [...(isThere ? [POLICY_TABLE] : []), ...(isOpening ? [OPENING_TABLE] : [])];
  const changes = [...tables.map((table): Change => ({ kind: "delete table", table })), ...openingChanges(kernel)];
  if (changes.length === 0) return;
  kernel.commit(changes);
  logger.info("policies are not enforced any more: the table of an earlier daemon is removed");
}
