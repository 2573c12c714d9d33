import path from "node:path";
import { fileURLToPath } from "node:url";
import { CACHE as PROJECT_CACHE } from "../support/programs/go.ts";

/** The project's root. */
export const PROJECT = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

/** The directory in which programs and images are kept between runs. */
export const CACHE = path.join(PROJECT_CACHE, "cluster");

/** The directory of the only cluster that may be up: its nodes' files, and data about its processes. */
export const STATE = path.join(CACHE, "state");
