/** The parts that most calls on a node do not need: the verbs besides ADD and DEL, other IPAM plugins, and what a bridge needs once. */
export { rememberingSysctl } from "../attachment/original_settings.ts";
export { check } from "./check/check.ts";
export { chainedResult, previousResult, unchangedResult } from "./configuration/previous_result.ts";
export { addressGiver, passOn } from "./delegation/foreign_ipam.ts";
export { detachHolders, recordedAddresses } from "./del/ended_sandbox.ts";
export { runIpam } from "./delegation/ipam_program.ts";
export { detachMarked } from "./gc/ended.ts";
export { collectReservations, gc } from "./gc/gc.ts";
export { isOlderThanBoot } from "./gc/proof.ts";
export { VALID_ATTACHMENTS, validAttachments, validAttachmentsShape } from "./gc/valid_attachments.ts";
export { kernelChecksumProgram } from "../kernel/bpf/checksum_program.ts";
export { status } from "./status/status.ts";
export { repairNodeState } from "./node_state/repair.ts";
