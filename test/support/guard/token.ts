import { randomBytes } from "node:crypto";
import { type Token, TOKEN_SIZE } from "../../lab/probe/protocol.ts";

/** Returns a token that no other packet carries. */
export function newToken(): Token {
  return new Uint8Array(randomBytes(TOKEN_SIZE));
}

/** Whether a frame or datagram contains the token at any place. */
export function carries(data: Uint8Array, token: Token): boolean {
  return Buffer.from(data).includes(Buffer.from(token));
}
