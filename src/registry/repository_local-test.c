#include "registry/repository_local.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

#include "oci/manifest.h"
#include "registry/manifest_store.h"
#include "registry/registry_fixture.h"
#include "storage/object_store_fault.h"
#include "storage/repository_links.h"

#define MIB (1024u * 1024u)

typedef struct {
  StoreFixture store;
  Ctx *ctx;
  Repository *repository;
} Fixture;

static void
set_up (Fixture *self, gconstpointer data)
{
  store_fixture_init (&self->store);
  self->ctx = ctx_new ();
  self->repository = repository_local_new (self->store.blobs, "team/m", NULL);
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  repository_free (self->repository);
  store_fixture_clear (&self->store);
  ctx_unref (self->ctx);
}

static void
push (Fixture *self, Repository *repository, GBytes *bytes, gboolean tell_digest, FixtureProgress *progress)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (Reader) content = reader_new_bytes (bytes);
  Digest expected, actual;
  fixture_digest (bytes, &expected);
  *progress = (FixtureProgress){ 0 };
  repository_push_blob (self->ctx, repository, content, tell_digest ? &expected : NULL, NULL, fixture_progress,
                        progress, &actual, &error);
  g_assert_no_error (error);
  g_assert_true (digest_equal (&expected, &actual));
  g_assert_cmpuint (progress->logical, ==, g_bytes_get_size (bytes));
}

static void
test_blobs (Fixture *self, gconstpointer data)
{
  static const gsize sizes[] = { 0, 1, MIB, MIB + 1, 20 * MIB + 3 };
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_autoptr (GBytes) bytes = fixture_noise (sizes[i], i);
      g_autoptr (GByteArray) got = g_byte_array_new ();
      g_autoptr (GError) error = NULL;
      FixtureProgress progress;
      Digest digest;
      guint64 size = 0;
      fixture_digest (bytes, &digest);
      g_assert_false (repository_blob_exists (self->ctx, self->repository, &digest, NULL, &error));
      g_assert_true (am_error_has_reason (error, "BLOB_UNKNOWN"));
      g_clear_error (&error);
      push (self, self->repository, bytes, i % 2 == 0, &progress);
      g_assert_true (repository_blob_exists (self->ctx, self->repository, &digest, &size, &error));
      g_assert_cmpuint (size, ==, sizes[i]);
      g_assert_true (
        repository_read_blob (self->ctx, self->repository, &digest, 0, G_MAXUINT64, fixture_append, got, &error));
      g_assert_cmpmem (got->data, got->len, g_bytes_get_data (bytes, NULL), sizes[i]);
      push (self, self->repository, bytes, TRUE, &progress);
      g_assert_cmpuint (progress.moved, ==, 0);
      g_autoptr (Recipe) recipe = repository_get_recipe (self->ctx, self->repository, &digest, &error);
      g_assert_no_error (error);
      g_assert_cmpint (recipe != NULL, ==, sizes[i] > MIB);
    }
}

static void
test_ranges (Fixture *self, gconstpointer data)
{
  static const struct {
    guint64 offset, size;
    gboolean is_fine;
  } ranges[] = {
    { 0, 0, TRUE },
    { 0, 1, TRUE },
    { 5, 4 * MIB, TRUE },
    { 10 * MIB - 1, 1, TRUE },
    { 10 * MIB, 0, TRUE },
    { 7, G_MAXUINT64, TRUE },
    { 10 * MIB, G_MAXUINT64, TRUE },
    { 10 * MIB, 1, FALSE },
    { 10 * MIB + 1, 0, FALSE },
    { 10 * MIB + 1, G_MAXUINT64, FALSE },
    { 1, 10 * MIB, FALSE },
    { 5, G_MAXUINT64 - 1, FALSE },
  };
  g_autoptr (GBytes) bytes = fixture_noise (10 * MIB, 1);
  const guint8 *all = g_bytes_get_data (bytes, NULL);
  FixtureProgress progress;
  Digest digest;
  push (self, self->repository, bytes, TRUE, &progress);
  fixture_digest (bytes, &digest);
  for (guint i = 0; i < G_N_ELEMENTS (ranges); i++)
    {
      g_autoptr (GByteArray) got = g_byte_array_new ();
      g_autoptr (GError) error = NULL;
      gboolean done = repository_read_blob (self->ctx, self->repository, &digest, ranges[i].offset, ranges[i].size,
                                            fixture_append, got, &error);
      g_assert_cmpint (done, ==, ranges[i].is_fine);
      if (done)
        {
          gsize wanted = ranges[i].size == G_MAXUINT64 ? 10 * MIB - ranges[i].offset : ranges[i].size;
          g_assert_cmpmem (got->data, got->len, all + ranges[i].offset, wanted);
        }
      else
        g_assert_true (am_error_is (error, AM_ERROR_OUT_OF_RANGE));
    }
}

static void
test_chunks (Fixture *self, gconstpointer data)
{
  g_autoptr (GBytes) model = fixture_model (10, 3 * MIB, 1, 0);
  g_autoptr (GError) error = NULL;
  FixtureProgress progress;
  Digest digest;
  push (self, self->repository, model, FALSE, &progress);
  fixture_digest (model, &digest);
  g_autoptr (Recipe) recipe = repository_get_recipe (self->ctx, self->repository, &digest, &error);
  g_autofree guint8 *wanted = g_malloc (recipe->entries->len);
  memset (wanted, 1, recipe->entries->len);
  ChunkCollector collector;
  chunk_collector_init (&collector, g_bytes_get_size (model));
  repository_read_chunks (self->ctx, self->repository, recipe, wanted, chunk_collector_take, NULL, &collector,
                          &error);
  g_assert_no_error (error);
  g_assert_cmpuint (collector.n_chunks, ==, recipe->entries->len);
  g_assert_cmpuint (collector.n_again, ==, 0);
  g_assert_cmpmem (collector.bytes->data, collector.bytes->len, g_bytes_get_data (model, NULL),
                   g_bytes_get_size (model));
  chunk_collector_clear (&collector);
}

/* A blob of the store is no member of a repository that it was not pushed to. */
static void
test_membership (Fixture *self, gconstpointer data)
{
  g_autoptr (Repository) other = repository_local_new (self->store.blobs, "other", NULL);
  g_autoptr (GBytes) bytes = fixture_noise (3 * MIB, 1);
  g_autoptr (GByteArray) got = g_byte_array_new ();
  g_autoptr (GError) error = NULL;
  FixtureProgress progress;
  Digest digest;
  gboolean mounted = FALSE;
  push (self, self->repository, bytes, FALSE, &progress);
  fixture_digest (bytes, &digest);
  g_assert_false (repository_blob_exists (self->ctx, other, &digest, NULL, NULL));
  g_assert_null (repository_get_recipe (self->ctx, other, &digest, NULL));
  g_assert_false (repository_read_blob (self->ctx, other, &digest, 0, 1, fixture_append, got, NULL));
  g_assert_true (repository_mount_blob (self->ctx, other, &digest, "nowhere", &mounted, &error));
  g_assert_false (mounted);
  g_assert_true (repository_mount_blob (self->ctx, other, &digest, "team/m", &mounted, &error));
  g_assert_true (mounted);
  g_assert_true (repository_blob_exists (self->ctx, other, &digest, NULL, NULL));
  g_assert_null (repository_local_new (self->store.blobs, "Bad", &error));
  g_assert_true (am_error_has_reason (error, "NAME_INVALID"));
}

typedef enum { ASK, CLAIM, PUSH, MOUNT, READ, N_WAYS } Way;

static void
use_blob (Fixture *self, Way way, GBytes *bytes, const Digest *digest)
{
  g_autoptr (GByteArray) got = g_byte_array_new ();
  g_autoptr (GError) error = NULL;
  FixtureProgress progress;
  gboolean mounted = FALSE;
  if (way == ASK)
    g_assert_true (repository_blob_exists (self->ctx, self->repository, digest, NULL, &error));
  else if (way == CLAIM)
    g_assert_true (repository_claim_blob (self->ctx, self->repository, digest, NULL, &error));
  else if (way == PUSH)
    push (self, self->repository, bytes, TRUE, &progress);
  else if (way == MOUNT)
    g_assert_true (repository_mount_blob (self->ctx, self->repository, digest, "team/m", &mounted, &error));
  else
    g_assert_true (repository_read_blob (self->ctx, self->repository, digest, 0, 1, fixture_append, got, &error));
  g_assert_no_error (error);
}

/* Who is going to name a blob makes its link young again. Looking and reading write nothing. */
static void
test_old_link (Fixture *self, gconstpointer data)
{
  g_autoptr (GBytes) bytes = fixture_noise (1000, 1);
  FixtureProgress progress;
  Digest digest;
  char hex[2 * DIGEST_MAX_BYTES + 1];
  struct stat info;
  push (self, self->repository, bytes, FALSE, &progress);
  fixture_digest (bytes, &digest);
  g_autofree char *path = g_strdup_printf ("%s/docker/registry/v2/repositories/team/m/_layers/sha256/%s/link",
                                           self->store.root, digest_hex (&digest, hex));
  for (Way way = ASK; way < N_WAYS; way++)
    for (guint is_old = 0; is_old < 2; is_old++)
      {
        time_t age = is_old ? 13 * 3600 : 11 * 3600;
        struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, { .tv_sec = time (NULL) - age } };
        g_assert_cmpint (utimensat (AT_FDCWD, path, times, 0), ==, 0);
        use_blob (self, way, bytes, &digest);
        g_assert_cmpint (stat (path, &info), ==, 0);
        g_assert_cmpint (time (NULL) - info.st_mtim.tv_sec < 3600, ==, is_old && way != READ && way != ASK);
      }
}

static void
damage_object (Fixture *self, const char *key, gboolean remove)
{
  g_autofree char *path = g_build_filename (self->store.root, key, NULL);
  g_autofree char *bytes = NULL;
  gsize size = 0;
  if (remove)
    {
      g_assert_true (g_unlink (path) == 0);
      return;
    }
  g_assert_true (g_file_get_contents (path, &bytes, &size, NULL));
  bytes[size / 2] ^= 1;
  g_assert_true (g_file_set_contents (path, bytes, (gssize) size, NULL));
}

/* A chunk of the blob, or all there is of a small one. */
static void
damage_blob (Fixture *self, const Digest *digest, gboolean remove)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (Recipe) recipe = blob_store_recipe (self->ctx, self->store.blobs, digest, &error);
  g_assert_no_error (error);
  g_autofree char *key = recipe == NULL ? blob_data_key (digest)
                                        : chunk_key (g_array_index (recipe->entries, RecipeEntry, 1).digest);
  damage_object (self, key, remove);
}

/* What is damaged does not count as there: it is taken from the content. */
static void
test_damage_is_mended (Fixture *self, gconstpointer data)
{
  static const gsize sizes[] = { 1000, 9 * MIB };
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    for (gboolean remove = FALSE; remove <= TRUE; remove++)
      {
        g_autoptr (GBytes) bytes = fixture_noise (sizes[i], i);
        g_autoptr (GError) error = NULL;
        FixtureProgress progress;
        Digest digest;
        push (self, self->repository, bytes, TRUE, &progress);
        fixture_digest (bytes, &digest);
        damage_blob (self, &digest, remove);
        push (self, self->repository, bytes, TRUE, &progress);
        g_assert_cmpuint (progress.moved, ==, sizes[i]);
        blob_store_verify (self->ctx, self->store.blobs, &digest, NULL, NULL, &error);
        g_assert_no_error (error);
      }
}

static void
test_wrong_digest (Fixture *self, gconstpointer data)
{
  static const gsize sizes[] = { 10, 3 * MIB };
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_autoptr (GBytes) bytes = fixture_noise (sizes[i], 1);
      g_autoptr (Reader) content = reader_new_bytes (bytes);
      g_autoptr (GError) error = NULL;
      Digest other;
      digest_of (DIGEST_SHA256, "x", 1, &other);
      g_assert_false (
        repository_push_blob (self->ctx, self->repository, content, &other, NULL, NULL, NULL, NULL, &error));
      g_assert_true (am_error_has_reason (error, "DIGEST_INVALID"));
      g_assert_cmpuint (store_fixture_count (&self->store, "docker/registry/v2/repositories/"), ==, 0);
    }
}

static gboolean
refuse_read (guint64 offset_bytes, gpointer data, GError **error)
{
  return offset_bytes < 2 * MIB || am_fail (error, AM_ERROR_INTERNAL, NULL, "trap");
}

static void
test_broken_content (Fixture *self, gconstpointer data)
{
  g_autoptr (GBytes) bytes = fixture_noise (5 * MIB, 1);
  g_autoptr (Reader) content = fixture_watched_reader (bytes, refuse_read, NULL);
  g_autoptr (GError) error = NULL;
  Digest digest;
  fixture_digest (bytes, &digest);
  g_assert_false (
    repository_push_blob (self->ctx, self->repository, content, &digest, NULL, NULL, NULL, NULL, &error));
  g_assert_cmpstr (error->message, ==, "trap");
  g_assert_cmpuint (store_fixture_count (&self->store, "docker/"), ==, 0);
  ctx_cancel (self->ctx);
  g_autoptr (Reader) whole = reader_new_bytes (bytes);
  g_clear_error (&error);
  g_assert_false (repository_push_blob (self->ctx, self->repository, whole, NULL, NULL, NULL, NULL, NULL, &error));
  g_assert_true (am_error_is (error, AM_ERROR_CANCELLED));
}

static GBytes *
put_model (Fixture *self, const char *reference, const Digest *subject, const char *note, Digest *out_digest)
{
  g_autoptr (GBytes) config = g_bytes_new_static ("{}", 2);
  g_autoptr (GBytes) layer = fixture_noise (100, 9);
  g_autoptr (GError) error = NULL;
  FixtureProgress progress;
  push (self, self->repository, config, TRUE, &progress);
  push (self, self->repository, layer, TRUE, &progress);
  GBytes *manifest = fixture_manifest (config, layer, subject, note);
  repository_put_manifest (self->ctx, self->repository, reference, NULL, manifest, out_digest, &error);
  g_assert_no_error (error);
  return manifest;
}

static void
test_manifests (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Digest digest, got;
  g_autoptr (GBytes) manifest = put_model (self, "v1", NULL, NULL, &digest);
  g_autoptr (GBytes) again = put_model (self, "v2", NULL, NULL, &got);
  g_autofree char *by_digest = digest_to_string (&digest);
  g_autofree char *type = NULL;
  g_assert_true (digest_equal (&digest, &got));
  static const char *const names[] = { "v1", "v2", NULL };
  for (guint i = 0; i < 3; i++)
    {
      const char *name = names[i] != NULL ? names[i] : by_digest;
      g_clear_pointer (&type, g_free);
      g_autoptr (GBytes) back = repository_get_manifest (self->ctx, self->repository, name, &type, &got, &error);
      g_assert_no_error (error);
      g_assert_true (g_bytes_equal (back, manifest));
      g_assert_cmpstr (type, ==, OCI_MANIFEST);
      g_assert_true (digest_equal (&digest, &got));
    }
  g_autoptr (GPtrArray) tags = repository_list_tags (self->ctx, self->repository, &error);
  g_assert_cmpuint (tags->len, ==, 2);
  g_assert_true (repository_remove_manifest (self->ctx, self->repository, "v1", &error));
  g_assert_false (repository_remove_manifest (self->ctx, self->repository, "v1", &error));
  g_assert_true (am_error_has_reason (error, "MANIFEST_UNKNOWN"));
  g_clear_error (&error);
  g_assert_true (repository_remove_manifest (self->ctx, self->repository, by_digest, &error));
  g_assert_null (repository_get_manifest (self->ctx, self->repository, "v2", NULL, NULL, NULL));
  g_assert_false (repository_remove_manifest (self->ctx, self->repository, by_digest, NULL));
  g_autoptr (Repository) none = repository_local_new (self->store.blobs, "none", NULL);
  g_assert_null (repository_list_tags (self->ctx, none, &error));
  g_assert_true (am_error_has_reason (error, "NAME_UNKNOWN"));
}

static void
expect_refused (Fixture *self, const char *text, const char *reference, const char *type, const char *reason)
{
  g_autoptr (GBytes) bytes = g_bytes_new (text, strlen (text));
  g_autoptr (GError) error = NULL;
  g_assert_false (repository_put_manifest (self->ctx, self->repository, reference, type, bytes, NULL, &error));
  g_test_message ("%s", error->message);
  g_assert_cmpstr (am_error_reason (error), ==, reason);
}

#define UNKNOWN "sha256:ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
#define EMPTY "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
#define ITEM(digest, size, more) "{\"mediaType\":\"a/b\",\"digest\":\"" digest "\",\"size\":" size more "}"
#define IMAGE(config, layers) "{\"schemaVersion\":2,\"config\":" config ",\"layers\":[" layers "]}"

static void
test_refused_manifests (Fixture *self, gconstpointer data)
{
  Digest digest;
  g_autoptr (GBytes) manifest = put_model (self, NULL, NULL, NULL, &digest);
  expect_refused (self, "no", "t", NULL, "MANIFEST_INVALID");
  expect_refused (self, IMAGE (ITEM (UNKNOWN, "2", ""), ""), "t", NULL, "MANIFEST_BLOB_UNKNOWN");
  expect_refused (self, IMAGE (ITEM (EMPTY, "2", ""), ITEM (UNKNOWN, "2", "")), "t", NULL, "MANIFEST_BLOB_UNKNOWN");
  expect_refused (self, IMAGE (ITEM (EMPTY, "3", ""), ""), "t", NULL, "SIZE_INVALID");
  expect_refused (self, IMAGE (ITEM (EMPTY, "2", ""), ITEM (EMPTY, "2", "") "," ITEM (EMPTY, "3", "")), "t", NULL,
                  "SIZE_INVALID");
  expect_refused (self, IMAGE (ITEM (EMPTY, "2", ""), ""), UNKNOWN, NULL, "DIGEST_INVALID");
  expect_refused (self, IMAGE (ITEM (EMPTY, "2", ""), ""), ".t", NULL, "TAG_INVALID");
  expect_refused (self, IMAGE (ITEM (EMPTY, "2", ""), ""), "t", OCI_INDEX, "MANIFEST_INVALID");
  expect_refused (self, "{\"schemaVersion\":2,\"manifests\":[" ITEM (EMPTY, "2", "") "]}", "t", NULL,
                  "MANIFEST_BLOB_UNKNOWN");
  /* What has an address elsewhere may be missing here. */
  const char *foreign = IMAGE (ITEM (EMPTY, "2", ""), ITEM (UNKNOWN, "2", ",\"urls\":[\"http://x/y\"]"));
  g_autoptr (GBytes) bytes = g_bytes_new (foreign, strlen (foreign));
  g_assert_true (repository_put_manifest (self->ctx, self->repository, "t", NULL, bytes, NULL, NULL));
}

static char *
referrers (Fixture *self, const Digest *subject, const char *type)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *next = NULL;
  g_autoptr (GBytes) index = manifest_store_referrers (self->ctx, self->store.blobs, "team/m", subject, type, NULL,
                                                       &next, &error);
  g_assert_no_error (error);
  g_assert_null (next);
  return g_strndup (g_bytes_get_data (index, NULL), g_bytes_get_size (index));
}

static void
test_referrers (Fixture *self, gconstpointer data)
{
  static const char empty[] = "{\"schemaVersion\":2,\"mediaType\":\"" OCI_INDEX "\",\"manifests\":[]}";
  Digest subject, first, second;
  g_autoptr (GBytes) model = put_model (self, "v1", NULL, NULL, &subject);
  g_autofree char *none = referrers (self, &subject, NULL);
  g_assert_cmpstr (none, ==, empty);
  g_autoptr (GBytes) a = put_model (self, NULL, &subject, "a", &first);
  g_autoptr (GBytes) b = put_model (self, NULL, &subject, "b", &second);
  g_autofree char *first_text = digest_to_string (&first);
  g_autofree char *second_text = digest_to_string (&second);
  g_autofree char *both = referrers (self, &subject, NULL);
  g_assert_nonnull (strstr (both, first_text));
  g_assert_nonnull (strstr (both, second_text));
  g_autoptr (GPtrArray) listed = repository_list_referrers (self->ctx, self->repository, &subject, NULL);
  g_assert_cmpuint (listed->len, ==, 2);
  g_autofree char *filtered = referrers (self, &subject, "x/b");
  g_assert_null (strstr (filtered, first_text));
  g_assert_nonnull (strstr (filtered, second_text));
  g_autoptr (GBytes) as_bytes = g_bytes_new (both, strlen (both));
  g_autoptr (Manifest) index = manifest_parse (as_bytes, OCI_INDEX, NULL);
  g_assert_cmpuint (index->manifests->len, ==, 2);
  g_assert_true (repository_remove_manifest (self->ctx, self->repository, first_text, NULL));
  g_autofree char *left = referrers (self, &subject, NULL);
  g_assert_null (strstr (left, first_text));
  g_assert_nonnull (strstr (left, second_text));
}

/* More referrers than fit one answer come in pages, each once. */
static void
test_referrers_pages (Fixture *self, gconstpointer data)
{
  Digest subject = { 0 };
  g_autofree char *padding = g_strnfill (300000, 'x');
  for (guint i = 0; i < 40; i++)
    {
      Digest digest;
      char text[DIGEST_STRING_SIZE];
      digest_of (DIGEST_SHA256, &i, sizeof i, &digest);
      g_autofree char *entry = g_strdup_printf (
        "{\"annotations\":{\"p\":\"%s\"},\"digest\":\"%s\",\"mediaType\":\"a/b\",\"size\":1}", padding,
        digest_format (&digest, text));
      g_assert_true (referrer_put (self->ctx, self->store.objects, "team/m", &subject, &digest, entry, NULL));
    }
  g_autoptr (GHashTable) seen = g_hash_table_new_full (digest_hash, digest_equal_func, g_free, NULL);
  g_autoptr (ObjectStore) counted = object_store_fault_new (self->store.objects);
  g_autoptr (BlobStore) blobs = blob_store_new (counted);
  g_autofree char *after = NULL;
  guint n_pages = 0;
  do
    {
      g_autofree char *next = NULL;
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) page = manifest_store_referrers (self->ctx, blobs, "team/m", &subject, NULL, after, &next,
                                                          &error);
      g_assert_no_error (error);
      /* No page reads what is for another: the 13 that fit, one that does not, two listings. */
      g_assert_cmpuint (object_store_fault_count (counted), <=, 14 * 3 + 2);
      object_store_fault_set (counted, 0, FALSE);
      g_autoptr (Manifest) index = manifest_parse (page, OCI_INDEX, &error);
      g_assert_no_error (error);
      for (guint i = 0; i < index->manifests->len; i++)
        {
          const Descriptor *descriptor = g_ptr_array_index (index->manifests, i);
          Digest *copy = g_new (Digest, 1);
          *copy = descriptor->digest;
          g_assert_true (g_hash_table_add (seen, copy));
        }
      g_free (after);
      after = g_steal_pointer (&next);
      n_pages++;
    }
  while (after != NULL);
  g_assert_cmpuint (g_hash_table_size (seen), ==, 40);
  g_assert_cmpuint (n_pages, ==, 4);
  g_autoptr (GError) error = NULL;
  g_autofree char *next = NULL;
  g_assert_null (manifest_store_referrers (self->ctx, blobs, "team/m", &subject, NULL, "sha256:../x", &next, &error));
  g_assert_true (am_error_has_reason (error, "DIGEST_INVALID"));
}

/* Each operation of a put fails once: a manifest is then visible whole or not at all, and putting it again works. */
static void
test_put_under_faults (Fixture *self, gconstpointer data)
{
  g_autoptr (ObjectStore) faulty = object_store_fault_new (self->store.objects);
  g_autoptr (BlobStore) blobs = blob_store_new (faulty);
  Digest subject = { 0 };
  g_autoptr (GBytes) config = g_bytes_new_static ("{}", 2);
  g_autoptr (GBytes) manifest = fixture_manifest (config, NULL, &subject, "f");
  const char *tags[] = { "t", NULL };
  ManifestPut put = { .bytes = manifest, .tags = tags };
  ManifestPutResult result;
  FixtureProgress progress;
  gboolean done = FALSE;
  push (self, self->repository, config, FALSE, &progress);
  for (guint nth = 1; !done; nth++)
    {
      g_autoptr (GError) error = NULL;
      object_store_fault_set (faulty, nth, FALSE);
      done = manifest_store_put (self->ctx, blobs, "team/m", &put, &result, &error);
      object_store_fault_set (faulty, 0, FALSE);
      g_assert_true (done || am_error_is (error, AM_ERROR_UNAVAILABLE));
      g_autoptr (GBytes) back = manifest_store_get (self->ctx, blobs, "team/m", "t", NULL, NULL, NULL);
      g_assert_true (back == NULL || g_bytes_equal (back, manifest));
      g_assert_true (!done || back != NULL);
      g_assert_cmpuint (nth, <, 100);
    }
  for (guint nth = 1, removed = FALSE; !removed; nth++)
    {
      char text[DIGEST_STRING_SIZE];
      object_store_fault_set (faulty, nth, FALSE);
      removed = manifest_store_remove (self->ctx, blobs, "team/m", digest_format (&result.digest, text), NULL);
      object_store_fault_set (faulty, 0, FALSE);
      g_assert_cmpuint (nth, <, 100);
    }
  g_autofree char *left = referrers (self, &subject, NULL);
  g_assert_nonnull (strstr (left, "\"manifests\":[]"));
  g_assert_null (manifest_store_get (self->ctx, blobs, "team/m", "t", NULL, NULL, NULL));
}

/* Where a push begins to read, and where it breaks. */
typedef struct {
  guint64 first, break_at;
} Watch;

static gboolean
watch (guint64 offset_bytes, gpointer data, GError **error)
{
  Watch *self = data;
  self->first = MIN (self->first, offset_bytes);
  return offset_bytes < self->break_at || am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "the source is away");
}

static gboolean
push_watched (Fixture *self, GBytes *bytes, const char *key, gboolean tell_digest, Watch *watching, GError **error)
{
  g_autoptr (Reader) content = fixture_watched_reader (bytes, watch, watching);
  FixtureProgress progress = { 0 };
  Digest expected, actual;
  fixture_digest (bytes, &expected);
  watching->first = G_MAXUINT64;
  if (!repository_push_blob (self->ctx, self->repository, content, tell_digest ? &expected : NULL, key,
                             fixture_progress, &progress, &actual, error))
    return FALSE;
  g_assert_true (digest_equal (&expected, &actual));
  g_assert_cmpuint (progress.logical, ==, g_bytes_get_size (bytes));
  return TRUE;
}

/* What was taken is not read again, in whichever process; a push of something else begins at its own beginning. */
static void
test_interrupted (Fixture *self, gconstpointer data)
{
  for (guint tell_digest = 0; tell_digest < 2; tell_digest++)
    {
      g_autoptr (GBytes) bytes = fixture_noise (40 * MIB, 20 + tell_digest);
      g_autoptr (GError) error = NULL;
      Watch watching = { .break_at = 22 * MIB };
      g_assert_false (push_watched (self, bytes, "key", tell_digest != 0, &watching, &error));
      g_assert_error (error, AM_ERROR, AM_ERROR_UNAVAILABLE);
      g_clear_error (&error);
      watching.break_at = G_MAXUINT64;
      g_autoptr (GBytes) small = fixture_noise (5 * MIB, 30 + tell_digest);
      g_assert_true (push_watched (self, small, "another key", tell_digest != 0, &watching, &error));
      g_assert_cmpuint (watching.first, ==, 0);
      g_assert_true (push_watched (self, bytes, "key", tell_digest != 0, &watching, &error));
      g_assert_cmpuint (watching.first, >=, 20 * MIB);
      g_assert_cmpuint (store_fixture_count (&self->store, "_ai_models/uploads/"), ==, 0);
    }
}

/* The same name for other bytes: found out at the end, and nothing of it is left. */
static void
test_interrupted_by_other_content (Fixture *self, gconstpointer data)
{
  g_autoptr (GBytes) bytes = fixture_noise (30 * MIB, 40);
  g_autoptr (GBytes) other = fixture_noise (30 * MIB, 41);
  g_autoptr (GError) error = NULL;
  Watch watching = { .break_at = 22 * MIB };
  g_assert_false (push_watched (self, bytes, "key", TRUE, &watching, &error));
  g_clear_error (&error);
  watching.break_at = G_MAXUINT64;
  g_assert_false (push_watched (self, other, "key", TRUE, &watching, &error));
  g_assert_true (am_error_has_reason (error, "DIGEST_INVALID"));
  g_assert_cmpuint (store_fixture_count (&self->store, "_ai_models/uploads/"), ==, 0);
  g_clear_error (&error);
  g_assert_true (push_watched (self, other, "key", TRUE, &watching, &error));
}

/* Chunks of an interrupted push that are gone: it starts anew by itself. */
static void
test_interrupted_and_lost (Fixture *self, gconstpointer data)
{
  g_autoptr (GBytes) bytes = fixture_noise (40 * MIB, 50);
  g_autoptr (GError) error = NULL;
  Watch watching = { .break_at = 30 * MIB };
  g_assert_false (push_watched (self, bytes, "key", TRUE, &watching, &error));
  g_clear_error (&error);
  g_assert_true (object_store_remove_prefix (self->ctx, self->store.objects, "_ai_models/chunks/", &error));
  watching.break_at = G_MAXUINT64;
  g_assert_true (push_watched (self, bytes, "key", TRUE, &watching, &error));
  g_assert_cmpuint (watching.first, ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, func) g_test_add ("/repository-local/" name, Fixture, NULL, set_up, func, tear_down)
  ADD ("blobs", test_blobs);
  ADD ("ranges", test_ranges);
  ADD ("chunks", test_chunks);
  ADD ("membership", test_membership);
  ADD ("old-link", test_old_link);
  ADD ("damage-is-mended", test_damage_is_mended);
  ADD ("wrong-digest", test_wrong_digest);
  ADD ("broken-content", test_broken_content);
  ADD ("interrupted", test_interrupted);
  ADD ("interrupted-by-other-content", test_interrupted_by_other_content);
  ADD ("interrupted-and-lost", test_interrupted_and_lost);
  ADD ("manifests", test_manifests);
  ADD ("refused-manifests", test_refused_manifests);
  ADD ("referrers", test_referrers);
  ADD ("referrers-pages", test_referrers_pages);
  ADD ("put-under-faults", test_put_under_faults);
  return g_test_run ();
}
