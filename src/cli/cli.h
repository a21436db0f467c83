/* cli.h -- the client side of the command line, in gcloud's own words.
 *
 * Where to start: commands.def (one row a command: words, function, usage, help).
 * Who frees: one arena for the process. Threads: one. Data on stdout, all else on stderr.
 * Exit status: 0 done, 1 it failed, 2 wrong use, 130 interrupted.
 * One test: build/test_cli flags/dict_with_other_delimiter. */
#ifndef TY_CLI_H
#define TY_CLI_H

#include "base/base.h"

/* Run main's own argv (argv[0] tells whether we were called as gcloud or gsutil). Returns the exit
 * status; words that are no command are wrong use. */
int cli_main(int argc, char **argv);
/* Read the flags of a command that main.c runs itself: ret_values[i] is what was given for
 * names[i], in the arena, or NULL. Returns false if there is nothing more to do: it was help or
 * wrong use, all is said, and *ret_status is the exit status. */
bool cli_own_flags(struct ty_arena *a, const char *command, int argc, char **argv,
                   const char *const *names, const char **ret_values, size_t count,
                   int *ret_status);

#endif
