import { bunSyscalls } from "../../kernel/syscall/bun.ts";
import { wireAndDescribe } from "./backend_script.ts";

/** Prints what the Bun backend does and sees. The arguments are the paths of the node's and the pod's namespace. */
const [nodePath = "", podPath = ""] = process.argv.slice(2);
console.log(wireAndDescribe(bunSyscalls(), nodePath, podPath));
