/** The plugin's executable: a file in the directory of a runtime's plugins. */
export const PLUGIN = "drawbridge";

/** Its further names; the plugin acts according to the name it is called by. */
export const IPAM = "drawbridge-ipam";
/** Other add-ons bring this plugin, too; ours is for a node that has none. */
export const LOOPBACK_PLUGIN = "loopback";

/** The plugin of former releases. They installed it beside a small `drawbridge`, which executed it. */
export const FORMER_PLUGIN = "drawbridge-plugin";
/** The directory of the server that the former plugin could run as. */
export const FORMER_SERVER_DIRECTORY = "/run/drawbridge-plugin";
