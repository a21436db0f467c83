/* wire_int.h -- what the files of wire share and nobody else sees. */
#ifndef TY_WIRE_INT_H
#define TY_WIRE_INT_H

#include "wire/wire.h"

enum { WIRE_REAL_BYTES = 40 };
/* The shortest decimal form that reads back as the same double, always with a
 * '.' or an exponent so that it stays a float. Returns out. */
const char *wire_real_format(double value, char out[WIRE_REAL_BYTES]);

/* Bytes of the UTF-8 character at the start of s, or 0 if there is no whole valid one. */
size_t wire_utf8_length(ty_str s);

/* The start of s, at most `most` bytes and cut between characters: for messages. */
ty_str wire_text_cut(ty_str s, size_t most);

/* Do `edits` or fewer changed letters turn a into b (case ignored)? False if one is over 64 bytes.
 */
bool wire_text_close(ty_str a, ty_str b, size_t edits);

#endif
