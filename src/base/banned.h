/* banned.h -- calls that are compile errors in our code.
 *
 * Included at the end of base.h, after every system header that declares these
 * names. Two reasons put a name here: it invites overruns (strcpy), or it
 * touches time, randomness, disk or processes and so must go through base's
 * seam, where tests can fail it, end the process at it, or move the clock.
 * The seam itself (sys.c) defines TY_SEAM before including base.h. */
#ifndef TY_BANNED_H
#define TY_BANNED_H

#define TY_BANNED(name, use) ty_banned_##name##_use_##use

#undef strcpy
#define strcpy(a, b) TY_BANNED(strcpy, ty_buf_add)
#undef strcat
#define strcat(a, b) TY_BANNED(strcat, ty_buf_add)
#undef strncpy
#define strncpy(a, b, n) TY_BANNED(strncpy, ty_buf_add)
#undef strncat
#define strncat(a, b, n) TY_BANNED(strncat, ty_buf_add)
#undef sprintf
#define sprintf(...) TY_BANNED(sprintf, snprintf)
#undef vsprintf
#define vsprintf(...) TY_BANNED(vsprintf, vsnprintf)
#undef strtok
#define strtok(a, b) TY_BANNED(strtok, ty_str_split)
#undef atoi
#define atoi(a) TY_BANNED(atoi, ty_parse_i64)
#undef atol
#define atol(a) TY_BANNED(atol, ty_parse_i64)
#undef localtime
#define localtime(a) TY_BANNED(localtime, localtime_r)
#undef gmtime
#define gmtime(a) TY_BANNED(gmtime, gmtime_r)

#ifndef TY_SEAM
#undef write
#define write(...) TY_BANNED(write, ty_write_all)
#undef pwrite
#define pwrite(...) TY_BANNED(pwrite, ty_write_all)
#undef fsync
#define fsync(a) TY_BANNED(fsync, ty_sync)
#undef fdatasync
#define fdatasync(a) TY_BANNED(fdatasync, ty_sync)
#undef rename
#define rename(a, b) TY_BANNED(rename, ty_rename_at)
#undef renameat
#define renameat(...) TY_BANNED(renameat, ty_rename_at)
#undef fork
#define fork() TY_BANNED(fork, ty_fork)
#undef clock_gettime
#define clock_gettime(a, b) TY_BANNED(clock_gettime, ty_now_ns)
#undef gettimeofday
#define gettimeofday(a, b) TY_BANNED(gettimeofday, ty_now_ns)
#undef rand
#define rand() TY_BANNED(rand, ty_random)
#undef random
#define random() TY_BANNED(random, ty_random)
#endif

#endif
