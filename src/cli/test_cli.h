/* test_cli.h -- the groups of cli's tests, one a file, and what they share. */
#ifndef TY_TEST_CLI_H
#define TY_TEST_CLI_H

#include "base/test.h"

#include "cli/cli_int.h"
#include "wire/wire.h"

int test_flags(void);
int test_spec(void);
int test_output(void);
int test_filter(void);
int test_shell(void);
int test_argv(void);

#define RUN_GROUP(name_)                                                                           \
    int test_##name_(void)                                                                         \
    {                                                                                              \
        return cmocka_run_group_tests_name("cli/" #name_, tests, NULL, NULL);                      \
    }
#define CLI_TEST(name_, fn_)                                                                       \
    {                                                                                              \
        .name = (name_), .test_func = (fn_), .teardown_func = arena_close                          \
    }

extern struct ty_arena arena; /* of one test */
int arena_close(void **state);

#define CREATE "ai custom-jobs create"
#define LIST   "ai custom-jobs list"
#define SEP    "\x1f"
/* Parse words with SEP between them, as what follows `command`. */
ty_err parse(const char *command, const char *line, struct cli_args *ret_args);
void assert_str(ty_str have, const char *want);
void assert_json(const json_t *have, const char *want);

/* Between the two, stdout goes to a file; the second returns what was printed. */
struct capture {
    char path[32];
    int stdout_fd;
};

void capture_start(struct capture *c);
const char *capture_end(struct capture *c);
/* What a command line that must do well prints. */
const char *printed(int argc, char **argv);
#define PRINTED(...) printed(TY_COUNT(((char *[]){__VA_ARGS__})), (char *[]){__VA_ARGS__})

/* Run a script in `program` and return what it printed. */
const char *shell(const char *program, const char *script);
/* This very program: "test_cli --as-trainyard ..." is the command. */
extern char self_path[PATH_MAX];

#endif
