/** The message types of the kernel's notifications (RTM_* of include/uapi/linux/rtnetlink.h). */
export const Notification = {
  NEWLINK: 16,
  DELLINK: 17,
  NEWADDR: 20,
  DELADDR: 21,
  NEWROUTE: 24,
  DELROUTE: 25,
  NEWNEIGH: 28,
  DELNEIGH: 29,
  NEWRULE: 32,
  DELRULE: 33,
  NEWQDISC: 36,
  DELQDISC: 37,
  NEWTFILTER: 44,
  DELTFILTER: 45,
  NEWNETCONF: 80,
} as const;

/** The family of messages about a bridge's ports and its forwarding database (include/linux/socket.h). */
export const AF_BRIDGE = 7;
