import process from "node:process";
import { FakeClock } from "../fake_clock.ts";
import { hostFiles } from "../../../policyd/installation/host_files.ts";
import { ListFile } from "../../../policyd/installation/list_file.ts";
import { ownPartNamed } from "./own_part.ts";

// Merges our part into the list of a directory, and prints the outcome.
const [directory = ""] = process.argv.slice(2);
const clock = new FakeClock();
const list = new ListFile(hostFiles, directory, clock);
const { kind, replaced } = await list.reconcile(ownPartNamed("drawbridge", { mtu: 1450 }));
process.stdout.write(`${kind}: ${replaced.join()}\n`);
