/* upload_int.h -- an upload in progress, shared by upload.c and session.c. */
#ifndef TY_OBJECTS_UPLOAD_INT_H
#define TY_OBJECTS_UPLOAD_INT_H

#include "objects/objects_int.h"

enum { EXPECT_MD5 = 1, EXPECT_CRC32C = 2 };

struct objects_upload {
    struct objects *o;
    struct ty_arena arena; /* what the target said */
    ty_str bucket, name;
    struct object_conditions conditions;
    struct object_settings settings;
    int fd;
    char stage[STAGE_BYTES];
    int64_t offset;  /* bytes in the file */
    int64_t skip;    /* bytes to come that the file already has */
    int64_t flushed; /* up to here the kernel was asked to write out */
    struct md5 md5;
    uint32_t crc32c;
    unsigned expect; /* EXPECT_ */
    unsigned char expect_md5[16];
    uint32_t expect_crc32c;
    bool finished, broken;
    /* of a session: */
    bool session; /* its id is the stage's name */
    int64_t size; /* declared; -1: not */
    int64_t recorded;
    uint64_t claim;
};

struct objects_upload *upload_new(struct objects *o, const struct object_target *target);
TY_NODISCARD ty_err target_check(const struct object_target *target);
/* Returns err. After a full disk, what no row counts on goes at once: all of an upload in one
 * request, of a session what came after its recorded offset. */
TY_NODISCARD ty_err upload_failed(struct objects_upload *u, ty_err err);
/* Sync, and write offset and hashes into the session's row. */
TY_NODISCARD ty_err session_record(struct objects_upload *u);

#endif
