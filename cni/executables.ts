/** The names of the two executables and of the processes they become: files in the directory of a runtime's plugins. */

/** What runtimes execute: the shim, or where somebody installed no shim the plugin itself. */
export const SHIM = "drawbridge";

/** Further names of the shim; the plugin answers by the name it is called by. */
export const IPAM = "drawbridge-ipam";
/** Other add-ons bring one, too: ours is for a node that has none. */
export const LOOPBACK = "loopback";

/** What the shim executes beside it, as the plugin and as its server. */
export const PLUGIN = "drawbridge-plugin";

/** What the plugin is called as to be a server. */
export const SERVER = "drawbridge-server";
