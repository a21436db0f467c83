/* storage.h -- `trainyard storage ...` and gsutil: a client of Cloud Storage's JSON API.
 *
 * Where to start: struct storage_command (commands.c has them all), then the file of its subject:
 * cp.c plans copies, transfer.c moves bytes, ls.c lists, expand.c turns URLs and wildcards into
 * what they stand for. The words, texts and exit statuses are those of `gcloud storage` and of
 * gsutil, which differ: struct storage has the style. Who frees: a run's arena owns all its
 * strings; storage_run frees the rest before it returns. Threads: storage_run starts its own for
 * transfers and has joined them when it returns; a struct storage belongs to its caller. Errors:
 * storage_run says what went wrong on stderr and returns the exit status: 0, 1 it failed, 2 wrong
 * use. Nothing reaches a server other than the one that was named. One test: build/test_storage
 * glob/two_stars_cross_folders. */
#ifndef TY_STORAGE_H
#define TY_STORAGE_H

#include "base/base.h"

#include <jansson.h>
#include <stdatomic.h>

enum storage_style { STORAGE_GCLOUD, STORAGE_GSUTIL };
enum { STORAGE_OK = 0, STORAGE_FAILED = 1, STORAGE_USAGE = 2 };

/* All flags of all commands; a command looks at its own. Zero is "not given". */
struct storage_options {
    bool recursive, no_clobber, all_versions, continue_on_error, force, dry_run, summarize;
    bool list_long, list_full, human, self_only, buckets_only, etag, json;
    bool delete_extra, compare_checksums, update_only, skip_links;
    bool gzip_all, cat_headers, hex, only_md5, only_crc32c, stdin_names, total;
    bool print_created;          /* the URL of each copy, with its generation */
    const char *gzip_extensions; /* txt,html */
    const char *location, *storage_class, *project, *uniform;
    const char *range;
    const char *content_type, *cache_control, *content_encoding;
    const char *if_generation, *if_metageneration; /* preconditions on what is written */
    const char *exclude;
    const char **headers; /* "Name:value", for cp and setmeta */
    size_t header_count;
};

struct storage {
    struct ty_arena *arena;
    enum storage_style style;
    const char *program; /* "gcloud" or "trainyard", in errors of gcloud's style */
    const char *connect; /* for http_client_open */
    const char *project;
    const char
        *state_dir;      /* where interrupted uploads and downloads are remembered; may be absent */
    const char *command; /* the one that runs */
    bool quiet, debug;
    bool parallel;        /* gsutil -m; gcloud's style always is */
    int threads;          /* 0: as many as are good */
    atomic_bool answered; /* set here: the server was there, so it is worth waiting for */
    /* What to say when the server does not answer, two lines; called once at most. */
    const char *(*away)(void *arg, const char *why);
    void *away_arg;
    /* Print what describes something, as --format says; the exit status. NULL: YAML. */
    int (*print)(void *arg, const json_t *value);
    void *print_arg;
};

struct storage_command {
    const char *name; /* "cp", "buckets create" */
    int (*run)(struct storage *s, const struct storage_options *o, char **words, int count);
};
/* NULL: none of that name. */
const struct storage_command *storage_command_find(const char *name);
/* Run it. */
int storage_run(struct storage *s, const struct storage_command *command,
                const struct storage_options *o, char **words, int count);

/* gsutil's whole command line, without the program's name. *ret_known is false, and nothing has
 * been done or said, if its command is none of ours. */
int storage_gsutil_main(struct storage *s, int argc, char **argv, bool *ret_known);

#endif
