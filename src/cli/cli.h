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
/* Lists the commands, for help; one line each. */
void cli_help(FILE *out);

#endif
