/* test_yaml.c -- YAML in, and out as gcloud prints it. */
#include "wire/test_wire.h"

static void reads_as(const char *yaml, const char *json)
{
    struct ty_buf b;
    json_t *value = NULL;
    ty_buf_init(&b, 1 << 16);
    assert_ok(wire_yaml_parse(ty_str_of(yaml), &value));
    wire_json_dump(&b, value);
    assert_text(&b, json);
    json_decref(value);
}

static void refuse(ty_str yaml, const char *words)
{
    json_t *value = NULL;
    assert_err(TY_INVALID_ARGUMENT, wire_yaml_parse(yaml, &value));
    assert_null(value);
    assert_message(words);
}
#define REFUSE(literal, words) refuse(TY_STR(literal), words)

static void yaml_a_config_file(void **state)
{
    (void)state;
    reads_as(
        "# a trainer\nworkerPoolSpecs:\n  machineSpec: {machineType: n1-standard-4}\n"
        "  replicaCount: 1\n  containerSpec:\n    imageUri: host\n    command:\n    - sh\n"
        "    - -c\n    - |\n      echo a\n      echo b\n",
        "{\"workerPoolSpecs\":{\"machineSpec\":{\"machineType\":\"n1-standard-4\"},"
        "\"replicaCount\":1,\"containerSpec\":{\"imageUri\":\"host\",\"command\":[\"sh\",\"-c\","
        "\"echo a\\necho b\\n\"]}}}");
}

static void yaml_core_schema(void **state)
{
    (void)state;
    reads_as("[~, null, Null, true, False, on, no, y]",
             "[null,null,null,true,false,\"on\",\"no\",\"y\"]");
    reads_as("[1, -2, +3, 007, 0o17, 0x1F, 1.5, .5, 1e3, -1.5e-3, 1., 1_000, 0x, 1.2.3, +, -, e5]",
             "[1,-2,3,7,15,31,1.5,0.5,1000.0,-0.0015,1.0,\"1_000\",\"0x\",\"1.2.3\",\"+\",\"-\","
             "\"e5\"]");
    reads_as("{a: 2024-01-01, b: '1', c: \"true\", d: !!str 1, e: , 5: x, true: y}",
             "{\"a\":\"2024-01-01\",\"b\":\"1\",\"c\":\"true\",\"d\":\"1\",\"e\":null,\"5\":\"x\","
             "\"true\":\"y\"}");
    reads_as("--- 5\n...\n", "5");
    reads_as("\xef\xbb\xbf{a: 1}", "{\"a\":1}");
}

static void yaml_refuses(void **state)
{
    (void)state;
    REFUSE("", "there is no document");
    refuse((ty_str){NULL, 0}, "there is no document");
    REFUSE("# only a comment\n", "there is no document");
    REFUSE("a: 1\n---\nb: 2\n", "line 2: a second document");
    REFUSE("a: 1\nb: 2\na: 3\n", "line 3: the key 'a' is there twice");
    REFUSE("? [a]\n: 1\n", "line 1: a key must be a scalar");
    REFUSE("a: 1\nb: *x\n", "line 2: no anchor '&x' comes before the alias '*x'");
    REFUSE("a: &x 1\n*x : 1\n", "line 2: a key must be a scalar");
    REFUSE("a: &x\n- 1\n- [*x]\n", "line 3: the alias '*x' is inside what '&x' names");
    REFUSE("a: &x 1\nb: &x {c: *x}\n", "line 2: the alias '*x' is inside");
    REFUSE("a: !mine 1\n", "line 1: the tag '!mine' is not supported");
    REFUSE("a: !mine [1]\n", "'!mine'");
    REFUSE("a: !mine {b: 1}\n", "'!mine'");
    REFUSE("a: .inf\n", "'.inf' is not a finite number");
    REFUSE("a: 1e999\n", "'1e999' is not a finite number");
    REFUSE("a: 1\nb: 99999999999999999999\n", "line 2: the number is too large");
    REFUSE("a: \"x\\0y\"\n", "line 1: a NUL character");
    REFUSE("\"x\\0y\": 1\n", "line 1: a NUL character");
    REFUSE("a: 1\n b: 2\n", "line 2");
    REFUSE("a:\n\t- 1\n", "line 2");
    REFUSE("a: [1\nb: 2", "line 2");
    REFUSE("a: 1\nb: \xff\n", "line 2");
    REFUSE("a: \"\\ud800\"", "line 1");
    REFUSE("\xff\xfe"
           "a\0:\0",
           "line 1"); /* UTF-16 */
}

static void yaml_limits(void **state)
{
    (void)state;
    char deep[2 * WIRE_MAX_DEPTH + 2];
    memset(deep, '[', WIRE_MAX_DEPTH);
    memset(deep + WIRE_MAX_DEPTH, ']', WIRE_MAX_DEPTH);
    json_t *value = NULL;
    assert_ok(wire_yaml_parse((ty_str){deep, 2 * WIRE_MAX_DEPTH}, &value));
    json_decref(value);
    memset(deep, '[', WIRE_MAX_DEPTH + 1);
    refuse((ty_str){deep, WIRE_MAX_DEPTH + 1}, "more than 64 levels");

    struct ty_buf b;
    ty_buf_init(&b, 1 << 20);
    for (int i = 0; i <= WIRE_MAX_VALUES; i++)
        ty_buf_addz(&b, "- 1\n");
    refuse(ty_buf_str(&b), "more than 200000 values");
    ty_buf_clear(&b);
}

static void yaml_aliases_are_copies(void **state)
{
    (void)state;
    reads_as(
        "a: &m {t: n1, n: [1, {k: ~}]}\nb: *m\nc: [*m, &s x, *s]\n",
        "{\"a\":{\"t\":\"n1\",\"n\":[1,{\"k\":null}]},\"b\":{\"t\":\"n1\",\"n\":[1,{\"k\":null}]},"
        "\"c\":[{\"t\":\"n1\",\"n\":[1,{\"k\":null}]},\"x\",\"x\"]}");
    reads_as("- &a 1\n- *a\n- &a 2\n- *a\n", "[1,1,2,2]"); /* the last one of a name counts */
    json_t *value = NULL;
    assert_ok(wire_yaml_parse(TY_STR("a: &m {t: 1}\nb: *m\n"), &value));
    json_object_set_new(json_object_get(value, "b"), "t", json_integer(2));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(value, "a"), "t")), 1);
    json_decref(value);
}

/* Few bytes that ask for too much: many values, long text again and again, many levels. */
static void yaml_alias_bombs(void **state)
{
    (void)state;
    struct ty_buf b;
    ty_buf_init(&b, 1 << 24);
    ty_buf_addz(&b, "l0: &l0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n");
    for (int i = 1; i < 10; i++) {
        ty_buf_addf(&b, "l%d: &l%d [", i, i);
        for (int k = 0; k < 10; k++)
            ty_buf_addf(&b, "%s*l%d", k > 0 ? ", " : "", i - 1);
        ty_buf_addz(&b, "]\n");
    }
    refuse(ty_buf_str(&b), "line 6: more than 200000 values");
    ty_buf_clear(&b);

    ty_buf_addz(&b, "- &long ");
    for (int i = 0; i < 1 << 20; i++)
        ty_buf_addc(&b, 'x');
    for (int i = 0; i < 100; i++)
        ty_buf_addz(&b, "\n- *long");
    refuse(ty_buf_str(&b), "line 18: aliases repeat more than 16777216 bytes");
    ty_buf_clear(&b);

    ty_buf_addz(&b, "- &d0 []\n");
    for (int i = 1; i < WIRE_MAX_DEPTH; i++)
        ty_buf_addf(&b, "- &d%d [*d%d]\n", i, i - 1);
    refuse(ty_buf_str(&b), "line 64: more than 64 levels");
    ty_buf_clear(&b);
}

/* Printed like that, and read back as the same value. */
/* ---- YAML 1.1, as gcloud reads it ---- */

static void reads_11(const char *yaml, const char *json)
{
    json_t *value = NULL;
    struct ty_buf b, warnings;
    ty_buf_init(&b, 1 << 16);
    ty_buf_init(&warnings, 1 << 16);
    assert_ok(wire_yaml11_parse(ty_str_of(yaml), &warnings, &value));
    wire_json_dump(&b, value);
    assert_text(&b, json);
    assert_int_equal(warnings.len, 0);
    json_decref(value);
    ty_buf_clear(&warnings);
}

static void refuse_11(const char *yaml, const char *words)
{
    json_t *value = NULL;
    struct ty_buf warnings;
    ty_buf_init(&warnings, 1 << 16);
    assert_err(TY_INVALID_ARGUMENT, wire_yaml11_parse(ty_str_of(yaml), &warnings, &value));
    assert_null(value);
    assert_message(words);
    ty_buf_clear(&warnings);
}

static void yaml11_scalars(void **state)
{
    (void)state;
    reads_11("[yes, No, ON, off, y, N, true, False]",
             "[true,false,true,false,true,false,true,false]");
    reads_11("[010, 0x1f, 0b11, 1_000, -012, 1:30, 2:00:00]", "[8,31,3,1000,-10,90,7200]");
    reads_11("[1.5, .5, 1e3, 1_0.5, 1:30.5]", "[1.5,0.5,1000.0,10.5,90.5]");
    reads_11("[08, 0o17, -.5, 10.0.0.1, 1:99, 1e, yess, 1-2, 2024-1-1, '2024-01-01', 12:30:61]",
             "[\"08\",\"0o17\",\"-.5\",\"10.0.0.1\",\"1:99\",\"1e\",\"yess\",\"1-2\",\"2024-1-1\","
             "\"2024-01-01\",\"12:30:61\"]");
    reads_11("[!!int '2', !!str 2, !!bool 'yes', !!float '1', ~, null, '']",
             "[2,\"2\",true,1,null,null,\"\"]");
    refuse_11("[2024-01-01]", "line 1: '2024-01-01' is not text in YAML 1.1; put it in quotes");
    refuse_11("a: 2024-01-01T10:00:00Z", "put it in quotes");
    refuse_11("[=]", "put it in quotes");
    refuse_11("[-.inf]", "not a finite number");
    refuse_11("!!int x", "'x' is no 'tag:yaml.org,2002:int'");
    refuse_11("!Ref x", "the tag '!Ref' is not supported");
}

static void yaml11_merge(void **state)
{
    (void)state;
    reads_11("- &p {a: 1, b: 2}\n- <<: *p\n  b: 3\n- {b: 4, <<: *p}\n",
             "[{\"a\":1,\"b\":2},{\"b\":3,\"a\":1},{\"b\":4,\"a\":1}]");
    reads_11("{<<: [{a: 1}, {a: 2, c: 3}], d: 4}", "{\"d\":4,\"a\":1,\"c\":3}");
    reads_11("'<<': {a: 1}", "{\"<<\":{\"a\":1}}");
    refuse_11("<<: x", "'<<' takes a mapping or a list of mappings");
    refuse_11("<<: [{a: 1}, 2]", "'<<' takes a mapping or a list of mappings");
    refuse_11("a: [<<]", "put it in quotes");
}

static void yaml11_key_again(void **state)
{
    json_t *value = NULL;
    struct ty_buf b, warnings;
    (void)state;
    ty_buf_init(&b, 1 << 16);
    ty_buf_init(&warnings, 1 << 16);
    assert_ok(wire_yaml11_parse(TY_STR("a: 1\nb: {c: 1}\nb: {c: [2]}\na: 2\n"), &warnings, &value));
    wire_json_dump(&b, value);
    assert_text(&b, "{\"a\":1,\"b\":{\"c\":1}}");
    assert_text(&warnings, "line 3: the key 'b' is there twice; the first one counts\n"
                           "line 4: the key 'a' is there twice; the first one counts\n");
    json_decref(value);
}

static void yaml11_bytes(void **state)
{
    (void)state;
    reads_11("\xef\xbb\xbf"
             "a: 1\n",
             "{\"a\":1}");
    reads_11("a: \"x\ty\" # a\ttab\nb: |\n  x\ty\n", "{\"a\":\"x\\ty\",\"b\":\"x\\ty\\n\"}");
    refuse_11("\xc3\xa9: 1\nb:\t1\n", "line 2: a tab between words");
    refuse_11("a: x\ty\n", "line 1: a tab between words");
    refuse_11("a: [1,\t2]\n", "line 1: a tab between words");
    refuse_11("", "there is no document");
}

static void prints_as(const char *json, const char *yaml)
{
    struct ty_buf b;
    ty_buf_init(&b, 1 << 16);
    json_t *value = parse_json(json), *again = NULL;
    wire_yaml_dump(&b, value);
    assert_string_equal(b.ptr, yaml);
    assert_ok(wire_yaml_parse(ty_buf_str(&b), &again));
    assert_true(json_equal(value, again));
    json_decref(again);
    json_decref(value);
    ty_buf_clear(&b);
}

static void yaml_dump_structure(void **state)
{
    (void)state;
    prints_as(
        "{\"b\":[1,\"a\",{\"x\":1,\"y\":[1,2]},[1,[2,3]],{},[],\"m\\nn\"],\"a\":{\"c\":{\"d\":"
        "\"e\\nf\"}},"
        "\"e\":{},\"l\":[],\"n\":null,\"t\":true,\"i\":-5,\"f\":1.5,\"g\":1.0}",
        "a:\n  c:\n    d: |-\n      e\n      f\nb:\n- 1\n- a\n- x: 1\n  y:\n  - 1\n  - 2\n- - 1\n"
        "  - - 2\n    - 3\n- {}\n- []\n- |-\n  m\n  n\ne: {}\nf: 1.5\ng: 1.0\ni: -5\nl: []\nn: "
        "null\nt: true\n");
    prints_as("{}", "{}\n");
    prints_as("[1]", "- 1\n");
    prints_as("\"a\"", "a\n");
    prints_as("\"a\\nb\"", "\"a\\nb\"\n");
}

/* A string, and how gcloud 528 prints it as the value of a key (but see yaml_dump.c on controls).
 */
static const char *const dump_cases[][2] = {
    {"projects/1/customJobs/3", "projects/1/customJobs/3"},
    {"", "''"},
    {"true", "'true'"},
    {"tRue", "tRue"},
    {"null", "'null'"},
    {"~", "'~'"},
    {"123", "'123'"},
    {"-1", "'-1'"},
    {"+.5", "'+.5'"},
    {"1.5", "'1.5'"},
    {"1e3", "'1e3'"},
    {"12e", "12e"},
    {"0x1f", "'0x1f'"},
    {"0o17", "'0o17'"},
    {"1.", "'1.'"},
    {"0.1.2", "0.1.2"},
    {"1_000", "'1_000'"},
    {"_1", "_1"},
    {".inf", "'.inf'"},
    {"3600s", "3600s"},
    {"yes", "yes"},
    {"=", "'='"},
    {"<<", "'<<'"},
    {"-", "'-'"},
    {"-x", "-x"},
    {"- x", "'- x'"},
    {"--n=1", "--n=1"},
    {"---", "'---'"},
    {"?a", "?a"},
    {"? a", "'? a'"},
    {"a: b", "'a: b'"},
    {"it's: x", "\"it's: x\""},
    {"a: 'b\" c", "\"a: 'b\\\" c\""},
    {"a:", "'a:'"},
    {"a:b", "a:b"},
    {"a #b", "'a #b'"},
    {"a#b", "a#b"},
    {"it's", "it's"},
    {"'q", "\"'q\""},
    {" x", "' x'"},
    {"x ", "'x '"},
    {"*a", "'*a'"},
    {"&a", "'&a'"},
    {"!x", "'!x'"},
    {"%x", "'%x'"},
    {"@x", "'@x'"},
    {"`x", "'`x'"},
    {"{a}", "'{a}'"},
    {"[a]", "'[a]'"},
    {"a, b", "a, b"},
    {",a", "',a'"},
    {"|", "'|'"},
    {">x", "'>x'"},
    {"a\tb", "\"a\\tb\""},
    {"a\rb\"", "\"a\\rb\\\"\""},
    {"a\x01"
     "b",
     "\"a\\x01b\""},
    {"a\x7f", "\"a\\x7F\""},
    {"héllo €😀", "héllo €😀"},
    {"\xc2\x85"
     "x",
     "\"\\x85x\""},
    {"\u2028", "\"\\u2028\""},
    {"\ufeff"
     "a",
     "\"\\uFEFFa\""},
    {"2024-01-01", "'2024-01-01'"},
    {"2024-01-01T00:00:00+0000", "2024-01-01T00:00:00+0000"},
    {"2024-01-01T00:00:00.5Z", "'2024-01-01T00:00:00.5Z'"},
    {"2024-1-1", "2024-1-1"},
    {"a\nb", "|-\n  a\n  b"},
    {"a\nb\n", "|\n  a\n  b"},
    {"a\nb\n\n", "|+\n  a\n  b\n"},
    {" a\nb", "|2-\n   a\n  b"},
    {"\n", "|2+\n"},
    {"\na", "|2-\n\n  a"},
    {"a \n  b\nc", "|-\n  a \n    b\n  c"},
    {"a\n\x01", "\"a\\n\\x01\""},
};

static void yaml_dump_strings(void **state)
{
    (void)state;
    struct ty_buf want, json;
    ty_buf_init(&want, 4096);
    ty_buf_init(&json, 4096);
    for (size_t i = 0; i < TY_COUNT(dump_cases); i++) {
        ty_buf_addf(&want, "k: %s\n", dump_cases[i][1]);
        ty_buf_addz(&json, "{\"k\":");
        wire_json_string(&json, ty_str_of(dump_cases[i][0]));
        ty_buf_addz(&json, "}");
        prints_as(json.ptr, want.ptr);
        ty_buf_clear(&want);
        ty_buf_clear(&json);
    }
}

static void yaml_dump_folds(void **state)
{
    (void)state;
    prints_as(
        "{\"message\":\"x: it's  two  spaces and a very long line that goes on and on  until it "
        "must be folded somewhere in here\"}",
        "message: \"x: it's  two  spaces and a very long line that goes on and on  until it\\\n"
        "  \\ must be folded somewhere in here\"\n");
    prints_as(
        "{\"long\":\"aaaa bbbb aaaa bbbb aaaa bbbb aaaa bbbb aaaa bbbb aaaa bbbb aaaa bbbb aaaa "
        "bbbb aaaa bbbb\"}",
        "long: aaaa bbbb aaaa bbbb aaaa bbbb aaaa bbbb aaaa bbbb aaaa bbbb aaaa bbbb aaaa bbbb\n"
        "  aaaa bbbb\n");
    prints_as(
        "{\"l\":[\"- aaa bbbb aaaa bbbb aaaa bbbb aaaa bbbb aaaa bbbb aaaa bbbb aaaa bbbb aaaa "
        "bbbb aaaa bbbb aaaa bbbb\"]}",
        "l:\n- '- aaa bbbb aaaa bbbb aaaa bbbb aaaa bbbb aaaa bbbb aaaa bbbb aaaa bbbb aaaa bbbb\n"
        "  aaaa bbbb aaaa bbbb'\n");
}

static void yaml_dump_keys(void **state)
{
    (void)state;
    prints_as("{\"a b\":1,\"1\":2,\"true\":3,\"x: y\":5,\"m\\nn\":6}",
              "'1': 2\na b: 1\n\"m\\nn\": 6\n'true': 3\n'x: y': 5\n");
    char key[1500 + 1], json[2000], yaml[2000];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = 0;
    snprintf(json, sizeof json, "{\"%s\":{\"z\":[1,2]}}", key);
    snprintf(yaml, sizeof yaml, "? %s\n: z:\n  - 1\n  - 2\n", key);
    prints_as(json, yaml);
}

static const struct CMUnitTest tests[] = {
    TEST("yaml/a_config_file", yaml_a_config_file),
    TEST("yaml/core_schema", yaml_core_schema),
    TEST("yaml/refuses", yaml_refuses),
    TEST("yaml/limits", yaml_limits),
    TEST("yaml/aliases_are_copies", yaml_aliases_are_copies),
    TEST("yaml/alias_bombs", yaml_alias_bombs),
    TEST("yaml11/scalars", yaml11_scalars),
    TEST("yaml11/merge", yaml11_merge),
    TEST("yaml11/key_again", yaml11_key_again),
    TEST("yaml11/bytes", yaml11_bytes),
    TEST("yaml/dump_structure", yaml_dump_structure),
    TEST("yaml/dump_strings", yaml_dump_strings),
    TEST("yaml/dump_folds", yaml_dump_folds),
    TEST("yaml/dump_keys", yaml_dump_keys),
};
RUN_GROUP(yaml)
