#include "sources/hf_listing.h"

#include <string.h>

#define HEX40 "0123456789abcdef0123456789abcdef01234567"
#define HEX64 "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"

static GBytes *
bytes_of (const char *text)
{
  return g_bytes_new_static (text, strlen (text));
}

static void
test_info (void)
{
  g_autoptr (GBytes) json = bytes_of (
    "{\"_id\":\"x\",\"id\":\"owner/name\",\"sha\":\"" HEX40 "\",\"gated\":\"auto\",\"private\":true,"
    "\"pipeline_tag\":\"text-generation\",\"cardData\":{\"license\":[\"apache-2.0\",\"mit\"],"
    "\"model-index\":[{\"results\":[{\"task\":{\"type\":\"sts\"}},{\"task\":7},5]},null,{\"results\":{}}]},"
    "\"siblings\":[{\"rfilename\":\"config.json\"},{\"rfilename\":\"a/m.safetensors\",\"size\":9,\"blobId\":\"" HEX40
    "\",\"lfs\":{\"size\":5000000000,\"sha256\":\"" HEX64 "\",\"pointerSize\":135}}]}");
  g_autoptr (GError) error = NULL;
  g_autoptr (HfInfo) info = hf_info_parse (json, FALSE, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (info->id, ==, "owner/name");
  g_assert_cmpstr (info->commit, ==, HEX40);
  g_assert_cmpstr (info->task, ==, "text-generation");
  g_assert_cmpstr (info->license, ==, "apache-2.0");
  g_assert_cmpuint (g_strv_length (info->index_tasks), ==, 1);
  g_assert_cmpstr (info->index_tasks[0], ==, "sts");
  g_assert_true (info->is_gated && info->is_private);
  g_assert_cmpuint (info->files->len, ==, 2);
  const HfFile *file = &g_array_index (info->files, HfFile, 0);
  g_assert_cmpuint (file->size_bytes, ==, G_MAXUINT64);
  g_assert_null (file->blob_id);
  file = &g_array_index (info->files, HfFile, 1);
  g_assert_cmpstr (file->path, ==, "a/m.safetensors");
  g_assert_cmpuint (file->size_bytes, ==, 5000000000);
  g_assert_cmpstr (file->sha256, ==, HEX64);
  g_assert_null (file->blob_id);
}

static void
test_tree (void)
{
  g_autoptr (GBytes) json = bytes_of (
    "[{\"type\":\"directory\",\"oid\":\"x\",\"path\":\"a\"},{\"type\":\"submodule\",\"path\":\"../b\"},"
    "{\"type\":\"file\",\"oid\":\"" HEX40 "\",\"size\":12,\"path\":\"config.json\",\"lfs\":null},"
    "{\"type\":\"file\",\"oid\":\"" HEX40 "\",\"size\":7,\"path\":\"m.gguf\",\"xetHash\":\"" HEX64
    "\",\"lfs\":{\"oid\":\"" HEX64 "\",\"size\":7,\"pointerSize\":130}}]");
  g_autoptr (GError) error = NULL;
  g_autoptr (GArray) files = hf_files_new ();
  g_assert_true (hf_tree_parse (json, files, &error));
  g_assert_cmpuint (files->len, ==, 2);
  g_assert_cmpstr (g_array_index (files, HfFile, 0).blob_id, ==, HEX40);
  g_assert_cmpuint (g_array_index (files, HfFile, 0).size_bytes, ==, 12);
  g_assert_null (g_array_index (files, HfFile, 0).sha256);
  g_assert_cmpstr (g_array_index (files, HfFile, 1).sha256, ==, HEX64);
  g_assert_null (g_array_index (files, HfFile, 1).blob_id);
}

#define INFO(id, sha) "{\"id\":\"" id "\",\"sha\":\"" sha "\"}"

/* Pitfalls A25 A29 A32 among them. */
static const struct {
  const char *json, *reason;
  gboolean is_mirror;
} bad_infos[] = {
  { "\n <!doctype html>", "HubAnswer" },
  { "", "HubAnswer" },
  { "{\"id\":", "HubAnswer" },
  { "[]", "HubAnswer" },
  { "{}", "HubAnswer" },
  { INFO ("../x", HEX40), "HubAnswer" },
  { INFO ("a/b", "main"), "HubAnswer" },
  { INFO ("a/b", HEX64), "HubAnswer" },
  { INFO ("a/b", "a/b"), "HubAnswer", TRUE },
  { INFO ("a/b", ""), "HubAnswer", TRUE },
  { "{\"id\":\"a/b\",\"sha\":\"" HEX40 "\",\"siblings\":[{\"rfilename\":\"../../etc/passwd\"}]}", "FileRejected" },
  { "{\"id\":\"a/b\",\"sha\":\"" HEX40 "\",\"siblings\":[{\"rfilename\":\"a\\\\b\"}]}", "FileRejected" },
  { "{\"id\":\"a/b\",\"sha\":\"" HEX40 "\",\"siblings\":[7]}", "FileRejected" },
};

static void
test_bad_infos (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (bad_infos); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) json = bytes_of (bad_infos[i].json);
      g_autoptr (HfInfo) info = hf_info_parse (json, bad_infos[i].is_mirror, &error);
      g_assert_null (info);
      g_assert_error (error, AM_ERROR, AM_ERROR_INVALID_ARGUMENT);
      g_assert_cmpstr (am_error_reason (error), ==, bad_infos[i].reason);
    }
}

/* Pitfalls A29. */
static void
test_commits_of_another_hub (void)
{
  g_autoptr (GBytes) json = bytes_of (INFO ("a/b", HEX64));
  g_autoptr (HfInfo) info = hf_info_parse (json, TRUE, NULL);
  g_assert_cmpstr (info->commit, ==, HEX64);
}

#define ENTRY(rest) "[{\"type\":\"file\",\"path\":\"a\"," rest "}]"

static const struct {
  const char *json, *reason;
} bad_trees[] = {
  { "{\"error\":\"no\"}", "HubAnswer" },
  { "[{\"type\":\"file\",\"path\":\"/etc/passwd\",\"size\":1}]", "FileRejected" },
  { "[{\"type\":\"file\",\"size\":1}]", "FileRejected" },
  { ENTRY ("\"size\":-1"), "HubAnswer" },
  { ENTRY ("\"size\":\"1\""), "HubAnswer" },
  { ENTRY ("\"size\":18446744073709551615"), "HubAnswer" },
  { ENTRY ("\"size\":1,\"lfs\":{}"), "HubAnswer" },
  { ENTRY ("\"size\":1,\"lfs\":{\"oid\":\"" HEX40 "\",\"size\":1}"), "HubAnswer" },
};

static void
test_bad_trees (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (bad_trees); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GArray) files = hf_files_new ();
      g_autoptr (GBytes) json = bytes_of (bad_trees[i].json);
      g_assert_false (hf_tree_parse (json, files, &error));
      g_assert_cmpstr (am_error_reason (error), ==, bad_trees[i].reason);
    }
}

static void
test_too_many_files (void)
{
  g_autoptr (GString) text = g_string_new ("[");
  for (guint i = 0; i <= HF_MAX_FILES; i++)
    g_string_append_printf (text, "%s{\"type\":\"file\",\"path\":\"f%u\",\"size\":1}", i > 0 ? "," : "", i);
  g_string_append (text, "]");
  g_autoptr (GBytes) json = bytes_of (text->str);
  g_autoptr (GArray) files = hf_files_new ();
  g_autoptr (GError) error = NULL;
  g_assert_false (hf_tree_parse (json, files, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_RESOURCE_EXHAUSTED);
}

/* Pitfalls A1 A2. */
static const struct {
  const char *header, *next;
} links[] = {
  { NULL, NULL },
  { "", NULL },
  { "<https://h/api?cursor=a,b>; rel=\"next\"", "https://h/api?cursor=a,b" },
  { "<https://h/1>; rel=next", "https://h/1" },
  { "</a>;rel=\"prev\", </b> ; title=\"x, <y>; rel=next\" ; REL=\"Next\"", "/b" },
  { "</a>; rel=\"xet-auth\", </b>; rel=\"last next\"", "/b" },
  { "</a>; rel=\"prev\"; rel=\"next\"", NULL },
  { "</a>; rel=\"nextish\"", NULL },
  { "</a", NULL },
  { "</a>; rel=\"next", "/a" },
};

static void
test_links (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (links); i++)
    {
      g_autofree char *next = hf_link_next (links[i].header);
      g_assert_cmpstr (next, ==, links[i].next);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/hf_listing/info", test_info);
  g_test_add_func ("/hf_listing/tree", test_tree);
  g_test_add_func ("/hf_listing/bad-infos", test_bad_infos);
  g_test_add_func ("/hf_listing/commits-of-another-hub", test_commits_of_another_hub);
  g_test_add_func ("/hf_listing/bad-trees", test_bad_trees);
  g_test_add_func ("/hf_listing/too-many-files", test_too_many_files);
  g_test_add_func ("/hf_listing/links", test_links);
  return g_test_run ();
}
