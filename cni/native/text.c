// Text to UTF-8 and back, as TextEncoder and TextDecoder do it, and SHA-256 (FIPS 180-4).
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "native.h"

HOST(host_encode) {
  size_t length;
  const char *text = JS_ToCStringLen(context, &length, arguments[0]);
  if (text == NULL) return JS_EXCEPTION;
  JSValue array = JS_NewUint8ArrayCopy(context, (const uint8_t *)text, length);
  JS_FreeCString(context, text);
  if (JS_IsException(array)) return array;
  Bytes bytes = bytes_of(context, array);
  // The engine writes half of a surrogate pair as three bytes, from ED A0 80; UTF-8 has U+FFFD for it.
  for (size_t i = 0; i + 2 < bytes.size; i++) {
    if (bytes.at[i] == 0xed && bytes.at[i + 1] >= 0xa0) memcpy(bytes.at + i, "\xef\xbf\xbd", 3);
  }
  return array;
}

/** Returns the length of the character at the beginning of these bytes, 0 if it is malformed (Unicode, table 3-7). */
static size_t character_length(const uint8_t *bytes, size_t size) {
  const uint8_t first = bytes[0];
  if (first < 0x80) return 1;
  const size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (length == 0 || length > size) return 0;
  const uint8_t lowest = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const uint8_t highest = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (bytes[1] < lowest || bytes[1] > highest) return 0;
  for (size_t i = 2; i < length; i++) {
    if ((bytes[i] & 0xc0) != 0x80) return 0;
  }
  return length;
}

/** Arguments: the bytes, whether malformed ones are an error (otherwise U+FFFD), whether a byte order mark is kept. */
HOST(host_decode) {
  BYTES(bytes, 0);
  const bool is_fatal = JS_ToBool(context, arguments[1]) > 0;
  const bool is_mark_kept = JS_ToBool(context, arguments[2]) > 0;
  if (!is_mark_kept && bytes.size >= 3 && memcmp(bytes.at, "\xef\xbb\xbf", 3) == 0) {
    bytes.at += 3;
    bytes.size -= 3;
  }
  for (size_t i = 0; is_fatal && i < bytes.size;) {
    const size_t length = character_length(bytes.at + i, bytes.size - i);
    if (length == 0) return JS_ThrowTypeError(context, "malformed UTF-8");
    i += length;
  }
  return JS_NewStringLen(context, (const char *)bytes.at, bytes.size);
}

/** The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotated(uint32_t word, int bits) { return word >> bits | word << (32 - bits); }

static void add_block(uint32_t hash[8], const uint8_t block[64]) {
  uint32_t words[64];
  for (int i = 0; i < 16; i++) {
    const uint8_t *at = block + 4 * i;
    words[i] = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
  }
  for (int i = 16; i < 64; i++) {
    const uint32_t s0 = rotated(words[i - 15], 7) ^ rotated(words[i - 15], 18) ^ words[i - 15] >> 3;
    const uint32_t s1 = rotated(words[i - 2], 17) ^ rotated(words[i - 2], 19) ^ words[i - 2] >> 10;
    words[i] = words[i - 16] + s0 + words[i - 7] + s1;
  }
  uint32_t v[8];
  memcpy(v, hash, sizeof v);
  for (int i = 0; i < 64; i++) {
    const uint32_t s1 = rotated(v[4], 6) ^ rotated(v[4], 11) ^ rotated(v[4], 25);
    const uint32_t first = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + constants[i] + words[i];
    const uint32_t s0 = rotated(v[0], 2) ^ rotated(v[0], 13) ^ rotated(v[0], 22);
    const uint32_t second = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
    memmove(v + 1, v, 7 * sizeof *v);
    v[4] += first;
    v[0] = first + second;
  }
  for (int i = 0; i < 8; i++) hash[i] += v[i];
}

/** Returns the hash of a text's UTF-8 as 64 hexadecimal digits. */
HOST(host_sha256) {
  size_t length;
  const char *text = JS_ToCStringLen(context, &length, arguments[0]);
  if (text == NULL) return JS_EXCEPTION;
  uint32_t hash[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const size_t whole = length / 64 * 64;
  for (size_t i = 0; i < whole; i += 64) add_block(hash, (const uint8_t *)text + i);
  // The last block or two: the rest, a set bit, zeros, and the length in bits.
  uint8_t end[128] = {0};
  memcpy(end, text + whole, length - whole);
  JS_FreeCString(context, text);
  end[length - whole] = 0x80;
  const size_t size = length - whole < 56 ? 64 : 128;
  for (size_t i = 0; i < 8; i++) end[size - 1 - i] = (uint8_t)((uint64_t)length * 8 >> 8 * i);
  for (size_t i = 0; i < size; i += 64) add_block(hash, end + i);
  char digits[65];
  for (size_t i = 0; i < 8; i++) snprintf(digits + 8 * i, 9, "%08x", hash[i]);
  return JS_NewStringLen(context, digits, 64);
}
