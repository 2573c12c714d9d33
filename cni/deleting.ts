// The parts that read and remove existing attachments: for DEL, and for other verbs where an attachment exists.
export { readAttachment, recordedNetworks, removeAttachment } from "../attachment/attachment.ts";
export { recordedHoldings } from "./recorded_holdings.ts";
export { addressTaker } from "./delegation/address_taker.ts";
export { del } from "./del/del.ts";
