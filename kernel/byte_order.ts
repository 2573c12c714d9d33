/** Whether this machine stores the low byte first. Netlink uses the byte order of the machine. */
export const littleEndian: boolean = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;
