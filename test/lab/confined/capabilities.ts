/** The kernel's capabilities in the order of their numbers (linux/capability.h), as Pod specs name them. */
const NAMES: readonly string[] = `
  CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE
  NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN
  SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE
  MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`
  .trim()
  .split(/\s+/);

/** Returns the numbers of all capabilities except some. @throws Error for a name that the kernel does not have */
export function otherCapabilities(kept: readonly string[]): readonly number[] {
  const unknown = kept.find((name) => !NAMES.includes(name));
  if (unknown !== undefined) throw new Error(`confined: ${unknown} is not a capability; expected ${NAMES.join(", ")}`);
  return NAMES.flatMap((name, number) => (kept.includes(name) ? [] : [number]));
}
