/** The parts that read and remove what exists of attachments: for DEL, and for other verbs where there is something. */
export { readAttachment, recordedNetworks, removeAttachment } from "../attachment/attachment.ts";
export { recordedHoldings } from "./recorded_holdings.ts";
export { addressTaker } from "./delegation/address_taker.ts";
export { del } from "./del/del.ts";
