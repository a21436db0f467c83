/* builtin.c -- model files that are part of the binary: examples/NAME/model.yaml. */
#include "train/train_int.h"

#include "builtin_chicago_taxi.h"
#include "builtin_flowers.h"
#include "builtin_taxifare.h"

static const struct {
    const char *name;
    const unsigned char *text;
    size_t len;
} BUILTINS[] = {
#define BUILTIN(name) {#name, builtin_##name, sizeof builtin_##name},
#include "train/builtins.def"
#undef BUILTIN
};

ty_str train_builtin(const char *name)
{
    for (size_t i = 0; i < TY_COUNT(BUILTINS); i++)
        if (strcmp(BUILTINS[i].name, name) == 0)
            return (ty_str){(const char *)BUILTINS[i].text, BUILTINS[i].len};
    return (ty_str){0};
}

/* The first line of a file is a comment that says what it is. */
void train_builtin_list(struct ty_buf *b)
{
    for (size_t i = 0; i < TY_COUNT(BUILTINS); i++) {
        ty_str text = {(const char *)BUILTINS[i].text, BUILTINS[i].len}, line;
        ty_str_split(&text, '\n', &line);
        while (line.len > 0 && (line.ptr[0] == '#' || line.ptr[0] == ' '))
            line = ty_str_drop(line, 1);
        ty_buf_addf(b, "%-16s " TY_STR_FMT "\n", BUILTINS[i].name, TY_STR_ARG(line));
    }
}
