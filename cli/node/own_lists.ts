import { CONFIGURATION_FILE } from "../../policyd/configuration/schema.ts";
import { DETACH_FILE } from "../../policyd/installation/configuration_list.ts";
import type { NodePlace } from "./place.ts";

/** Returns the path of our network configuration. */
export function configurationPath({ configurationDirectory }: NodePlace): string {
  return `${configurationDirectory}/${CONFIGURATION_FILE}`;
}

/** Returns the path of the list for deleting pods only. */
export function detachPath({ configurationDirectory }: NodePlace): string {
  return `${configurationDirectory}/${DETACH_FILE}`;
}
