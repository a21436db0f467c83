/* test_output.c -- --format. */
#include "cli/test_cli.h"

/* ---- output ---- */

static void output_values_by_dotted_key(void **state)
{
    (void)state;
    json_t *job;
    assert_ok(wire_json_parse(TY_STR("{\"name\":\"n\",\"jobSpec\":{\"a\":[1,\"x\"]},\"ok\":true}"),
                              &job));
    json_t *name = cli_json_at(job, TY_STR("name")), *list = cli_json_at(job, TY_STR("job_spec.a"));
    assert_string_equal(json_string_value(name), "n");
    assert_int_equal(json_array_size(list), 2);
    json_decref(name);
    json_decref(list);
    assert_null(cli_json_at(job, TY_STR("name.deeper")));
    assert_null(cli_json_at(job, TY_STR("nothing")));
    json_decref(job);
}

/* "KEY" of the item as --format=value(KEY) shows it. */
static void shows(const json_t *item, const char *key, const char *want)
{
    struct cli_column columns[CLI_MAX_COLUMNS];
    size_t count;
    assert_ok(cli_columns_parse(ty_str_of(key), columns, &count));
    assert_int_equal(count, 1);
    assert_str(cli_column_text(&arena, &columns[0], item, ";"), want);
}

static void output_columns(void **state)
{
    (void)state;
    json_t *job;
    assert_ok(wire_json_parse(
        TY_STR("{\"name\":\"projects/p/customJobs/7\",\"jobSpec\":{\"pools\":[{\"n\":\"1\"},"
               "{\"n\":\"2\",\"uri\":\"gs://b/"
               "x\"}]},\"ok\":true,\"labels\":{\"a\":\"b\",\"c\":\"d\"}}"),
        &job));
    shows(job, "name.basename()", "7");
    shows(job, "jobSpec.pools[1].n", "2");
    shows(job, "job_spec.pools[0].n.basename()", "1");
    shows(job, "jobSpec.pools[2].n", "");
    shows(job, "jobSpec.pools.n", "1;2");
    shows(job, "jobSpec.pools[].uri.basename()", ";x");
    shows(job, "nope", "");
    shows(job, "name[0].nope", "");
    shows(job, " ok ", "True");
    shows(job, "labels", "a=b;c=d");
    shows(job, "labels.list()", "a=b,c=d");
    shows(job, "jobSpec.pools.n.join('+'):label=X:sort=1:reverse", "1+2");
    shows(job, "jobSpec.pools", "{'n': '1'};{'n': '2', 'uri': 'gs://b/x'}");
    shows(job, "jobSpec.pools.len()", "2");
    shows(job, "name.segment(1).upper()", "P");
    shows(job, "nope.yesno(no=never)", "never");
    shows(job, "nope.yesno(yes='a,b')", "No");
    shows(job, "nope.basename(undefined='-')", "-");
    json_decref(job);
    struct cli_column columns[CLI_MAX_COLUMNS];
    size_t count;
    assert_ok(cli_columns_parse(TY_STR("name.basename(),jobSpec.pools[0].replicaCount"), columns,
                                &count));
    assert_int_equal(count, 2);
    assert_str(cli_column_heading(&arena, &columns[0], true), "NAME");
    assert_str(cli_column_heading(&arena, &columns[1], false), "replica_count");
}

static void output_bad_columns_are_named(void **state)
{
    static const char *const cases[][2] = {{"name.bogus()", "'bogus()'"},
                                           {"a.b.scope(c)", "'scope()'"},
                                           {"a,name.basename().b", "is no key"},
                                           {"", "'' is no key"},
                                           {"a..b", "'a..b' is no key"},
                                           {"a[x]", "'a[x]' is no key"},
                                           {"a[1", "'a[1' is no key"},
                                           {"a,[1]", "'[1]' is no key"},
                                           {"a:colour=B", "'colour=B' is none of label"},
                                           {"a:sort=x", "'sort=x' is none of label"},
                                           {"a.join(b=c)", "'join()' takes no 'b=c'"},
                                           {"a.len(1)", "'len()' takes no '1'"},
                                           {"a.date(tz=Mars)", "LOCAL, UTC or"}};
    (void)state;
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        struct cli_column columns[CLI_MAX_COLUMNS];
        size_t count;
        assert_err(TY_INVALID_ARGUMENT, cli_columns_parse(ty_str_of(cases[i][0]), columns, &count));
        if (strstr(ty_err_message(), cases[i][1]) == NULL)
            fail_msg("'%s': '%s' does not say %s", cases[i][0], ty_err_message(), cases[i][1]);
    }
    assert_null(cli_json_at(NULL, TY_STR("[")));
}

static const char *formatted(const char *json, const char *format)
{
    struct cli c = {.arena = &arena};
    struct capture capture;
    json_t *value;
    assert_ok(wire_json_parse(ty_str_of(json), &value));
    capture_start(&capture);
    int status = cli_print(&c, value, format);
    const char *text = capture_end(&capture);
    json_decref(value);
    assert_int_equal(status, CLI_OK);
    return text;
}

static void output_table_is_safe_and_aligned(void **state)
{
    static const char jobs[] =
        "[{\"name\":\"a/1\",\"displayName\":\"x\\u001b[31m\\ny\",\"state\":\"S\"},"
        "{\"name\":\"a/2\",\"displayName\":\"\u00e9\u8a13\u7df4\",\"state\":\"T\"}]";
    (void)state;
    const char *text = formatted(jobs, "table");
    assert_null(strchr(text, '\x1b'));
    assert_non_null(strstr(text, "1   x\\x1b[31m\\ny  S "));
    assert_non_null(strstr(text, "2   \u00e9\u8a13\u7df4         T "));
    assert_string_equal(formatted(jobs, "table(name.basename(),displayName)"),
                        "NAME  DISPLAY_NAME\n1     x\\x1b[31m\\ny\n2     \u00e9\u8a13\u7df4\n");
    assert_string_equal(formatted(jobs, "csv(name.basename(),displayName)"),
                        "name,display_name\n1,\"x\x1b[31m\ny\"\n2,\u00e9\u8a13\u7df4\n");
    assert_string_equal(formatted(jobs, "csv[no-heading](state)"), "S\nT\n");
    assert_string_equal(formatted(jobs, "value(state,nope,name)"), "S\t\ta/1\nT\t\ta/2\n");
}

static void output_text_shown(void **state)
{
    (void)state;
    assert_str(cli_text_shown(&arena, TY_STR("a\tb\nc\x1b]0;t\a\x7f"), false),
               "a\\tb\\nc\\x1b]0;t\\x07\\x7f");
    assert_str(cli_text_shown(&arena, TY_STR("a\tb\nc\r"), true), "a\tb\nc\\r");
    assert_str(cli_text_shown(&arena, TY_STR("\xff\xe9x \xc2\x9b \u202e\u00e9\U0001f600"), true),
               "\\xff\\xe9x \\x9b \\u202e\u00e9\U0001f600");
    assert_str(cli_text_shown(&arena, TY_STR(""), true), "");
    assert_int_equal(cli_text_width(TY_STR("ab\u00e9")), 3);
    assert_int_equal(cli_text_width(TY_STR("\u8a13\U0001f600e\u0301")), 5);
}

static void output_formats(void **state)
{
    static const char jobs[] =
        "[{\"name\":\"b\",\"n\":{\"x\":[1,{}]}},{\"name\":\"a\",\"n\":{\"x\":[]}}]";
    (void)state;
    assert_string_equal(formatted(jobs, "value[separator=\", \"](name:sort=1,n.x)"),
                        "a, \nb, 1;\n");
    assert_string_equal(formatted(jobs, "list(name,n.x)"), " - b\n   1;\n - a\n   \n");
    assert_string_equal(formatted(jobs, "list"), " - n: {'x': [1, {}]}\n   name: b\n"
                                                 " - n: {'x': []}\n   name: a\n");
    assert_string_equal(formatted(jobs, "text"), "---\nn.x[0]: 1\nn.x[1]: \nname:   b\n"
                                                 "---\nn.x:  \nname: a\n");
    assert_string_equal(formatted(jobs, "yaml(n.x[0],name)"),
                        "---\nn:\n  x:\n  - 1\nname: b\n---\nname: a\n");
    assert_string_equal(formatted("{\"a\":1}", "json(b)"), "null\n");
    assert_string_equal(formatted(jobs, "table[box,no-heading](name)"),
                        "┌───┐\n│ b │\n│ a │\n└───┘\n");
    assert_string_equal(formatted(jobs, "none"), "");
    assert_string_equal(formatted(jobs, "table[box](name:label=ABCD)"),
                        "┌──────┐\n│ ABCD │\n├──────┤\n│ b    │\n│ a    │\n└──────┘\n");
    assert_string_equal(formatted(jobs, "table[title=T,pad=1](name:align=right:label=ABCD,n.x)"),
                        "     T\nABCD X\n   b [1, {}]\n   a []\n");
    assert_string_equal(
        formatted(jobs, "table[all-box,title='long title'](name)"),
        "┌────────────────┐\n│   long title   │\n├────────────────┤\n│      NAME      │\n"
        "├────────────────┤\n│ b              │\n├────────────────┤\n│ a              │\n"
        "└────────────────┘\n");
    assert_string_equal(formatted(jobs, "table(name,nope:optional,zz)"), "NAME  ZZ\nb\na\n");
    assert_string_equal(formatted(jobs, "value[delimiter='|',terminator='\\n-'](n.x)"), "1|\n-\n-");
    assert_string_equal(formatted("[]", "table(name)"), "");
    assert_string_equal(formatted("[]", "csv(name)"), "");
}

static void output_transforms(void **state)
{
    static const struct {
        const char *key, *text;
    } rows[] = {
        {"name.split('/').slice(1:)", "b;c"},
        {"name.slice(-1:)", "c"},
        {"name.slice(::-1)", "c;/;b;/;a"},
        {"name.split(sep=/).slice(1)", "b"},
        {"list.slice(5:)", ""},
        {"name.sub('[A-B]/', 'x')", "xxc"},
        {"name.sub('(a)/(.)', '\\2-\\1', 1)", "b-a/c"},
        {"name.sub(pattern=A,replacement=x,ignorecase=false)", "a/b/c"},
        {"name.sub('', '-')", "-a-/-b-/-c-"},
        {"firstof(nope,n,name)", "5"},
        {"o.firstof(zz,y)", "7"},
        {"firstof(nope)", ""},
        {"format('{0}:{1} {{}}', name, n)", "a/b/c:5 {}"},
        {"format('{}-{}', nope, n)", "None-5"},
        {"list.format('{1}{0}')", "21"},
        {"t.date(format='%H:%M', tz=America/New_York)", "22:04"},
        {"t.date('%H', tz=UTC)", "03"},
        {"nope.date(undefined=never)", "never"},
        {"u.upper()", "ÉÀ"},
        {"n.upper()", "5"},
    };
    (void)state;
    for (size_t i = 0; i < TY_COUNT(rows); i++) {
        const char *text =
            formatted("{\"name\":\"a/b/c\",\"n\":5,\"list\":[\"1\",\"2\"],\"o\":{\"y\":7},"
                      "\"t\":\"2026-01-02T03:04:05Z\",\"u\":\"éà\"}",
                      ty_format(&arena, "value(%s)", rows[i].key));
        if (strcmp(text, ty_format(&arena, "%s\n", rows[i].text)) != 0)
            fail_msg("%s is '%s'", rows[i].key, text);
    }
    assert_string_equal(formatted("[{\"ab\":1}]", "csv(firstof(x,ab))"), "ab\n1\n");
}

/* ---- usage ---- */

static const char *usage_text(const char *answer)
{
    struct ty_buf b;
    json_t *usage;
    assert_ok(wire_json_parse(ty_str_of(answer), &usage));
    ty_buf_init(&b, 1 << 16);
    cli_usage_text(&arena, &b, usage);
    const char *text = ty_cstr(&arena, ty_buf_str(&b));
    ty_buf_clear(&b);
    json_decref(usage);
    return text;
}

static void usage_running_has_rates_and_plots(void **state)
{
    (void)state;
    const char *text = usage_text(
        "{\"attempts\":[{\"attempt\":1,\"ended\":false,\"memoryLimitBytes\":17179869184,"
        "\"memoryLimitEnforced\":true,\"replicas\":[{\"replica\":\"workerpool0-0\","
        "\"runs\":2,\"ended\":false,\"cpuSeconds\":3.25,\"wallSeconds\":4,"
        "\"peakMemoryBytes\":1610612736,\"readBytes\":0,\"writtenBytes\":2048,\"samples\":"
        "[[1000,5000000,100,0,0],[2000,500000,200,0,0],[3000,2500000,1048576,0,0]]}]}]}");
    assert_non_null(strstr(text, "workerpool0-0  3.2 "));
    assert_non_null(strstr(text, "  1.5 GB "));
    assert_non_null(strstr(text, "  now 2.00 CPUs, 1.0 MB; limit 16.0 GB enforced\n"));
    assert_non_null(strstr(text, "  CPU    ▁█  up to 2.00 CPUs\n")); /* a restart is no rate */
    assert_non_null(strstr(text, "  memory ▁▁█  up to 1.0 MB\n"));
    assert_null(strstr(text, "Attempt"));
}

static void usage_tells_receipts_from_samples(void **state)
{
    (void)state;
    const char *text = usage_text(
        "{\"attempts\":[{\"attempt\":1,\"ended\":true,\"replicas\":[{\"replica\":"
        "\"workerpool0-0\",\"ended\":true,\"cpuSeconds\":1}]},{\"attempt\":2,\"ended\":true,"
        "\"replicas\":[{\"replica\":\"workerpool0-0\",\"ended\":true,\"cpuSeconds\":1,"
        "\"method\":\"cgroup v2\",\"memoryLimitBytes\":1024,\"memoryLimitEnforced\":false}]}]}");
    assert_non_null(strstr(text, "Attempt 1:\n"));
    assert_non_null(strstr(text, "by its samples: no receipt"));
    assert_non_null(strstr(text, "Attempt 2:\n"));
    assert_non_null(strstr(text, "cgroup v2; limit 1.0 KB not enforced\n"));
    assert_non_null(strstr(usage_text("{\"attempts\":[]}"), "Nothing is known yet"));
}

static const struct CMUnitTest tests[] = {
    CLI_TEST("usage/running_has_rates_and_plots", usage_running_has_rates_and_plots),
    CLI_TEST("usage/tells_receipts_from_samples", usage_tells_receipts_from_samples),
    CLI_TEST("output/formats", output_formats),
    CLI_TEST("output/transforms", output_transforms),
    CLI_TEST("output/values_by_dotted_key", output_values_by_dotted_key),
    CLI_TEST("output/columns", output_columns),
    CLI_TEST("output/bad_columns_are_named", output_bad_columns_are_named),
    CLI_TEST("output/table_is_safe_and_aligned", output_table_is_safe_and_aligned),
    CLI_TEST("output/text_shown", output_text_shown),
};
RUN_GROUP(output)
