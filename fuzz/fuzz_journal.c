/* fuzz_journal.c -- any bytes as a journal: parsed or refused, never more than that.
 *
 * Twice: as they are, and with a good checksum before each line, because hardly any input would get
 * past the checksum by chance. */
#include "exec/exec_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(ty_str text)
{
    struct ty_arena arena = {0};
    struct exec_look look;
    if (journal_parse(&arena, text, &look) == TY_OK)
        ty_assert(look.phase == EXEC_LOST || look.phase == EXEC_ENDED || look.phase == EXEC_FENCED);
    ty_arena_clear(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ty_str rest = {(const char *)data, size}, line;
    parse(rest);
    struct ty_buf b;
    ty_buf_init(&b, JOURNAL_BYTES);
    while (ty_str_split(&rest, '\n', &line))
        journal_line(&b, line);
    parse(ty_buf_str(&b));
    ty_buf_clear(&b);
    return 0;
}
