/* layout.c -- which server has what.
 *
 * Plain variables are laid end to end and the whole is cut into equal ranges, so servers have the
 * same work whatever the shapes are. Rows of a table go round: neighbours are asked for together
 * and so are at different servers. */
#include "ps/ps_int.h"

void ps_layout_init(struct ps_layout *l, const struct ps_variable *variables, size_t count,
                    size_t servers)
{
    ty_assert(servers > 0 && servers <= PS_MOST_SERVERS && count <= PS_MOST_VARIABLES);
    *l = (struct ps_layout){.variables = variables, .variable_count = count, .servers = servers};
    for (size_t i = 0; i < count; i++)
        l->plain += variables[i].width ? 0 : variables[i].count;
}

/* Where a server's range begins, of all plain numbers. */
static size_t range_from(const struct ps_layout *l, size_t server)
{
    return l->plain / l->servers * server + l->plain % l->servers * server / l->servers;
}

size_t ps_layout_plain(const struct ps_layout *l, size_t server)
{
    return range_from(l, server + 1) - range_from(l, server);
}

bool ps_layout_next(const struct ps_layout *l, size_t server, struct ps_segment *walk)
{
    size_t from = range_from(l, server), to = range_from(l, server + 1), at = 0;
    size_t next = walk->count ? walk->variable + 1 : 0;
    for (size_t i = 0; i < l->variable_count; i++) {
        const struct ps_variable *v = &l->variables[i];
        if (v->width)
            continue;
        size_t first = at > from ? at : from;
        size_t end = at + v->count < to ? at + v->count : to;
        if (i >= next && first < end) {
            *walk = (struct ps_segment){i, first - at, end - first};
            return true;
        }
        at += v->count;
    }
    return false;
}

size_t ps_layout_rows(const struct ps_layout *l, size_t server, size_t variable)
{
    size_t rows = l->variables[variable].count / l->variables[variable].width;
    return rows / l->servers + (server < rows % l->servers);
}
