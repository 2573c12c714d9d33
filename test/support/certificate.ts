import { Buffer } from "node:buffer";
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";

/** A certificate and its key as PEM, and the data with which it signs other certificates. */
export interface Certificate {
  readonly certificate: string;
  readonly key: string;
  readonly name: string;
  readonly privateKey: KeyObject;
}

const SEQUENCE = 0x30;
const DAY = 86_400_000;
const ECDSA_SHA256 = der(SEQUENCE, Buffer.from("06082a8648ce3d040302", "hex"));
const COMMON_NAME = Buffer.from("0603550403", "hex");
const BASIC_CONSTRAINTS = Buffer.from("0603551d13", "hex");
const SUBJECT_ALTERNATIVE_NAME = Buffer.from("0603551d11", "hex");
const TRUE = Buffer.from("0101ff", "hex");

/**
 * Makes an X.509 certificate (RFC 5280) with a fresh key, valid for a day around now.
 *
 * @param issuer the certificate that signs it; without one it signs itself and is an authority
 * @param address an IPv4 address of the server that it is for
 */
export function makeCertificate(name: string, issuer?: Certificate, address?: string): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const extensions = [
    ...(issuer === undefined ? [der(SEQUENCE, BASIC_CONSTRAINTS, TRUE, der(0x04, der(SEQUENCE, TRUE)))] : []),
    ...(address === undefined ? [] : [der(SEQUENCE, SUBJECT_ALTERNATIVE_NAME, der(0x04, der(SEQUENCE, ip(address))))]),
  ];
  const body = der(
    SEQUENCE,
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    ECDSA_SHA256,
    nameOf(issuer?.name ?? name),
    der(SEQUENCE, time(Date.now() - DAY), time(Date.now() + DAY)),
    nameOf(name),
    publicKey.export({ type: "spki", format: "der" }),
    ...(extensions.length === 0 ? [] : [der(0xa3, der(SEQUENCE, ...extensions))]),
  );
  const signature = sign("sha256", body, issuer?.privateKey ?? privateKey);
  const whole = der(SEQUENCE, body, ECDSA_SHA256, der(0x03, Buffer.from([0]), signature));
  return {
    certificate: `-----BEGIN CERTIFICATE-----\n${whole.toString("base64")}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    name,
    privateKey,
  };
}

function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), content]);
  // Go refuses a length that is encoded with a byte more than it needs.
  const bytes = length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...bytes]), content]);
}

function nameOf(name: string): Buffer {
  return der(SEQUENCE, der(0x31, der(SEQUENCE, COMMON_NAME, der(0x0c, Buffer.from(name)))));
}

function time(milliseconds: number): Buffer {
  const digits = new Date(milliseconds).toISOString().replaceAll(/\D/g, "");
  return der(0x18, Buffer.from(`${digits.slice(0, 14)}Z`));
}

function ip(address: string): Buffer {
  return der(0x87, Buffer.from(address.split(".").map(Number)));
}
