#include "storage/repository_links.h"

#include <string.h>

#include "storage/storage_fixture.h"

/* Passes listings on and counts what they cost. */
typedef struct {
  ObjectStore base;
  ObjectStore *inner;
  guint n_lists, n_keys;
} CountingStore;

static GPtrArray *
counting_list (Ctx *ctx, ObjectStore *base, const char *prefix, const char *after, guint limit, GError **error)
{
  CountingStore *self = (CountingStore *) base;
  GPtrArray *page = object_store_list (ctx, self->inner, prefix, after, limit, error);
  self->n_lists++;
  self->n_keys += page != NULL ? page->len : 0;
  return page;
}

static const ObjectStoreClass counting_class = { .list = counting_list };

static void
put_repository (StorageFixture *self, const char *name, guint n_layers)
{
  g_autoptr (GError) error = NULL;
  Digest digest;
  for (guint i = 0; i < n_layers; i++)
    {
      digest_of (DIGEST_SHA256, &i, sizeof i, &digest);
      fixture_assert_ok (layer_link_put (NULL, self->objects, name, &digest, &error), error);
      fixture_assert_ok (manifest_link_put (NULL, self->objects, name, &digest, &error), error);
    }
  fixture_assert_ok (tag_put (NULL, self->objects, name, "v1", &digest, &error), error);
}

/* However many links a repository has, one key of it is read. */
static void
test_repositories (StorageFixture *self, gconstpointer data)
{
  static const char *const names[] = { "a", "a-b", "a/b", "a/b/c", "a0", "team/model", "team/model-2", "z_z/y.y" };
  g_autoptr (GError) error = NULL;
  CountingStore counting = { { &counting_class }, self->objects, 0, 0 };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    put_repository (self, names[i], 3);
  g_autoptr (GPtrArray) found = repository_list (NULL, &counting.base, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (found->len, ==, G_N_ELEMENTS (names));
  for (guint i = 0; i < found->len; i++)
    g_assert_cmpstr (g_ptr_array_index (found, i), ==, names[i]);
  g_assert_cmpuint (counting.n_keys, ==, G_N_ELEMENTS (names));
  g_assert_cmpuint (counting.n_lists, ==, G_N_ELEMENTS (names) + 1);
}

static void
test_no_repositories (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) found = repository_list (NULL, self->objects, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (found->len, ==, 0);
}

typedef struct {
  GPtrArray *seen; /* "text" of each descriptor */
  guint stop_after;
} Seen;

static gboolean
see (const Digest *referrer, GBytes *descriptor, gpointer data, gboolean *goes_on, GError **error)
{
  Seen *self = data;
  char text[DIGEST_STRING_SIZE];
  char *content = g_strndup (g_bytes_get_data (descriptor, NULL), g_bytes_get_size (descriptor));
  g_assert_cmpstr (content, ==, digest_format (referrer, text));
  g_ptr_array_add (self->seen, content);
  *goes_on = self->seen->len != self->stop_after;
  return TRUE;
}

static void
walk (StorageFixture *self, const Digest *subject, const Digest *after, guint stop_after, Seen *seen)
{
  g_autoptr (GError) error = NULL;
  seen->seen = g_ptr_array_new_with_free_func (g_free);
  seen->stop_after = stop_after;
  fixture_assert_ok (referrer_walk (NULL, self->objects, "m", subject, after, see, seen, &error), error);
}

static void
test_referrers (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Digest subject, other, referrer, third = { 0 };
  Seen all, head, rest;
  digest_of (DIGEST_SHA256, "s", 1, &subject);
  digest_of (DIGEST_SHA512, "o", 1, &other);
  for (guint i = 0; i < 20; i++)
    {
      char text[DIGEST_STRING_SIZE];
      digest_of (i % 4 == 0 ? DIGEST_SHA512 : DIGEST_SHA256, &i, sizeof i, &referrer);
      fixture_assert_ok (
        referrer_put (NULL, self->objects, "m", &subject, &referrer, digest_format (&referrer, text), &error), error);
    }
  fixture_put (self->objects, "docker/registry/v2/repositories/m/_referrers/sha256/x/odd", "not ours");
  walk (self, &subject, NULL, 0, &all);
  g_assert_cmpuint (all.seen->len, ==, 20);
  for (guint i = 1; i < all.seen->len; i++)
    g_assert_cmpstr (g_ptr_array_index (all.seen, i - 1), <, g_ptr_array_index (all.seen, i));
  walk (self, &subject, NULL, 3, &head);
  g_assert_cmpuint (head.seen->len, ==, 3);
  g_assert_true (digest_parse (g_ptr_array_index (head.seen, 2), &third, &error));
  walk (self, &subject, &third, 0, &rest);
  g_assert_cmpuint (rest.seen->len, ==, 17);
  g_assert_cmpstr (g_ptr_array_index (rest.seen, 0), ==, g_ptr_array_index (all.seen, 3));
  g_ptr_array_unref (rest.seen);
  walk (self, &other, NULL, 0, &rest);
  g_assert_cmpuint (rest.seen->len, ==, 0);
  g_ptr_array_unref (rest.seen);
  g_ptr_array_unref (head.seen);
  g_ptr_array_unref (all.seen);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  STORAGE_TEST ("/repository-links/repositories", test_repositories);
  STORAGE_TEST ("/repository-links/no-repositories", test_no_repositories);
  STORAGE_TEST ("/repository-links/referrers", test_referrers);
  return g_test_run ();
}
