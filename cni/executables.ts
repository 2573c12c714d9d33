/** The names of the two executables and of the processes they become: files in the directory of a runtime's plugins. */

/** The file that runtimes execute: the shim, or the plugin itself where no shim is installed. */
export const SHIM = "drawbridge";

/** Further names of the shim; the plugin acts according to the name it is called by. */
export const IPAM = "drawbridge-ipam";
/** Other add-ons bring this plugin, too; ours is for a node that has none. */
export const LOOPBACK_PLUGIN = "loopback";

/** The file that the shim executes, in its own directory, as the plugin and as its server. */
export const PLUGIN = "drawbridge-plugin";

/** The name under which the plugin runs as a server. */
export const SERVER = "drawbridge-server";
