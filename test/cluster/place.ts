import os from "node:os";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

/** The project's root. */
export const PROJECT = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

/** Where programs and images are kept from one run to the next. */
export const CACHE = path.join(
  process.env["XDG_CACHE_HOME"] || path.join(os.homedir(), ".cache"),
  "drawbridge",
  "cluster",
);

/** The one cluster that may be up: its nodes' files, and what is known of its processes. */
export const STATE = path.join(CACHE, "state");
