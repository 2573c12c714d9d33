// The parts that ADD and CHECK need besides those of DEL: the ADD itself, reading a configuration, printing a result.
export { add } from "./add/add.ts";
export { bridgeConfiguration } from "./configuration/configuration.ts";
export { serveOthers } from "./ipam_plugin.ts";
export { resultObject } from "./result.ts";
export { noteOutcome } from "./status/attach_outcome.ts";
