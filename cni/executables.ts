/** The plugin's executable: a file in the directory of a runtime's plugins. */
export const PLUGIN = "drawbridge";

/** Its further names; the plugin acts according to the name it is called by. */
export const IPAM = "drawbridge-ipam";
/** The IPAM types that the plugin serves itself, with their own semantics and on the same store. */
export const OWN_IPAM: readonly string[] = ["host-local", IPAM];
/** Other add-ons bring this plugin, too; ours is for a node that has none. */
export const LOOPBACK_PLUGIN = "loopback";
