/* An address as a person pastes it: what is accepted names a repository, a revision and a path that are safe to put
 * into another address, and the canonical form means the same. */
#include "sources/hf_url.h"

#include <string.h>

#include "base/file.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static char *
write_out (const HfUrl *url)
{
  g_autofree char *revision = g_uri_escape_string (url->revision != NULL ? url->revision : "main", NULL, FALSE);
  g_autofree char *path = g_uri_escape_string (url->path != NULL ? url->path : "", "/", FALSE);
  return g_strdup_printf ("https://huggingface.co/%s/tree/%s/%s", url->repository, revision, path);
}

static void
check_same (const HfUrl *url)
{
  g_auto (HfUrl) again = { 0 };
  g_autofree char *text = write_out (url);
  /* Names that are words of an address too have no form without an owner. */
  if (strlen (text) > 4000 || strchr (url->repository, '/') == NULL)
    return;
  g_assert_true (hf_url_parse (text, NULL, &again, NULL));
  g_assert_cmpstr (again.repository, ==, url->repository);
  if (strchr (url->revision != NULL ? url->revision : "main", '/') != NULL)
    {
      g_assert_cmpstr (again.revision, ==, url->revision);
      g_assert_cmpstr (again.path, ==, url->path);
    }
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autofree char *text = g_strndup ((const char *) data, size);
  g_autoptr (GError) error = NULL;
  g_auto (HfUrl) url = { 0 };
  if (!hf_url_parse (text, "http://mirror/hf", &url, &error))
    {
      g_assert_nonnull (error);
      g_assert_null (url.repository);
      return 0;
    }
  g_assert_true (hf_url_is (text, "http://mirror/hf"));
  do
    {
      g_assert_true (hf_repository_is_valid (url.repository));
      g_assert_true (url.revision == NULL || path_is_safe (url.revision));
      g_assert_true (url.path == NULL || path_is_safe (url.path));
      check_same (&url);
    }
  while (hf_url_widen (&url));
  return 0;
}
