#include "registry/upload_location.h"

#include "net/http_client.h"

static const struct {
  const char *request, *location;
  const char *resolved; /* NULL: refused */
} locations[] = {
  { "https://h/v2/n/blobs/uploads/", "/v2/n/blobs/uploads/1?s=a%2Bb", "https://h/v2/n/blobs/uploads/1?s=a%2Bb" },
  { "https://h:1/v2/n/blobs/uploads/", "1", "https://h:1/v2/n/blobs/uploads/1" },
  { "https://h/v2/n/blobs/uploads/9?x=y", "?z=1", "https://h/v2/n/blobs/uploads/9?z=1" },
  { "https://h/a", "https://other/b?c=d#e", "https://other/b?c=d" },
  { "http://h/a", "https://h/b", "https://h/b" },
  { "https://h/a", "http://h/b", NULL },
  { "https://h/a", "ftp://h/b", NULL },
  { "https://h/a", "file:///etc/passwd", NULL },
  { "https://h/a", NULL, NULL },
};

static void
test_resolve (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (locations); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *resolved = upload_location_resolve (locations[i].request, locations[i].location, &error);
      g_assert_cmpstr (resolved, ==, locations[i].resolved);
      g_assert_cmpint (error != NULL, ==, resolved == NULL);
    }
}

static const struct {
  const char *location, *below, *with;
} additions[] = {
  { "http://h/u", "http://h/u/known", "http://h/u?digest=d" },
  { "http://h/u?s=1", "http://h/u/known?s=1", "http://h/u?s=1&digest=d" },
  { "http://h/u/?s=1&t=2", "http://h/u/known?s=1&t=2", "http://h/u/?s=1&t=2&digest=d" },
  { "http://h/u?", "http://h/u/known?", "http://h/u?digest=d" },
  { "http://h/u?s=1&", "http://h/u/known?s=1&", "http://h/u?s=1&digest=d" },
};

static void
test_add (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (additions); i++)
    {
      g_autofree char *below = upload_location_below (additions[i].location, "known");
      g_autofree char *with = http_url_with (additions[i].location, "digest", "d");
      g_assert_cmpstr (below, ==, additions[i].below);
      g_assert_cmpstr (with, ==, additions[i].with);
    }
}

static const struct {
  const char *url, *origin;
} origins[] = {
  { "https://H/x?y", "https://h:443" },
  { "http://h:80", "http://h:80" },
  { "http://h", "http://h:80" },
  { "https://[::1]:5/x", "https://[::1]:5" },
  { "ftp://h", NULL },
  { "h/x", NULL },
  { NULL, NULL },
};

static void
test_origin (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (origins); i++)
    {
      g_autofree char *origin = http_origin (origins[i].url);
      g_assert_cmpstr (origin, ==, origins[i].origin);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/upload-location/resolve", test_resolve);
  g_test_add_func ("/upload-location/add", test_add);
  g_test_add_func ("/upload-location/origin", test_origin);
  return g_test_run ();
}
