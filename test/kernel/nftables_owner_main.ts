import process from "node:process";
import { nodeSyscalls } from "../../kernel/syscall/koffi.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";

/** Owns the table "owned" in its namespace until its standard input ends. */
const nft = new NftablesSocket(nodeSyscalls());
nft.commit([{ kind: "add table", table: { family: "inet", name: "owned", isOwned: true } }]);
process.stdout.write("ready\n");
process.stdin.resume();
