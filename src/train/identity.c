/* identity.c -- what makes a run this one: a checkpoint of another is not gone on from, and what is
 * another is said. */
#include "train/train_int.h"

static const char *const NAMES[IDENTITY_PARTS] = {"model file", "parameters", "data", "seed"};

struct train_identity train_identity(const struct nn_model *m, uint64_t data, uint64_t seed)
{
    struct train_identity id = {{fingerprint64(m->text), (uint64_t)m->training.shards, data, seed}};
    uint64_t *all = &id.parts[IDENTITY_PARAMETERS];
    for (size_t i = 0; i < m->parameter_count; i++) {
        const struct nn_parameter *p = &m->parameters[i];
        *all = fingerprint_cat64(
            *all, fingerprint64((ty_str){(const char *)p->numbers, p->count * sizeof *p->numbers}));
    }
    return id;
}

const char *train_identity_text(struct ty_arena *a, const struct train_identity *id)
{
    const char *text = "";
    for (size_t i = 0; i < IDENTITY_PARTS; i++)
        text = ty_format(a, "%s%s%016" PRIx64, text, i ? " " : "", id->parts[i]);
    return text;
}

uint64_t train_identity_sum(const struct train_identity *id)
{
    struct ty_arena a = {0};
    uint64_t sum = fingerprint64(ty_str_of(train_identity_text(&a, id)));
    ty_arena_clear(&a);
    return sum;
}

ty_err train_identity_check(struct ty_arena *a, const struct train_identity *id, ty_str text)
{
    const char *others = "";
    for (size_t i = 0; i < IDENTITY_PARTS; i++) {
        ty_str part;
        ty_str_split(&text, ' ', &part);
        if (!ty_str_is(part, ty_format(a, "%016" PRIx64, id->parts[i])))
            others = ty_format(a, "%s%s%s", others, others[0] ? ", " : "", NAMES[i]);
    }
    if (others[0] == '\0')
        return TY_OK;
    return ty_fail(
        TY_FAILED_PRECONDITION,
        "it is of another run, which differs in %s: leave out --resume to begin anew, or choose "
        "another output folder; there, --init_from begins with the weights of this one",
        others);
}

ty_err train_identity_check_sum(uint64_t sum, ty_str text)
{
    if (fingerprint64(text) == sum)
        return TY_OK;
    return ty_fail(TY_FAILED_PRECONDITION,
                   "it is of another run: leave out --resume to begin anew, or choose another "
                   "output folder");
}
