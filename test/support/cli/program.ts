import { fileURLToPath } from "node:url";

/** The directory of the built command line (`npm run build`). */
export const CLI_DIRECTORY = fileURLToPath(new URL("../../../dist/cli", import.meta.url));
