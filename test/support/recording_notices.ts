import type { Notice, NoticeSink } from "../../policyd/events/notice.ts";

/** Returns a sink that records notices. */
export function recordingNotices(): NoticeSink & { readonly notices: readonly Notice[] } {
  const notices: Notice[] = [];
  return Object.freeze({ notices, tell: (notice: Notice) => void notices.push(notice) });
}
