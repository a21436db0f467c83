/* ml.c -- the words of the older AI Platform API for what a job has: master, not workerpool0. */
#include "exec/exec_int.h"

#include "wire/wire.h"

#include <ctype.h>

char *exec_ml_task(int pool, int index, char out[EXEC_ML_TASK_BYTES])
{
    snprintf(out, EXEC_ML_TASK_BYTES, "%s-replica-%d", pool == 0 ? "master" : exec_task_type(pool),
             index);
    return out;
}

const char *exec_ml_chief(const json_t *training_input)
{
    ty_str minor = wire_json_get_str(training_input, "runtimeVersion"), major;
    int64_t numbers[2];
    if (json_is_true(json_object_get(training_input, "useChiefInTfConfig")))
        return "chief";
    if (!ty_str_split(&minor, '.', &major) || ty_parse_i64(major, &numbers[0]) != TY_OK ||
        ty_parse_i64(minor, &numbers[1]) != TY_OK)
        return "master";
    return numbers[0] > 2 || (numbers[0] == 2 && numbers[1] >= 1) ? "chief" : "master";
}

/* "workerpool1-0" at the start of the text: how long it is, and which replica; else 0. */
static size_t take_task(ty_str text, int *ret_pool, int *ret_index)
{
    static const char name[] = "workerpool";
    size_t at = sizeof name - 1, digits = 0;
    int index = 0;
    if (!ty_str_starts(text, ty_str_of(name)) || text.len < at + 3 || text.ptr[at] < '0' ||
        text.ptr[at] > '3' || text.ptr[at + 1] != '-')
        return 0;
    *ret_pool = text.ptr[at] - '0';
    for (at += 2; at < text.len && digits < 4 && isdigit((unsigned char)text.ptr[at]); at++) {
        index = 10 * index + text.ptr[at] - '0';
        digits++;
    }
    *ret_index = index;
    return digits > 0 ? at : 0;
}

/* "The replica master 0 exited" is how that API's messages had it; elsewhere a task has its name.
 */
void exec_ml_words(struct ty_buf *b, ty_str text)
{
    while (text.len > 0) {
        char task[EXEC_ML_TASK_BYTES];
        int pool, index;
        size_t n = take_task(text, &pool, &index);
        if (n > 0 && ty_str_ends(ty_buf_str(b), TY_STR("replica ")))
            ty_buf_addf(b, "%s %d", pool == 0 ? "master" : exec_task_type(pool), index);
        else if (n > 0)
            ty_buf_addz(b, exec_ml_task(pool, index, task));
        else
            ty_buf_addc(b, text.ptr[0]);
        text = ty_str_drop(text, n > 0 ? n : 1);
    }
}
