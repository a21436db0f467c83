/* sort.c -- items in the order of --sort-by=KEY,~KEY or of the columns' own :sort=N.
 *
 * Two orders, both gcloud's. Its --sort-by compares values as Python writes them, so 10 comes
 * before 9 and what is missing is the word None, behind numbers and before most names. A table
 * sorts its rows itself: numbers first, as numbers, then texts, of which nothing is the least. */
#include "cli/cli_int.h"

struct sort_key {
    struct cli_column column;
    bool down;
};
struct sort_value {
    bool is_number; /* and counts as one */
    double number;
    const char *text;
};
struct sort_item {
    json_t *item;
    struct sort_value *values; /* one a key */
    const struct sort_key *keys;
    size_t count, place; /* equal ones stay in their order */
};

static int value_compare(const struct sort_value *a, const struct sort_value *b)
{
    if (a->is_number && b->is_number)
        return (a->number > b->number) - (a->number < b->number);
    return a->is_number != b->is_number ? b->is_number - a->is_number : strcmp(a->text, b->text);
}

static int item_compare(const void *pa, const void *pb)
{
    const struct sort_item *a = pa, *b = pb;
    for (size_t k = 0; k < a->count; k++) {
        int by = value_compare(&a->values[k], &b->values[k]);
        if (by != 0)
            return a->keys[k].down ? -by : by;
    }
    return (a->place > b->place) - (a->place < b->place);
}

static struct sort_value value_of(struct ty_arena *a, const struct sort_key *key, bool table,
                                  const json_t *item)
{
    struct ty_buf b;
    json_t *v = cli_column_value(a, &key->column, item);
    ty_buf_init(&b, 1 << 26);
    cli_value_inline(&b, v);
    if (!table && (v == NULL || json_is_null(v)))
        ty_buf_addz(&b, "None");
    struct sort_value value = {.is_number = table && json_is_number(v),
                               .number = json_number_value(v),
                               .text = ty_cstr(a, ty_buf_str(&b))};
    ty_buf_clear(&b);
    json_decref(v);
    return value;
}

static json_t *sorted_new(struct ty_arena *a, const struct sort_key *keys, size_t count, bool table,
                          const json_t *list)
{
    size_t n = json_array_size(list);
    struct sort_item *items = ty_new_array(a, struct sort_item, n + 1);
    json_t *sorted = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *item = json_array_get(list, i);
        items[i] =
            (struct sort_item){item, ty_new_array(a, struct sort_value, count + 1), keys, count, i};
        for (size_t k = 0; k < count; k++)
            items[i].values[k] = value_of(a, &keys[k], table, item);
    }
    if (count > 0)
        qsort(items, n, sizeof(*items), item_compare);
    for (size_t i = 0; i < n; i++)
        json_array_append(sorted, items[i].item);
    return sorted;
}

json_t *cli_sort_by_keys(struct ty_arena *a, ty_str keys, bool table, const json_t *list)
{
    struct sort_key *by = ty_new_array(a, struct sort_key, CLI_MAX_COLUMNS);
    size_t count = 0;
    for (bool more = keys.len > 0; more && count < CLI_MAX_COLUMNS;) {
        ty_str key;
        more = ty_str_split(&keys, ',', &key);
        key = ty_str_trim(key);
        by[count].down = key.len > 0 && key.ptr[0] == '~';
        by[count].column.path = ty_str_drop(key, by[count].down);
        count += cli_path_is_good(by[count].column.path); /* others are in no item */
    }
    return sorted_new(a, by, count, table, list);
}

json_t *cli_sort_by_columns(struct ty_arena *a, const struct cli_column *columns, size_t count,
                            const json_t *list)
{
    struct sort_key *by = ty_new_array(a, struct sort_key, CLI_MAX_COLUMNS);
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = n;
        if (columns[i].sort == 0)
            continue;
        for (; at > 0 && by[at - 1].column.sort > columns[i].sort; at--)
            by[at] = by[at - 1];
        by[at] = (struct sort_key){columns[i], columns[i].reverse};
        n++;
    }
    return sorted_new(a, by, n, true, list);
}
