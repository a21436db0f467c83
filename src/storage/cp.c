/* cp.c -- cp and mv: which source goes where.
 *
 * The rules are gsutil's, which are those of Linux's cp: one source to a name that is no folder
 * gets that name; to a folder that is there, or several sources, each gets its own last name below
 * it; a folder copied with -r to one that is there keeps its name, to one that is not there takes
 * the new name. A bucket's folder is there if a name begins with it and a slash. */
#include "storage/storage_int.h"

enum { STDIN_BYTES = 64 << 20 };

/* ---- the destination ---- */

struct probe {
    ty_str name; /* without a slash at its end */
    bool container;
};

static ty_err probe_prefix(void *arg, ty_str prefix)
{
    struct probe *p = arg;
    if (prefix.len == p->name.len + 1 && ty_str_starts(prefix, p->name))
        p->container = true;
    return TY_OK;
}

static bool is_folder(struct ty_arena *a, ty_str path)
{
    struct stat st;
    return stat(ty_cstr(a, path), &st) == 0 && S_ISDIR(st.st_mode);
}

static ty_err destination_wild(struct storage_conn *c, const struct storage_url *url,
                               const char *word, struct storage_destination *d)
{
    struct storage_refs refs = {.arena = c->s->arena};
    ty_err err = storage_expand(c, url, false, &refs);
    if (err != TY_OK)
        return err;
    if (refs.count != 1)
        return storage_fail(c->s, TY_INVALID_ARGUMENT, "Destination (%s) must match exactly %s",
                            word, c->s->style == STORAGE_GSUTIL ? "1 URL" : "one URL.");
    d->url = refs.items[0].url;
    d->container = refs.items[0].kind != STORAGE_IS_OBJECT;
    return TY_OK;
}

static ty_err name_too_long(const struct storage *s, const struct storage_url *url)
{
    return storage_fail(s, TY_INVALID_ARGUMENT,
                        "the name of gs://" TY_STR_FMT
                        "/%.60s... has %zu bytes; an object's has at "
                        "most %d",
                        TY_STR_ARG(url->bucket), url->name.ptr, url->name.len, STORAGE_NAME_BYTES);
}

ty_err storage_destination_find(struct storage_conn *c, const char *word,
                                struct storage_destination *ret_destination)
{
    struct storage_destination d = {0};
    ty_err err = storage_url_parse(ty_str_of(word), c->s->style, &d.url);
    if (err != TY_OK)
        return err;
    if (d.url.cloud && d.url.bucket.len == 0)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "The cp command does not support provider-only destination URLs.");
    if (d.url.cloud && d.url.generation.len > 0)
        return storage_fail(c->s, TY_INVALID_ARGUMENT,
                            "The destination argument of the cp command cannot be a "
                            "version-specific URL (%s).",
                            word);
    if (d.url.cloud && d.url.name.len > STORAGE_NAME_BYTES)
        return name_too_long(c->s, &d.url);
    if (storage_has_wildcard(ty_str_of(word))) {
        err = destination_wild(c, &d.url, word, &d);
    } else if (!d.url.cloud) {
        d.container = !d.url.stream && is_folder(c->s->arena, d.url.name);
    } else if (d.url.name.len == 0 || ty_str_ends(d.url.name, TY_STR("/"))) {
        d.container = true;
    } else {
        struct probe p = {.name = d.url.name};
        struct storage_listing l = {
            .bucket = d.url.bucket, .prefix = d.url.name, .delimiter = TY_STR("/")};
        err = storage_list(c, &l, NULL, probe_prefix, &p);
        d.container = p.container;
    }
    if (err == TY_OK)
        *ret_destination = d;
    return err;
}

/* ---- names ---- */

static ty_str strip_slashes(ty_str s)
{
    while (s.len > 0 && s.ptr[s.len - 1] == '/')
        s.len--;
    return s;
}

static ty_str last_part(ty_str name)
{
    size_t at = name.len;
    while (at > 0 && name.ptr[at - 1] != '/')
        at--;
    return ty_str_drop(name, at);
}

static size_t count_slashes(ty_str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++)
        n += s.ptr[i] == '/';
    return n;
}

/* "." and ".." are no names to make folders of. */
static bool is_named(const struct storage_url *url)
{
    ty_str last = last_part(strip_slashes(url->name));
    return url->cloud || (!ty_str_is(last, ".") && !ty_str_is(last, ".."));
}

/* What of the source's name goes behind the folder it was found under: with that folder's own name
 * first, unless `inside`. */
static ty_str name_under(struct ty_arena *a, const struct storage_ref *ref, bool inside)
{
    const struct storage_url *source = ref->source;
    ty_str name = ref->url.name, head;
    if (source->cloud && source->name.len == 0) {
        if (inside)
            return name;
        return ty_str_of(
            ty_format(a, TY_STR_FMT "/" TY_STR_FMT, TY_STR_ARG(ref->url.bucket), TY_STR_ARG(name)));
    }
    for (size_t n = count_slashes(strip_slashes(source->name)); n > 0; n--)
        ty_str_split(&name, '/', &head);
    while (name.len > 0 && name.ptr[0] == '/')
        name = ty_str_drop(name, 1);
    if (inside)
        ty_str_split(&name, '/', &head);
    return name;
}

static bool has_two_stars(ty_str s)
{
    return memmem(s.ptr, s.len, "**", 2) != NULL;
}

ty_err storage_destination_of(const struct storage *s, struct ty_arena *a,
                              const struct storage_ref *ref, bool many, bool many_top,
                              bool recursive, const struct storage_destination *d,
                              struct storage_url *ret_url)
{
    struct storage_url url = d->url;
    bool folder = ref->in_container;
    bool single = !(recursive && folder) &&
                  (url.cloud ? !many && !d->container && url.name.len > 0 : !d->container);
    if (single) {
        *ret_url = url;
        return TY_OK;
    }
    if (ref->url.stream)
        return storage_fail(s, TY_INVALID_ARGUMENT,
                            "Destination object name needed when source is %s",
                            s->style == STORAGE_GSUTIL ? "a stream" : "stdin.");
    bool named = is_named(ref->source);
    if (!named && many_top)
        return ty_fail(
            TY_INVALID_ARGUMENT,
            "%sPresence of multiple top-level sources and invalid expanded URL make file "
            "name conflicts possible for URL: %s",
            s->style == STORAGE_GSUTIL ? "InvalidUrlError: " : "",
            storage_url_text(a, ref->source));
    bool keep = !has_two_stars(ref->source->name) && named && (many_top || d->container);
    ty_str name = folder && (keep || url.cloud || d->container) ? name_under(a, ref, !keep)
                                                                : last_part(ref->url.name);
    ty_str base = strip_slashes(url.name);
    bool root = !url.cloud && base.len == 0 && url.name.len > 0;
    url.name = ty_str_of(ty_format(a, TY_STR_FMT "%s" TY_STR_FMT, TY_STR_ARG(base),
                                   base.len > 0 || root ? "/" : "", TY_STR_ARG(name)));
    *ret_url = url;
    return TY_OK;
}

/* ---- running them ---- */

struct batch {
    const struct storage_options *o;
    struct storage_copy *copies;
    struct storage_progress progress;
    bool move;
};

static ty_err source_remove(struct storage_conn *c, struct batch *b,
                            const struct storage_copy *copy)
{
    struct ty_arena a = {0};
    ty_err err = TY_OK;
    if (copy->from.cloud || c->s->style == STORAGE_GSUTIL)
        storage_progress_say(&b->progress, "Removing %s...", storage_url_text(&a, &copy->from));
    const char *path = ty_cstr(&a, copy->from.name);
    if (copy->from.cloud)
        err = storage_object_delete(c, NULL, &copy->from);
    else if (unlink(path) != 0)
        err = ty_fail_errno(errno, "cannot remove '%s'", path);
    ty_arena_clear(&a);
    return err;
}

static ty_err batch_work(struct storage_conn *c, void *arg, size_t index)
{
    struct batch *b = arg;
    enum storage_copied copied;
    ty_err err = storage_copy_run(c, b->o, &b->copies[index], &b->progress, &copied);
    if (err == TY_OK && b->move && copied == STORAGE_COPIED)
        err = source_remove(c, b, &b->copies[index]);
    bool nameless = err == TY_UNAVAILABLE || err == TY_DEADLINE_EXCEEDED ||
                    (err != TY_OK && c->status >= 500); /* what the others say names the file */
    if (nameless) {
        struct ty_arena a = {0};
        err = ty_wrap(err, "%s could not be copied", storage_url_text(&a, &b->copies[index].from));
        ty_arena_clear(&a);
    }
    return err;
}

/* One that failed while the others go on. */
static void batch_failed(struct storage_conn *c, void *arg, size_t index, ty_err err)
{
    struct batch *b = arg;
    struct ty_arena a = {0};
    (void)err;
    char *message = ty_err_take();
    pthread_mutex_lock(&b->progress.lock);
    if (b->progress.shown)
        fputs("\r\033[K", stderr);
    if (c->s->style == STORAGE_GSUTIL)
        fprintf(stderr, "Error copying %s: %s\n", storage_url_text(&a, &b->copies[index].from),
                message);
    else
        fprintf(stderr, "ERROR: %s\n", message);
    pthread_mutex_unlock(&b->progress.lock);
    free(message);
    ty_arena_clear(&a);
}

static bool name_is_text(ty_str name)
{
    return ty_utf8_valid(name) && memchr(name.ptr, '\n', name.len) == NULL &&
           memchr(name.ptr, '\r', name.len) == NULL;
}

/* Before the first one is copied: can all have their names? */
static ty_err names_check(const struct storage *s, const struct storage_copy *copies, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct storage_url *to = &copies[i].to;
        if (to->cloud && to->name.len > STORAGE_NAME_BYTES)
            return name_too_long(s, to);
        if (to->cloud && !name_is_text(to->name))
            return storage_fail(s, TY_INVALID_ARGUMENT,
                                "the name of %s is not valid UTF-8 on one line, which an object's "
                                "has to be; rename the file",
                                storage_url_text(s->arena, &copies[i].from));
    }
    return TY_OK;
}

/* Do the others follow when one fails? */
static bool goes_on(const struct storage *s, const struct storage_options *o)
{
    return o->continue_on_error || (s->style == STORAGE_GSUTIL && s->parallel);
}

int storage_copies_run(struct storage_conn *c, const struct storage_options *o,
                       struct storage_copy *copies, size_t count, size_t missing, bool move)
{
    struct batch b = {.o = o, .copies = copies, .move = move};
    size_t failed = 0;
    struct storage *s = c->s;
    bool all = goes_on(s, o);
    struct storage_pool pool = {.s = s, .all = all, .count = count, .work = batch_work, .arg = &b};
    if (all)
        pool.failed = batch_failed;
    storage_progress_init(&b.progress, s);
    atomic_store(&b.progress.files_total, (int)count);
    for (size_t i = 0; i < count; i++)
        atomic_fetch_add(&b.progress.bytes_total, copies[i].size > 0 ? copies[i].size : 0);
    ty_err err = names_check(s, copies, count);
    if (err == TY_OK && count > 0)
        err = storage_pool_run(&pool, c, &failed);
    if (err == TY_OK)
        storage_progress_end(&b.progress);
    storage_progress_clear(&b.progress);
    if (err != TY_OK)
        return storage_say_error(c, s->style == STORAGE_GCLOUD ? NULL : s->command, err);
    failed += missing;
    if (failed > 0 && s->style == STORAGE_GSUTIL)
        fprintf(stderr, "CommandException: %zu %s could not be transferred.\n", failed,
                failed == 1 ? "file/object" : "files/objects");
    return failed > 0 ? STORAGE_FAILED : STORAGE_OK;
}

/* ---- the commands ---- */

ty_err storage_fail_unmatched(const struct storage *s, char **words, size_t count)
{
    if (s->style == STORAGE_GSUTIL)
        return ty_fail(TY_NOT_FOUND, "CommandException: No URLs matched: %s", words[0]);
    struct ty_buf b;
    ty_buf_init(&b, 1 << 20);
    ty_buf_addz(&b, "The following URLs matched no objects or files:");
    for (size_t i = 0; i < count; i++)
        ty_buf_addf(&b, "\n%s", words[i]);
    ty_err err = ty_fail(TY_NOT_FOUND, "%s", b.ptr);
    ty_buf_clear(&b);
    return err;
}

/* The sources of a command line, and which words stood for nothing. */
struct sources {
    struct storage_refs refs;
    size_t top;
    char **unmatched;
    size_t unmatched_count;
    bool omitted; /* folders, because recursion was not asked for */
};

static ty_err sources_find(struct storage_conn *c, const struct storage_options *o, char **words,
                           size_t count, struct sources *src)
{
    struct ty_arena *a = c->s->arena;
    ty_err err = TY_OK;
    *src = (struct sources){.refs = {.arena = a}, .unmatched = ty_new_array(a, char *, count + 1)};
    for (size_t i = 0; i < count && err == TY_OK; i++) {
        struct storage_url *url = ty_new(a, struct storage_url);
        struct storage_expanded e = {0};
        err = storage_url_parse(ty_str_of(words[i]), c->s->style, url);
        if (err == TY_OK)
            err = storage_expand_all(c, url, o, &src->refs, &e);
        src->top += e.top;
        src->omitted |= e.folders > 0 && e.added == 0;
        bool said = c->s->style == STORAGE_GSUTIL && e.folders > 0;
        if (err == TY_OK && e.added == 0 && !said)
            src->unmatched[src->unmatched_count++] = words[i];
    }
    return err;
}

static bool url_same(const struct storage_url *a, const struct storage_url *b)
{
    return a->cloud == b->cloud && ty_str_eq(a->bucket, b->bucket) && ty_str_eq(a->name, b->name) &&
           !a->stream;
}

/* Does a name lead out of the folder it is to be put into? */
static bool leads_out(ty_str name)
{
    ty_str part;
    bool more = true;
    while (more) {
        more = ty_str_split(&name, '/', &part);
        if (ty_str_is(part, ".."))
            return true;
    }
    return false;
}

static ty_err place_check(struct storage_conn *c, const struct storage_copy *copy)
{
    struct ty_arena *a = c->s->arena;
    bool gsutil = c->s->style == STORAGE_GSUTIL;
    const char *from = storage_url_text(a, &copy->from), *to = storage_url_text(a, &copy->to);
    if (url_same(&copy->from, &copy->to) && copy->from.generation.len == 0) {
        struct storage_url exact = copy->from;
        if (exact.cloud)
            exact.generation = copy->object->generation;
        return gsutil
                   ? ty_fail(TY_INVALID_ARGUMENT,
                             "CommandException: %s: \"%s\" and \"%s\" are the same file - abort.",
                             c->s->command, from, to)
                   : ty_fail(TY_INVALID_ARGUMENT, "Source URL matches destination URL: %s",
                             storage_url_text(a, &exact));
    }
    if (!gsutil && !copy->to.cloud && ty_str_ends(copy->to.name, TY_STR("/")))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "Destination URL must name an existing directory if it ends with a "
                       "delimiter. Provided: " TY_STR_FMT ".",
                       TY_STR_ARG(copy->to.name));
    if (!gsutil && !copy->from.cloud && !copy->to.cloud)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "Local copies not supported. Gcloud command-line tool is meant for cloud "
                       "operations. Received copy from %s to %s",
                       from, to);
    if (!copy->to.cloud && is_folder(a, copy->to.name))
        return storage_fail(c->s, TY_INVALID_ARGUMENT,
                            "Cannot retrieve %s because a directory exists (" TY_STR_FMT
                            ") where the file needs to be created.",
                            from, TY_STR_ARG(copy->to.name));
    return TY_OK;
}

static int copies_compare(const void *a, const void *b)
{
    const struct storage_copy *left = *(struct storage_copy *const *)a;
    const struct storage_copy *right = *(struct storage_copy *const *)b;
    int order = ty_str_cmp(left->to.name, right->to.name);
    return order != 0 ? order : left < right ? -1 : 1;
}

/* gcloud copies only the first of several that have one destination, and says so. */
static size_t copies_thin(struct storage *s, struct storage_copy *copies, size_t count)
{
    struct storage_copy **sorted = ty_new_array(s->arena, struct storage_copy *, count);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        sorted[i] = &copies[i];
    qsort(sorted, count, sizeof(struct storage_copy *), copies_compare);
    for (size_t i = 1; i < count; i++) /* all go to one bucket or to disk */
        sorted[i]->again = ty_str_eq(sorted[i]->to.name, sorted[i - 1]->to.name);
    for (size_t i = 0; i < count; i++) {
        const struct storage_copy *copy = &copies[i];
        const char *to = storage_url_text(s->arena, &copy->to);
        if (!copy->again) {
            copies[kept++] = *copy;
            continue;
        }
        storage_note(s, "Copying %s to %s\n", storage_url_text(s->arena, &copy->from), to);
        storage_note(s,
                     "Skipping %s for %s. This can occur if a cp command results in multiple "
                     "writes to the same resource.\n",
                     !copy->to.cloud    ? "FileDownloadTask"
                     : copy->from.cloud ? "IntraCloudCopyTask"
                                        : "FileUploadTask",
                     to);
    }
    return kept;
}

/* One copy for each source that is to be copied. */
static ty_err copies_plan(struct storage_conn *c, const struct storage_options *o,
                          const struct sources *src, const struct storage_destination *d,
                          struct storage_copy **ret_copies, size_t *ret_count)
{
    struct ty_arena *a = c->s->arena;
    size_t count = 0;
    bool many = src->refs.count > 1;
    struct storage_copy *copies = ty_new_array(a, struct storage_copy, src->refs.count + 1);
    if (many && !d->url.cloud && !d->container)
        return c->s->style == STORAGE_GSUTIL
                   ? ty_fail(TY_INVALID_ARGUMENT,
                             "CommandException: Destination URL must name a directory, bucket, or "
                             "bucket\nsubdirectory for the multiple source form of the %s command.",
                             c->s->command)
                   : ty_fail(
                         TY_INVALID_ARGUMENT,
                         "Destination URL must name an existing directory. Provided: " TY_STR_FMT
                         ".",
                         TY_STR_ARG(d->url.name));
    for (size_t i = 0; i < src->refs.count; i++) {
        const struct storage_ref *ref = &src->refs.items[i];
        struct storage_copy *copy = &copies[count];
        *copy = (struct storage_copy){
            .from = ref->url, .object = ref->object, .size = ref->size, .ref = ref};
        if (ref->url.cloud && ty_str_ends(ref->url.name, TY_STR("/")) && !d->url.cloud)
            continue; /* a mark for a folder, made by a web page: no file */
        ty_err err =
            storage_destination_of(c->s, a, ref, many, src->top > 1, o->recursive, d, &copy->to);
        if (err == TY_OK)
            err = place_check(c, copy);
        if (err != TY_OK)
            return err;
        if (!copy->to.cloud && ref->url.cloud && leads_out(ref->url.name)) {
            fprintf(
                stderr,
                "Skipping copy of source URL %s because it would be copied outside the expected "
                "destination directory: " TY_STR_FMT ".\n",
                storage_url_text(a, &ref->url), TY_STR_ARG(d->url.name));
            continue;
        }
        count++;
    }
    if (c->s->style == STORAGE_GCLOUD && count > 1)
        count = copies_thin(c->s, copies, count);
    *ret_copies = copies;
    *ret_count = count;
    return TY_OK;
}

/* Lines of standard input, for -I. */
static ty_err words_from_stdin(struct storage *s, char ***ret_words, size_t *ret_count)
{
    struct ty_buf b;
    char piece[65536];
    ssize_t n;
    ty_buf_init(&b, STDIN_BYTES);
    while ((n = read(STDIN_FILENO, piece, sizeof(piece))) > 0)
        ty_buf_add(&b, piece, (size_t)n);
    ty_err err = ty_buf_check(&b, "the list of names on standard input");
    ty_str text = ty_str_dup(s->arena, ty_buf_str(&b)), line;
    ty_buf_clear(&b);
    size_t room = 1;
    for (size_t i = 0; i < text.len; i++)
        room += text.ptr[i] == '\n';
    *ret_words = ty_new_array(s->arena, char *, room);
    *ret_count = 0;
    bool more = err == TY_OK && text.len > 0;
    while (more) {
        more = ty_str_split(&text, '\n', &line);
        if (line.len > 0)
            (*ret_words)[(*ret_count)++] = ty_cstr(s->arena, line);
    }
    return err;
}

/* "cp gs://b/o -": all sources to standard output. */
static ty_err copies_print(struct storage_conn *c, struct sources *src)
{
    ty_err err = TY_OK;
    bool gcloud = c->s->style == STORAGE_GCLOUD;
    if (gcloud)
        fputs("WARNING: Using sequential instead of parallel task execution to write to a "
              "stream.\n",
              stderr);
    for (size_t i = 0; i < src->refs.count && err == TY_OK; i++) {
        const struct storage_url *url = &src->refs.items[i].url;
        if (gcloud)
            storage_note(c->s, "Copying %s to file://-\n", storage_url_text(c->s->arena, url));
        if (!url->cloud)
            err = storage_fail(c->s, TY_INVALID_ARGUMENT, "'" TY_STR_FMT "' is not in a bucket",
                               TY_STR_ARG(url->name));
        else
            err = storage_cat_object(c, url, (ty_str){"", 0});
    }
    src->omitted &= src->refs.count == 0;
    src->refs.count = 0; /* done */
    return err;
}

static ty_err wrong_count(const struct storage *s)
{
    if (s->style == STORAGE_GCLOUD)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "Must have URL arguments if not reading paths from stdin.");
    return storage_fail(s, TY_INVALID_ARGUMENT, "Wrong number of arguments for \"%s\" command.",
                        s->command);
}

/* Copy what was found, then tell of what was not. */
static int sources_copy(struct storage_conn *c, const struct storage_options *o,
                        struct sources *src, const struct storage_destination *d, bool move)
{
    struct storage *s = c->s;
    struct storage_copy *copies = NULL;
    size_t count = 0, missing = 0;
    int status = STORAGE_OK;
    bool stdin_first = src->refs.count > 0 && src->refs.items[0].url.stream;
    if (stdin_first && s->style == STORAGE_GCLOUD)
        fputs("WARNING: Using sequential instead of parallel task execution to transfer from "
              "stdin.\n",
              stderr);
    ty_err err = src->refs.count > 0 ? copies_plan(c, o, src, d, &copies, &count) : TY_OK;
    if (err == TY_OK && s->style == STORAGE_GSUTIL && goes_on(s, o))
        for (; missing < src->unmatched_count; missing++)
            fprintf(stderr, "CommandException: No URLs matched: %s\n", src->unmatched[missing]);
    if (err == TY_OK && count + missing > 0)
        status = storage_copies_run(c, o, copies, count, missing, move);
    if (err == TY_OK && src->unmatched_count > missing)
        err = storage_fail_unmatched(s, src->unmatched, src->unmatched_count);
    else if (err == TY_OK && src->omitted && src->refs.count == 0)
        err = storage_fail(s, TY_NOT_FOUND,
                           "No URLs matched. Do the files you're operating on exist?");
    return err == TY_OK ? status : storage_say_error(c, s->command, err);
}

static int copy_words(struct storage *s, const struct storage_options *given, char **words,
                      int count, bool move)
{
    struct storage_options o = *given;
    struct storage_conn c;
    struct storage_destination d = {0};
    struct sources src = {0};
    size_t source_count = count > 0 ? (size_t)count - 1 : 0;
    char **sources = words;
    o.recursive |= move;
    ty_err err = storage_conn_open(&c, s);
    if (err == TY_OK && o.stdin_names && count == 1)
        err = words_from_stdin(s, &sources, &source_count);
    if (err == TY_OK && (count < 1 || (source_count < 1 && !o.stdin_names)))
        err = wrong_count(s);
    if (err == TY_OK)
        err = storage_destination_find(&c, words[count - 1], &d);
    if (err == TY_OK)
        err = sources_find(&c, &o, sources, source_count, &src);
    if (err == TY_OK && d.url.stream)
        err = copies_print(&c, &src);
    int status = err != TY_OK ? storage_say_error(&c, s->command, err)
                              : sources_copy(&c, &o, &src, &d, move);
    storage_conn_close(&c);
    return status;
}

int storage_cp(struct storage *s, const struct storage_options *o, char **words, int count)
{
    return copy_words(s, o, words, count, false);
}

int storage_mv(struct storage *s, const struct storage_options *o, char **words, int count)
{
    return copy_words(s, o, words, count, true);
}
