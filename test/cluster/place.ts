import path from "node:path";
import { fileURLToPath } from "node:url";
import { CACHE as PROJECT_CACHE } from "../support/go.ts";

/** The project's root. */
export const PROJECT = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

/** Where programs and images are kept from one run to the next. */
export const CACHE = path.join(PROJECT_CACHE, "cluster");

/** The one cluster that may be up: its nodes' files, and what is known of its processes. */
export const STATE = path.join(CACHE, "state");
