/* test_sha256.c -- SHA-256 and its HMAC against the published vectors. */
#include "wire/test_wire.h"

static const char *digest(ty_str text)
{
    static char out[WIRE_SHA256_HEX_BYTES];
    struct wire_sha256 h;
    wire_sha256_init(&h);
    for (size_t i = 0; i < text.len; i++) /* in the smallest pieces there are */
        wire_sha256_add(&h, text.ptr + i, 1);
    wire_sha256_end(&h, out);
    return out;
}

/* The vectors of FIPS 180-4's examples. */
static void sha256_known_vectors(void **state)
{
    (void)state;
    assert_string_equal(digest(TY_STR("")),
                        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_string_equal(digest(TY_STR("abc")),
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_string_equal(digest(TY_STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
                        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void sha256_million(void **state)
{
    (void)state;
    struct wire_sha256 h;
    char part[1000], out[WIRE_SHA256_HEX_BYTES];
    memset(part, 'a', sizeof part);
    wire_sha256_init(&h);
    for (int i = 0; i < 1000; i++)
        wire_sha256_add(&h, part, sizeof part);
    wire_sha256_end(&h, out);
    assert_string_equal(out, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void sha256_lists_differ(void **state)
{
    (void)state;
    struct wire_sha256 x, y;
    char one[WIRE_SHA256_HEX_BYTES], two[WIRE_SHA256_HEX_BYTES];
    wire_sha256_init(&x);
    wire_sha256_init(&y);
    wire_sha256_adds(&x, TY_STR("ab"));
    wire_sha256_adds(&x, TY_STR("c"));
    wire_sha256_adds(&y, TY_STR("a"));
    wire_sha256_adds(&y, TY_STR("bc"));
    wire_sha256_end(&x, one);
    wire_sha256_end(&y, two);
    assert_string_not_equal(one, two);
}

static const char *keyed(ty_str key, ty_str text)
{
    static char out[WIRE_SHA256_HEX_BYTES];
    wire_hmac_sha256(key, text, out);
    return out;
}

/* `n` times the same byte; two of them may be in use at once. */
static ty_str same(char byte, size_t n)
{
    static char bytes[2][200];
    static int turn;
    turn = !turn;
    assert_true(n <= sizeof bytes[0]);
    memset(bytes[turn], byte, n);
    return (ty_str){bytes[turn], n};
}

/* RFC 4231, section 4; its case 5 is about cutting the digest short, which we never do. */
static void hmac_known_vectors(void **state)
{
    (void)state;
    assert_string_equal(keyed(same('\x0b', 20), TY_STR("Hi There")),
                        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    assert_string_equal(keyed(TY_STR("Jefe"), TY_STR("what do ya want for nothing?")),
                        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    assert_string_equal(keyed(same('\xaa', 20), same('\xdd', 50)),
                        "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    assert_string_equal(
        keyed(TY_STR("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13"
                     "\x14\x15\x16\x17\x18\x19"),
              same('\xcd', 50)),
        "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
    assert_string_equal(
        keyed(same('\xaa', 131), TY_STR("Test Using Larger Than Block-Size Key - Hash Key First")),
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    assert_string_equal(
        keyed(
            same('\xaa', 131),
            TY_STR("This is a test using a larger than block-size key and a larger than block-size "
                   "data. The key needs to be hashed before being used by the HMAC algorithm.")),
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

static void hmac_empty(void **state)
{
    (void)state;
    assert_string_equal(keyed((ty_str){0}, TY_STR("")),
                        "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

static void same_bytes(void **state)
{
    (void)state;
    assert_true(wire_same_bytes(TY_STR(""), (ty_str){0}));
    assert_true(wire_same_bytes(TY_STR("abc"), TY_STR("abc")));
    assert_false(wire_same_bytes(TY_STR("abc"), TY_STR("abd")));
    assert_false(wire_same_bytes(TY_STR("bbc"), TY_STR("abc")));
    assert_false(wire_same_bytes(TY_STR("abc"), TY_STR("ab")));
}

static const struct CMUnitTest tests[] = {
    TEST("sha256/known_vectors", sha256_known_vectors),
    TEST("sha256/million", sha256_million),
    TEST("sha256/lists_differ", sha256_lists_differ),
    TEST("hmac/known_vectors", hmac_known_vectors),
    TEST("hmac/empty", hmac_empty),
    TEST("same_bytes/tells", same_bytes),
};
RUN_GROUP(sha256)
