#include "base/digest.h"

#include <string.h>

#include "base/error.h"

#define EMPTY_256 "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define ABC_256 "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define ABC_512                                                             \
  "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a" \
  "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"

static void
test_values (void)
{
  static const struct {
    DigestAlgorithm algorithm;
    const char *content, *text;
  } rows[] = {
    { DIGEST_SHA256, "", EMPTY_256 },
    { DIGEST_SHA256, "abc", ABC_256 },
    { DIGEST_SHA512, "abc", ABC_512 },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      Digest whole, pieces, parsed;
      char text[DIGEST_STRING_SIZE];
      char hex[2 * DIGEST_MAX_BYTES + 1];
      digest_of (rows[i].algorithm, rows[i].content, strlen (rows[i].content), &whole);
      g_assert_cmpstr (digest_format (&whole, text), ==, rows[i].text);
      g_assert_cmpstr (digest_hex (&whole, hex), ==, rows[i].text + 7);
      g_autoptr (Hasher) hasher = hasher_new (rows[i].algorithm);
      for (const char *c = rows[i].content; *c != '\0'; c++)
        hasher_update (hasher, c, 1);
      hasher_finish (hasher, &pieces);
      g_assert_true (digest_equal (&whole, &pieces));
      g_assert_true (digest_parse (rows[i].text, &parsed, NULL));
      g_assert_true (digest_equal (&whole, &parsed));
      g_assert_true (digest_equal_secret (&whole, &parsed));
      g_assert_cmpuint (digest_hash (&whole), ==, digest_hash (&parsed));
      g_autofree char *copy = digest_to_string (&parsed);
      g_assert_cmpstr (copy, ==, rows[i].text);
      parsed.bytes[digest_algorithm_size (parsed.algorithm) - 1] ^= 1;
      g_assert_false (digest_equal (&whole, &parsed));
      g_assert_false (digest_equal_secret (&whole, &parsed));
    }
}

static void
test_bad (void)
{
  static const char *const rows[] = {
    NULL,
    "",
    "sha256",
    "sha256:",
    "sha256:abc",
    EMPTY_256 "0",
    EMPTY_256 " ",
    " " EMPTY_256,
    "sha256-" ABC_512,
    "SHA256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "sha256:E3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "sha256:g3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "sha512:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "md5:d41d8cd98f00b204e9800998ecf8427e",
    "sha384:00",
    "sha256:../../../etc/passwd",
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      Digest digest = { .algorithm = DIGEST_SHA512, .bytes = { 9 } };
      g_assert_false (digest_parse (rows[i], &digest, &error));
      g_assert_error (error, AM_ERROR, AM_ERROR_INVALID_ARGUMENT);
      g_assert_cmpstr (am_error_reason (error), ==, "DIGEST_INVALID");
      g_assert_cmpint (digest.bytes[0], ==, 9); /* written only on success */
    }
}

/* Two algorithms never agree, whatever their bytes. */
static void
test_algorithms_differ (void)
{
  Digest a = { .algorithm = DIGEST_SHA256 }, b = { .algorithm = DIGEST_SHA512 };
  g_assert_false (digest_equal (&a, &b));
  g_assert_cmpuint (digest_algorithm_size (DIGEST_SHA256), ==, 32);
  g_assert_cmpuint (digest_algorithm_size (DIGEST_SHA512), ==, 64);
  g_assert_cmpstr (digest_algorithm_name (DIGEST_SHA512), ==, "sha512");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/digest/values", test_values);
  g_test_add_func ("/digest/bad", test_bad);
  g_test_add_func ("/digest/algorithms-differ", test_algorithms_differ);
  return g_test_run ();
}
