/** The plugin's executable: a file in the directory of a runtime's plugins. */
export const PLUGIN = "drawbridge";

/** Its further names; the plugin acts according to the name it is called by. */
export const IPAM = "drawbridge-ipam";
/** Other add-ons bring this plugin, too; ours is for a node that has none. */
export const LOOPBACK_PLUGIN = "loopback";

/** The executable that former releases installed beside a small `drawbridge` that executed it, and the directory of its server. */
export const FORMER_PLUGIN = "drawbridge-plugin";
export const FORMER_SERVER_DIRECTORY = "/run/drawbridge-plugin";
