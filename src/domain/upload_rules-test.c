#include "domain/upload_rules.h"

#include <string.h>

#define LITERAL(text) (const guint8 *) text, sizeof text - 1

static guint8 tar_head[512];

static void
test_names (void)
{
  g_autofree char *longest = g_strnfill (200, 'x'), *too_long = g_strnfill (201, 'x');
  const struct {
    const char *sent, *name;
  } rows[] = {
    { "model.gguf", "model.gguf" },
    { "/tmp/a/model.gguf", "model.gguf" },
    { "C:\\x\\model.gguf", "model.gguf" },
    { "a\\b/c.gguf", "c.gguf" },
    { "a/b\\c.gguf", "c.gguf" },
    { "модель.gguf", "модель.gguf" },
    { "", NULL },
    { NULL, NULL },
    { ".", NULL },
    { "..", NULL },
    { "a/..", NULL },
    { ".hidden", NULL },
    { "a/", NULL },
    { "a\n", NULL },
    { "a\x7f", NULL },
    { "\xff", NULL },
    { longest, longest },
    { too_long, NULL },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *name = upload_file_name (rows[i].sent);
      g_assert_cmpstr (name, ==, rows[i].name);
    }
}

static void
test_dispositions (void)
{
  static const struct {
    const char *header, *name;
  } rows[] = {
    { "attachment; filename=a.gguf", "a.gguf" },
    { "attachment;filename=\"a b;c.gguf\"", "a b;c.gguf" },
    { "attachment; FileName = \"a\\\"b\\\\.gguf\" ; size=1", "a\"b\\.gguf" },
    { "attachment; size=\"x;filename=no\"; filename=yes", "yes" },
    { "attachment; filename=\"open", "open" },
    { "attachment; filename=\"open\\", "open\\" },
    { "attachment; filename=", "" },
    { "attachment; filename", NULL },
    { "attachment; filename*=UTF-8''a", NULL },
    { "attachment; xfilename=a", NULL },
    { "filename=a", NULL },
    { "; filename=a", "a" },
    { ";;; ;filename=a", "a" },
    { "attachment", NULL },
    { "", NULL },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *name = upload_disposition_name (rows[i].header);
      g_assert_cmpstr (name, ==, rows[i].name);
    }
}

static void
test_inferred (void)
{
  g_autofree char *longest = g_strnfill (253, 'x'), *name_of_longest = upload_infer_name (longest, LITERAL ("GGUF"));
  g_autofree char *as_sent = upload_file_name (name_of_longest);
  g_assert_cmpstr (as_sent, ==, name_of_longest);
  const struct {
    const char *owner;
    const guint8 *head;
    gsize size;
    const char *name;
  } rows[] = {
    { "m", LITERAL ("GGUF\3"), "m.gguf" },
    { "", LITERAL ("GGUF"), "model.gguf" },
    { NULL, LITERAL ("GGU"), "model.bin" },
    { "m", LITERAL ("PK\3\4"), "m.zip" },
    { "m", LITERAL ("PK\5\6"), "m.zip" },
    { "m", LITERAL ("PK\7\10"), "m.zip" },
    { "m", LITERAL ("\x1f\x8b"), "m.tar.gz" },
    { "m", LITERAL ("\x28\xb5\x2f\xfd"), "m.tar.zst" },
    { "m", tar_head, sizeof tar_head, "m.tar" },
    { "m", tar_head, 261, "m.bin" },
    { "m", tar_head, 0, "m.bin" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *name = upload_infer_name (rows[i].owner, rows[i].head, rows[i].size);
      g_assert_cmpstr (name, ==, rows[i].name);
    }
}

static void
test_checks (void)
{
  static const guint8 too_much[UPLOAD_PROBE_BYTES + 1] = "GGUF";
  const struct {
    const char *name;
    const guint8 *head;
    gsize size;
    const char *format, *message; /* one of them */
  } rows[] = {
    { "a.gguf", LITERAL ("GGUF"), "GGUF", NULL },
    { "A.GGUF", LITERAL ("GGUF"), "GGUF", NULL },
    { "a.zip", LITERAL ("PK\3\4"), "", NULL },
    { "a.tar.gz", LITERAL ("\x1f\x8b"), "", NULL },
    { "a.tgz", LITERAL ("\x1f\x8b"), "", NULL },
    { "a.tar.zst", LITERAL ("\x28\xb5\x2f\xfd"), "", NULL },
    { "a.tar.zstd", LITERAL ("\x28\xb5\x2f\xfd"), "", NULL },
    { "a.tzst", LITERAL ("\x28\xb5\x2f\xfd"), "", NULL },
    { "a.tar", tar_head, sizeof tar_head, "", NULL },
    { "a.gguf", too_much, UPLOAD_PROBE_BYTES, "GGUF", NULL },
    { "a.gguf", too_much, UPLOAD_PROBE_BYTES + 1, NULL, "more than the first" },
    { "a.gguf", LITERAL (""), NULL, "is empty" },
    { "a.gguf", LITERAL ("PK\3\4"), NULL, "does not begin as a GGUF file" },
    { "a.zip", LITERAL ("GGUF"), NULL, "does not begin as a zip archive" },
    { "a.tar", LITERAL ("\x1f\x8b"), NULL, "does not begin as a tar archive" },
    { "a.safetensors", LITERAL ("\x10\0\0\0\0\0\0\0{"), NULL, "upload an archive with it and its config.json" },
    { "a.bin", LITERAL ("GGUF"), NULL, "cannot be published" },
    { "gguf", LITERAL ("GGUF"), NULL, "cannot be published" },
    { "a.gz", LITERAL ("\x1f\x8b"), NULL, "cannot be published" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const char *format = NULL;
      g_autoptr (GError) error = NULL;
      gboolean good = upload_check (rows[i].name, rows[i].head, rows[i].size, &format, &error);
      g_assert_cmpint (good, ==, rows[i].message == NULL);
      g_assert_cmpstr (format, ==, rows[i].format);
      g_assert_true (good
                     || (am_error_is (error, AM_ERROR_INVALID_ARGUMENT) && strstr (error->message, rows[i].message)));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  memcpy (tar_head + 257, "ustar", 5);
  g_test_add_func ("/upload-rules/names", test_names);
  g_test_add_func ("/upload-rules/dispositions", test_dispositions);
  g_test_add_func ("/upload-rules/inferred", test_inferred);
  g_test_add_func ("/upload-rules/checks", test_checks);
  return g_test_run ();
}
