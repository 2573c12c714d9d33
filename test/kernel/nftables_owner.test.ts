import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import os from "node:os";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { NetlinkError } from "../../kernel/netlink/error.ts";
import type { Change } from "../../kernel/nftables/encode/change.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { skip } from "../support/privilege.ts";
import { suiteLab } from "../support/suite_lab.ts";
import { tableState } from "../support/nftables/table_state.ts";

const OWNER_MAIN = fileURLToPath(new URL("nftables_owner_main.ts", import.meta.url));
const owned = { family: "inet", name: "owned", isOwned: true } as const;
const PERSIST = 4;
const OWNER_AND_PERSIST = 6;

describe("kernel/nftables: a table with an owner", () => {
  let lab: Lab | undefined;
  let namespace: LabNamespace;
  let nft: NftablesSocket;
  const children: ChildProcess[] = [];

  before(function () {
    lab = suiteLab(this, "nftables-owner");
    namespace = lab.namespace("a");
    nft = namespace.inside(() => new NftablesSocket(namespace.calls));
    const [major = 0, minor = 0] = os.release().split(".").map(Number);
    if (major < 6 || (major === 6 && minor < 9))
      skip(this, "this kernel is older than 6.9: owned tables do not persist");
  });

  beforeEach(() => {
    nft.close();
    nft = namespace.inside(() => new NftablesSocket(namespace.calls));
    namespace.exec("nft", ["flush", "ruleset"]);
  });

  after(() => {
    for (const child of children) child.kill("SIGKILL");
    nft?.close();
  });

  /** Starts another process that owns the table. */
  async function otherOwner(): Promise<ChildProcess> {
    const child = namespace.inside(() => spawn(process.execPath, [OWNER_MAIN], { stdio: ["pipe", "pipe", "inherit"] }));
    children.push(child);
    await once(child.stdout ?? child, "data");
    return child;
  }

  function assertRefused(changes: readonly Change[], errnoName: string, text: RegExp): void {
    assert.throws(
      () => nft.commit(changes),
      (error) => error instanceof NetlinkError && error.errnoName === errnoName && text.test(error.message),
    );
  }

  it("is changed by no other process, and nft flush ruleset does not delete it", () => {
    nft.commit([
      { kind: "add table", table: owned },
      { kind: "add chain", table: owned, chain: { name: "c" } },
    ]);
    assert.equal(tableState(nft, owned)?.flags, OWNER_AND_PERSIST);
    namespace.exec("nft", ["flush", "ruleset"]);
    assert.equal(tableState(nft, owned)?.chains.has("c"), true);
    assert.throws(() => namespace.exec("nft", ["delete", "chain", "inet", "owned", "c"]), /Operation not permitted/);
    const stranger = namespace.inside(() => new NftablesSocket(namespace.calls));
    assert.throws(
      () => stranger.commit([{ kind: "flush chain", table: owned, chain: "c" }]),
      (error) =>
        error instanceof NetlinkError &&
        error.errnoName === "EPERM" &&
        /another process owns the table: stop it/.test(error.message),
    );
    stranger.close();
  });

  it("outlives its owner, and is adopted by the next process and by no other", async () => {
    const first = await otherOwner();
    assertRefused(
      [{ kind: "add table", table: owned }],
      "EPERM",
      /^add table inet owned: another process owns the table/,
    );
    const exited = once(first, "exit");
    first.kill("SIGKILL");
    await exited;
    const orphan = tableState(nft, owned);
    assert.equal(orphan?.owner, undefined);
    assert.equal(orphan?.flags, PERSIST);
    nft.commit([{ kind: "add table", table: owned }]);
    assert.notEqual(tableState(nft, owned)?.owner, undefined);
    nft.commit([{ kind: "add chain", table: owned, chain: { name: "mine" } }]);
    namespace.exec("nft", ["flush", "ruleset"]);
    assert.equal(tableState(nft, owned)?.chains.has("mine"), true);
  });

  it("cannot be made from a table without an owner, and the error says what to do", () => {
    const { isOwned: _, ...free } = owned;
    nft.commit([{ kind: "add table", table: free }]);
    assertRefused(
      [{ kind: "add table", table: owned }],
      "EOPNOTSUPP",
      /without an owner.*delete it \(nft delete table inet owned\), or do not ask for ownership/,
    );
  });
});
