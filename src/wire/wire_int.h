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

/* A plain scalar (NUL-terminated, `len` bytes) by the schema of YAML 1.2 or 1.1: yaml_scalar.c.
 * What is nothing else is a string. */
TY_NODISCARD ty_err wire_yaml_plain(const char *s, size_t len, size_t line, json_t **ret_value);
TY_NODISCARD ty_err wire_yaml11_plain(const char *s, size_t len, size_t line, json_t **ret_value);
/* A scalar with a tag of YAML 1.1: !!int and the like; others are refused. */
TY_NODISCARD ty_err wire_yaml11_tagged(const char *tag, const char *s, size_t len, size_t line,
                                       json_t **ret_value);
/* Refuse a tab between the tokens of a text or in a plain scalar, as PyYAML and ruamel do. */
TY_NODISCARD ty_err wire_yaml11_tabs(ty_str text);

#endif
