/** The parts that most calls on a node do not need: the verbs besides ADD and DEL, other IPAM plugins, and what a bridge needs once. */
export { check } from "./check/check.ts";
export { readIpamAnswer } from "./delegation/ipam_answer.ts";
export { NotExecutedError, runIpam } from "./delegation/ipam_program.ts";
export { collectReservations, gc } from "./gc/gc.ts";
export { VALID_ATTACHMENTS, validAttachments, validAttachmentsShape } from "./gc/valid_attachments.ts";
export { kernelChecksumProgram } from "../kernel/bpf/kernel_program.ts";
export { status } from "./status/status.ts";
