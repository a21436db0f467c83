/* length.c -- how many steps a run has.
 *
 * training.steps, .examples and .passes say it for the whole run, and .epochs into how many equal
 * parts it is cut, each of one step at least. What that rounds, and a run that sees only a part of
 * its rows, is said: a flag that was meant to be larger shows in the log and not in the model. */
#include "train/train_int.h"

struct train_length train_length(const struct nn_training *t, size_t rows)
{
    int64_t batch = t->batch_size, count = (int64_t)rows, pass = (count + batch - 1) / batch;
    struct train_length l = {.epochs = t->epochs, .batch = batch};
    if (t->steps > 0) {
        l.field = "steps";
        l.asked = t->steps;
    } else if (t->examples > 0) {
        l.field = "examples";
        l.asked = t->examples / batch;
    } else if (t->passes > 0) {
        l.field = "passes";
        l.asked = (int64_t)(t->passes * (double)count / (double)batch);
    } else {
        l.steps_per_epoch = pass;
        return l;
    }
    l.steps_per_epoch = l.asked / t->epochs > 0 ? l.asked / t->epochs : 1;
    return l;
}

void train_length_print(const struct train_length *l, size_t rows, struct ty_buf *b)
{
    int64_t steps = l->steps_per_epoch * l->epochs, examples = steps * l->batch;
    if (l->field == NULL)
        return;
    if (steps != l->asked)
        ty_buf_addf(b,
                    "training.%s asks for %" PRId64 " steps; %" PRId64 " epochs of %" PRId64
                    " steps are %" PRId64 "\n",
                    l->field, l->asked, l->epochs, l->steps_per_epoch, steps);
    if (examples < (int64_t)rows)
        ty_buf_addf(b,
                    "%" PRId64 " of %zu rows will be trained on: training.%s of the model file "
                    "(or its flag) says so\n",
                    examples, rows, l->field);
}

/* A block of a window is read by reading its piece. */
void train_window_print(size_t window, size_t piece, struct ty_buf *b)
{
    size_t block = window / TRAIN_WINDOW_BLOCKS, times = block > 0 ? piece / block : 0;
    if (times < 2)
        return;
    ty_buf_addf(b,
                "a shuffle_window of %zu rows reads each row about %zu times a pass; one of %zu "
                "reads it once\n",
                window, times, piece * TRAIN_WINDOW_BLOCKS);
}
