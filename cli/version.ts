import packageJson from "../package.json" with { type: "json" };

/** The release of Drawbridge this is. */
export const VERSION: string = packageJson.version;
