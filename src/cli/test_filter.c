/* test_filter.c -- --filter, on items of our own. */
#include "cli/test_cli.h"

static const char ITEM[] =
    "{\"displayName\":\"Alpha one\",\"state\":\"S\",\"n\":\"12\",\"labels\":{"
    "\"team\":\"x\"},\"createTime\":\"2026-01-02T03:04:05Z\",\"pools\":[{\"r\":"
    "1},{\"r\":3}]}";

static bool matches(const char *text)
{
    struct cli_filter *f = NULL;
    json_t *item;
    assert_ok(wire_json_parse(ty_str_of(ITEM), &item));
    assert_ok(cli_filter_parse(&arena, ty_str_of(text), &f));
    bool holds = cli_filter_matches(f, item);
    cli_filter_clear(f);
    json_decref(item);
    return holds;
}

static void filter_matches(void **state)
{
    static const char *const yes[] = {
        "state=S",
        "state=s",
        "displayName='alpha one'",
        "displayName:one",
        "displayName:al*",
        "displayName:*one",
        "displayName~^Al.*e$",
        "displayName!~z",
        "n=12",
        "n>9",
        "n<=12.0",
        "pools.r>2",
        "pools[1].r=3",
        "labels:team",
        "labels.team:*",
        "labels:*",
        "createTime>2026-01-01",
        "createTime<-P1D OR createTime>-P1D",
        "nope!=1",
        "NOT state=T",
        "-state=T",
        "alpha",
        "state=(T OR S)",
        "state=(T S)",
        "n~'\\d\\d'",
        "state=T OR state=S n=12",
        "state=S OR (state=T AND n=0)",
        "state=(T,S)",
        "state=(T, S)",
        "state=('T','S')",
        "n=(1,12)",
        "state=(T AND S)",
        "displayName.len()>8",
        "createTime.date('%Y')=2026",
        "displayName.segment(0).len()=9 n=12",
        "((state=S))",
    };
    static const char *const no[] = {
        "state=T",         "displayName=alpha",
        "displayName:two", "n>12",
        "pools.r>3",       "labels.x:*",
        "nope:*",          "nope=1",
        "NOT state=S",     "createTime<2026-01-02T03:04:05Z",
        "state=S n=0",     "(state=T AND n=0) OR state=U",
        "gamma",           "displayName:*two",
        "state=(T,U)",     "displayName.len()>9",
    };
    (void)state;
    for (size_t i = 0; i < TY_COUNT(yes); i++)
        if (!matches(yes[i]))
            fail_msg("'%s' should match", yes[i]);
    for (size_t i = 0; i < TY_COUNT(no); i++)
        if (matches(no[i]))
            fail_msg("'%s' should not match", no[i]);
}

static void filter_mistakes_are_named(void **state)
{
    char deep[200];
    static const char *const cases[][2] = {
        {"(state=S", "never closed"},
        {"state=", "a value was expected"},
        {"state=S)", "too many"},
        {"state='S", "a quote that is never closed"},
        {"a b.=c", "no key"},
        {"a~'('", "is no regular expression"},
        {"state=(a", "never closed"},
        {"NOT", "a value was expected"},
        {"a OR", "a value was expected"},
        {"state=(a,)", "a value was expected"},
        {"state~(a|b)", "others need quotes"},
        {"state!=(a b)", "others need quotes"},
        {"a=1 OR b=1 AND c=1", "need parentheses"},
        {"(a=1 AND b=1 OR c=1)", "need parentheses"},
        {"state.len()", "an operator was expected"},
        {"state.bogus()=1", "argument --filter: the transform 'bogus()'"},
    };
    (void)state;
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        struct cli_filter *f = NULL;
        assert_err(TY_INVALID_ARGUMENT, cli_filter_parse(&arena, ty_str_of(cases[i][0]), &f));
        if (strstr(ty_err_message(), cases[i][1]) == NULL)
            fail_msg("'%s': '%s' does not say %s", cases[i][0], ty_err_message(), cases[i][1]);
    }
    struct cli_filter *f = NULL;
    memset(deep, '(', sizeof(deep));
    assert_err(TY_INVALID_ARGUMENT, cli_filter_parse(&arena, (ty_str){deep, sizeof(deep)}, &f));
    assert_non_null(strstr(ty_err_message(), "too deep"));
}

static const struct CMUnitTest tests[] = {
    CLI_TEST("filter/matches", filter_matches),
    CLI_TEST("filter/mistakes_are_named", filter_mistakes_are_named),
};
RUN_GROUP(filter)
