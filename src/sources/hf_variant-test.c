#include "sources/hf_variant.h"

#include <string.h>

static const char *const repository[] = {
  "README.md",
  "tiny-Q4_K_M.gguf",
  "tiny-Q4_K_S.gguf",
  "tiny-UD-Q4_K_M.gguf",
  "tiny-Q8_0-00001-of-00002.gguf",
  "tiny-Q8_0-00002-of-00002.gguf",
  "tiny-iq2_xs.GGUF",
  "tiny.f16.gguf",
  "mmproj-tiny-BF16.gguf",
  "tiny-imatrix-F32.gguf",
  "MXFP4/tiny-00001-of-00003.gguf",
  "MXFP4/tiny-00003-of-00003.gguf",
  "MXFP4/tiny-00002-of-00003.gguf",
  "two/a.gguf",
  "two/b.gguf",
  "Q4_K_M.bin",
};

static const struct {
  const char *variant;
  const char *path; /* NULL: refused */
  const char *says;
} rows[] = {
  { "Q4_K_M", "tiny-Q4_K_M.gguf", NULL },
  { "q4_k_m", "tiny-Q4_K_M.gguf", NULL },
  { "Q4_K_S", "tiny-Q4_K_S.gguf", NULL },
  { "UD-Q4_K_M", "tiny-UD-Q4_K_M.gguf", NULL },
  { "Q8_0", "tiny-Q8_0-00001-of-00002.gguf", NULL },
  { "IQ2_XS", "tiny-iq2_xs.GGUF", NULL },
  { "F16", "tiny.f16.gguf", NULL },
  { "tiny.f16.gguf", "tiny.f16.gguf", NULL },
  { "mxfp4", "MXFP4/tiny-00001-of-00003.gguf", NULL },
  { "BF16", NULL, "no GGUF file for \"BF16\", but tiny-Q4_K_M.gguf" },
  { "F32", NULL, "no GGUF file" },
  { "Q4_K", NULL, "no GGUF file" },
  { "K_M", NULL, "fits several files" },
  { "latest", NULL, "no GGUF file" },
  { "two", NULL, "fits several files, give the address of one: two/a.gguf, two/b.gguf" },
};

static GArray *
files_of (const char *const *paths, gsize n_paths)
{
  GArray *files = hf_files_new ();
  for (gsize i = 0; i < n_paths; i++)
    {
      HfFile file = { .path = g_strdup (paths[i]) };
      g_array_append_val (files, file);
    }
  return files;
}

static void
test_find (void)
{
  g_autoptr (GArray) files = files_of (repository, G_N_ELEMENTS (repository));
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_test_message ("%s", rows[i].variant);
      g_assert_cmpstr (hf_variant_find (files, rows[i].variant, &error), ==, rows[i].path);
      if (rows[i].path == NULL)
        g_assert_nonnull (strstr (error->message, rows[i].says));
    }
}

static void
test_none (void)
{
  g_autoptr (GArray) files = files_of (repository, 1);
  g_autoptr (GError) error = NULL;
  g_assert_null (hf_variant_find (files, "Q4_0", &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_NOT_FOUND);
  g_assert_cmpstr (error->message, ==, "it has no GGUF file for \"Q4_0\"");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/hf_variant/find", test_find);
  g_test_add_func ("/hf_variant/none", test_none);
  return g_test_run ();
}
