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

static Digest
digest_of_text (const char *text, DigestAlgorithm algorithm)
{
  Digest digest;
  digest_of (algorithm, text, strlen (text), &digest);
  return digest;
}

typedef gboolean (*LinkChange) (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *digest,
                                GError **error);
typedef gboolean (*LinkQuestion) (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *digest,
                                  gboolean *out_exists, GError **error);

static gboolean
is_linked (StorageFixture *self, LinkQuestion question, const char *repository, const Digest *digest)
{
  g_autoptr (GError) error = NULL;
  gboolean exists = TRUE;
  fixture_assert_ok (question (NULL, self->objects, repository, digest, &exists, &error), error);
  return exists;
}

/* A link belongs to one repository, one kind and one algorithm. */
static void
test_membership (StorageFixture *self, gconstpointer data)
{
  static const struct {
    LinkChange put, remove;
    LinkQuestion question, other_kind;
  } kinds[] = {
    { layer_link_put, layer_link_remove, layer_link_exists, manifest_link_exists },
    { layer_link_put, layer_link_remove, layer_link_claim, manifest_link_exists },
    { manifest_link_put, manifest_link_remove, manifest_link_exists, layer_link_exists },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (kinds); i++)
    for (guint algorithm = 0; algorithm < 2; algorithm++)
      {
        g_autoptr (GError) error = NULL;
        Digest digest = digest_of_text ("a", (DigestAlgorithm) algorithm);
        Digest other = digest_of_text ("a", algorithm == 0 ? DIGEST_SHA512 : DIGEST_SHA256);
        g_assert_false (is_linked (self, kinds[i].question, "a/b", &digest));
        fixture_assert_ok (kinds[i].put (NULL, self->objects, "a/b", &digest, &error), error);
        fixture_assert_ok (kinds[i].put (NULL, self->objects, "a/b", &digest, &error), error);
        g_assert_true (is_linked (self, kinds[i].question, "a/b", &digest));
        g_assert_false (is_linked (self, kinds[i].question, "a/b", &other));
        g_assert_false (is_linked (self, kinds[i].question, "a", &digest));
        g_assert_false (is_linked (self, kinds[i].question, "a/b/c", &digest));
        g_assert_false (is_linked (self, kinds[i].other_kind, "a/b", &digest));
        fixture_assert_ok (kinds[i].remove (NULL, self->objects, "a/b/c", &digest, &error), error);
        g_assert_true (is_linked (self, kinds[i].question, "a/b", &digest));
        fixture_assert_ok (kinds[i].remove (NULL, self->objects, "a/b", &digest, &error), error);
        fixture_assert_ok (kinds[i].remove (NULL, self->objects, "a/b", &digest, &error), error);
        g_assert_false (is_linked (self, kinds[i].question, "a/b", &digest));
        g_assert_cmpuint (fixture_count (self->fs, ""), ==, 0);
      }
}

static void
test_manifests (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GHashTable) wanted = g_hash_table_new (digest_hash, digest_equal_func);
  Digest digests[40];
  for (guint i = 0; i < G_N_ELEMENTS (digests); i++)
    {
      char text[2] = { (char) ('0' + i), 0 };
      digests[i] = digest_of_text (text, i % 3 == 0 ? DIGEST_SHA512 : DIGEST_SHA256);
      g_hash_table_add (wanted, &digests[i]);
      fixture_assert_ok (manifest_link_put (NULL, self->objects, "a", &digests[i], &error), error);
      fixture_assert_ok (manifest_link_put (NULL, self->objects, i % 2 == 0 ? "a/b" : "a-b", &digests[i], &error),
                         error);
    }
  fixture_put (self->fs, "docker/registry/v2/repositories/a/_manifests/revisions/sha256/odd/link", "x");
  fixture_put (self->fs, "docker/registry/v2/repositories/a/_manifests/revisions/odd", "x");
  g_autoptr (GPtrArray) found = manifest_link_list (NULL, self->objects, "a", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (found->len, ==, G_N_ELEMENTS (digests));
  for (guint i = 0; i < found->len; i++)
    g_assert_true (g_hash_table_remove (wanted, g_ptr_array_index (found, i)));
  g_autoptr (GPtrArray) none = manifest_link_list (NULL, self->objects, "b", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (none->len, ==, 0);
}

static char *
tags_of (StorageFixture *self, const char *repository)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) tags = tag_list (NULL, self->objects, repository, &error);
  g_assert_no_error (error);
  g_ptr_array_add (tags, NULL);
  return g_strjoinv (" ", (char **) tags->pdata);
}

static void
test_tags (StorageFixture *self, gconstpointer data)
{
  static const char *const tags[] = { "v10", "latest", "V1", "v1", "v1.0", "v1-rc", "_x", "0" };
  g_autoptr (GError) error = NULL;
  Digest one = digest_of_text ("1", DIGEST_SHA256), two = digest_of_text ("2", DIGEST_SHA512), got;
  g_autofree char *none = tags_of (self, "m");
  g_assert_cmpstr (none, ==, "");
  for (gsize i = 0; i < G_N_ELEMENTS (tags); i++)
    fixture_assert_ok (tag_put (NULL, self->objects, "m", tags[i], &one, &error), error);
  fixture_assert_ok (tag_put (NULL, self->objects, "m/x", "elsewhere", &one, &error), error);
  fixture_put (self->fs, "docker/registry/v2/repositories/m/_manifests/tags/odd/index/sha256", "not a current link");
  g_autofree char *all = tags_of (self, "m");
  g_assert_cmpstr (all, ==, "0 V1 _x latest v1 v1-rc v1.0 v10"); /* in the order of bytes */
  fixture_assert_ok (tag_put (NULL, self->objects, "m", "v1", &two, &error), error);
  fixture_assert_ok (tag_get (NULL, self->objects, "m", "v1", &got, &error), error);
  g_assert_true (digest_equal (&got, &two));
  fixture_assert_ok (tag_get (NULL, self->objects, "m", "v1.0", &got, &error), error);
  g_assert_true (digest_equal (&got, &one));
  fixture_assert_ok (tag_remove (NULL, self->objects, "m", "v1", &error), error);
  fixture_assert_ok (tag_remove (NULL, self->objects, "m", "v1", &error), error);
  g_assert_false (tag_get (NULL, self->objects, "m", "v1", &got, &error));
  fixture_assert_error (&error, AM_ERROR_NOT_FOUND, "MANIFEST_UNKNOWN");
  g_autofree char *rest = tags_of (self, "m");
  g_assert_cmpstr (rest, ==, "0 V1 _x latest v1-rc v1.0 v10");
}

/* More tags than one page of keys. */
static void
test_many_tags (StorageFixture *self, gconstpointer data)
{
  const guint n = 1010;
  g_autoptr (GError) error = NULL;
  for (guint i = 0; i < n; i++)
    {
      g_autofree char *key = g_strdup_printf ("docker/registry/v2/repositories/m/_manifests/tags/t%u/current/link",
                                              i);
      g_autoptr (ObjectWriter) writer = object_store_create (NULL, self->fs, &error);
      fixture_assert_ok (object_writer_commit (NULL, writer, key, OBJECT_COMMIT_LAZY, &error), error);
    }
  g_autoptr (GPtrArray) tags = tag_list (NULL, self->objects, "m", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (tags->len, ==, n);
  for (guint i = 1; i < n; i++)
    g_assert_cmpstr (g_ptr_array_index (tags, i - 1), <, g_ptr_array_index (tags, i));
}

static void
test_damaged_tag (StorageFixture *self, gconstpointer data)
{
  static const struct {
    const char *content;
    gboolean good;
  } rows[] = {
    { "", FALSE },
    { "sha256:ab", FALSE },
    { "sha256:0123456789012345678901234567890123456789012345678901234567890123", TRUE },
    { "sha256:0123456789012345678901234567890123456789012345678901234567890123\n", TRUE },
    { "sha256:012345678901234567890123456789012345678901234567890123456789012", FALSE },
    { "sha256:012345678901234567890123456789012345678901234567890123456789012X", FALSE },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      Digest got;
      fixture_put (self->fs, "docker/registry/v2/repositories/m/_manifests/tags/t/current/link", rows[i].content);
      g_assert_cmpint (tag_get (NULL, self->objects, "m", "t", &got, &error), ==, rows[i].good);
      if (!rows[i].good)
        fixture_assert_error (&error, AM_ERROR_DATA_LOSS, "LinkCorrupt");
    }
  g_autoptr (GError) error = NULL;
  g_autofree char *large = g_strnfill (5000, 'a');
  Digest got;
  fixture_put (self->fs, "docker/registry/v2/repositories/m/_manifests/tags/t/current/link", large);
  g_assert_false (tag_get (NULL, self->objects, "m", "t", &got, &error));
  g_assert_nonnull (error);
}

static void
test_existence (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Digest digest = digest_of_text ("1", DIGEST_SHA256);
  static const char *const names[] = { "a", "a/b", "a/b/c" };
  for (guint kind = 0; kind < 2; kind++)
    {
      fixture_assert_ok (
        (kind == 0 ? layer_link_put : manifest_link_put) (NULL, self->objects, "a/b", &digest, &error), error);
      for (guint i = 0; i < G_N_ELEMENTS (names); i++)
        {
          gboolean exists = FALSE;
          fixture_assert_ok (repository_exists (NULL, self->objects, names[i], &exists, &error), error);
          g_assert_cmpint (exists, ==, i == 1);
        }
      fixture_assert_ok (
        (kind == 0 ? layer_link_remove : manifest_link_remove) (NULL, self->objects, "a/b", &digest, &error), error);
    }
  gboolean exists = TRUE;
  fixture_assert_ok (repository_exists (NULL, self->objects, "a/b", &exists, &error), error);
  g_assert_false (exists);
}

static void
test_removed_referrer (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Digest subject = digest_of_text ("s", DIGEST_SHA256), one = digest_of_text ("1", DIGEST_SHA256);
  Digest two = digest_of_text ("2", DIGEST_SHA256);
  char text[DIGEST_STRING_SIZE];
  Seen seen;
  fixture_assert_ok (referrer_put (NULL, self->objects, "m", &subject, &one, digest_format (&one, text), &error),
                     error);
  fixture_assert_ok (referrer_put (NULL, self->objects, "m", &subject, &two, digest_format (&two, text), &error),
                     error);
  fixture_assert_ok (referrer_remove (NULL, self->objects, "m", &subject, &one, &error), error);
  fixture_assert_ok (referrer_remove (NULL, self->objects, "m", &subject, &one, &error), error);
  walk (self, &subject, NULL, 0, &seen);
  g_assert_cmpuint (seen.seen->len, ==, 1);
  g_assert_cmpstr (g_ptr_array_index (seen.seen, 0), ==, digest_format (&two, text));
  g_ptr_array_unref (seen.seen);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  STORAGE_TEST ("/repository-links/repositories", test_repositories);
  STORAGE_TEST ("/repository-links/no-repositories", test_no_repositories);
  STORAGE_TEST ("/repository-links/referrers", test_referrers);
  STORAGE_TEST ("/repository-links/membership", test_membership);
  STORAGE_TEST ("/repository-links/manifests", test_manifests);
  STORAGE_TEST ("/repository-links/tags", test_tags);
  STORAGE_TEST ("/repository-links/many-tags", test_many_tags);
  STORAGE_TEST ("/repository-links/damaged-tag", test_damaged_tag);
  STORAGE_TEST ("/repository-links/existence", test_existence);
  STORAGE_TEST ("/repository-links/removed-referrer", test_removed_referrer);
  return g_test_run ();
}
