import { bunSyscalls } from "../../kernel/syscall/bun.ts";
import { wireAndDescribe } from "./backend_script.ts";

/** What the Bun backend does and sees, on stdout; arguments: the paths of the node's and the pod's namespace. */
const [nodePath = "", podPath = ""] = process.argv.slice(2);
console.log(wireAndDescribe(bunSyscalls(), nodePath, podPath));
