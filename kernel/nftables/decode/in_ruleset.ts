import { NetlinkError } from "../../netlink/error.ts";
import type { NetlinkSocket } from "../../netlink/socket.ts";
import { chainLayout, Message, nftablesRequest, type ReadFamily, tableLayout } from "../encode/message.ts";

/** A table or one of its chains. */
export interface RulesetPlace {
  readonly family: ReadFamily;
  readonly name: string;
  readonly chain?: string;
}

/**
 * Tells whether a table or a chain exists, whoever made it. It takes one request, however many rules there are.
 *
 * @throws NetlinkError when the kernel refuses for any other reason
 */
export function isInRuleset(socket: Pick<NetlinkSocket, "request">, { family, name, chain }: RulesetPlace): boolean {
  const asked =
    chain === undefined
      ? nftablesRequest("get table", { message: Message.GET_TABLE, family, layout: tableLayout }, { name })
      : nftablesRequest(
          "get chain",
          { message: Message.GET_CHAIN, family, layout: chainLayout },
          { table: name, name: chain },
        );
  try {
    return socket.request(asked).length > 0;
  } catch (error) {
    if (error instanceof NetlinkError && error.errnoName === "ENOENT") return false;
    throw error;
  }
}
