/* Collection: what is referenced, young, pinned or not understood stays; the rest goes, in any number of runs. */
#include "storage/collect.h"

#include <string.h>
#include <unistd.h>

#include "storage/chunk_frame.h"
#include "storage/object_store_fault.h"
#include "storage/object_store_fs.h"
#include "storage/repository_links.h"
#include "storage/storage_fixture.h"

#define MiB ((gsize) 1 << 20)
#define BLOBS "docker/registry/v2/blobs/"
#define CHUNKS "_ai_models/chunks/"
#define UPLOADS "_ai_models/uploads/"
#define LONG_AGO 100 /* hours */

typedef struct {
  GBytes *weights;
  Digest config, layer, manifest;
} Model;

static void
model_clear (Model *self)
{
  g_clear_pointer (&self->weights, g_bytes_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Model, model_clear)

static void
put_manifest (const StorageFixture *self, const char *repository, const char *tag, const char *json,
              Digest *out_digest)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new (json, strlen (json));
  *out_digest = fixture_digest (bytes, DIGEST_SHA256);
  fixture_assert_ok (manifest_link_put (NULL, self->objects, repository, out_digest, &error), error);
  fixture_assert_ok (blob_store_put_whole (NULL, self->blobs, out_digest, bytes, &error), error);
  if (tag != NULL)
    fixture_assert_ok (tag_put (NULL, self->objects, repository, tag, out_digest, &error), error);
}

/* Config, one layer of two tensors (the first is the same for all), manifest, and the links that a push makes. */
static void
put_model (const StorageFixture *self, const char *repository, const char *tag, guint seed, Model *out)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GByteArray) weights = g_byte_array_new ();
  g_autofree char *config_text = g_strdup_printf ("{\"seed\":%u}", seed);
  g_autoptr (GBytes) config = g_bytes_new (config_text, strlen (config_text));
  static const gsize sizes[] = { MiB, MiB };
  g_autoptr (GBytes) base = fixture_safetensors (1, "BF16", 2, sizes, 2, 0);
  g_byte_array_append (weights, g_bytes_get_data (base, NULL), (guint) g_bytes_get_size (base));
  fixture_fill (BYTES_BF16, seed, weights->data + weights->len - MiB, MiB);
  out->weights = g_byte_array_free_to_bytes (g_steal_pointer (&weights));
  out->config = fixture_upload (self, config);
  out->layer = fixture_upload (self, out->weights);
  fixture_assert_ok (layer_link_put (NULL, self->objects, repository, &out->config, &error), error);
  fixture_assert_ok (layer_link_put (NULL, self->objects, repository, &out->layer, &error), error);
  g_autofree char *config_digest = digest_to_string (&out->config), *layer_digest = digest_to_string (&out->layer);
  g_autofree char *json = g_strdup_printf (
    "{\"schemaVersion\":2,\"config\":{\"digest\":\"%s\"},\"layers\":[{\"digest\":\"%s\"},{\"digest\":\"%s\"}]}",
    config_digest, layer_digest, config_digest);
  put_manifest (self, repository, tag, json, &out->manifest);
}

static void
remove_model (const StorageFixture *self, const char *repository, const char *tag, const Model *model)
{
  g_autoptr (GError) error = NULL;
  if (tag != NULL)
    fixture_assert_ok (tag_remove (NULL, self->objects, repository, tag, &error), error);
  fixture_assert_ok (manifest_link_remove (NULL, self->objects, repository, &model->manifest, &error), error);
}

static StoreCollectStats
collect (const StorageFixture *self, gint64 grace_ms)
{
  g_autoptr (GError) error = NULL;
  StoreCollectStats stats = { .n_blobs = 999 };
  fixture_assert_ok (store_collect (NULL, self->blobs, grace_ms, &stats, &error), error);
  return stats;
}

static void
assert_nothing (const StoreCollectStats *stats)
{
  g_assert_cmpuint (stats->freed_bytes, ==, 0);
  g_assert_cmpuint (stats->n_blobs + stats->n_chunks + stats->n_links + stats->n_sessions, ==, 0);
}

static void
assert_whole (const StorageFixture *self, const Model *model)
{
  g_autoptr (GError) error = NULL;
  fixture_assert_blob (self, &model->layer, model->weights);
  fixture_assert_ok (blob_store_verify (NULL, self->blobs, &model->config, NULL, NULL, &error), error);
  fixture_assert_ok (blob_store_verify (NULL, self->blobs, &model->manifest, NULL, NULL, &error), error);
}

static guint64
stored_bytes (const StorageFixture *self)
{
  g_autofree char *keys = fixture_list (self->fs, "", 1000);
  g_auto (GStrv) parts = g_strsplit (keys, " ", -1);
  guint64 total = 0;
  ObjectInfo info;
  for (guint i = 0; parts[i] != NULL; i++)
    if (object_store_stat (NULL, self->fs, parts[i], &info, NULL))
      total += info.size_bytes;
  return total;
}

static void
test_unreferenced (StorageFixture *self, gconstpointer data)
{
  g_auto (Model) model = { 0 };
  put_model (self, "team/m", "v1", 1, &model);
  fixture_age (self, "", LONG_AGO);
  StoreCollectStats stats = collect (self, 0);
  assert_nothing (&stats); /* all of it is referenced */
  assert_whole (self, &model);
  remove_model (self, "team/m", "v1", &model);
  guint64 before = stored_bytes (self);
  stats = collect (self, 0);
  g_assert_cmpuint (stats.n_blobs, ==, 3);
  g_assert_cmpuint (stats.n_chunks, ==, 3);
  g_assert_cmpuint (stats.n_links, ==, 2);
  g_assert_cmpuint (stats.n_sessions, ==, 0);
  g_assert_cmpuint (stats.freed_bytes, ==, before);
  g_assert_cmpuint (fixture_count (self->fs, ""), ==, 0);
  stats = collect (self, 0);
  assert_nothing (&stats);
}

static void
test_empty (StorageFixture *self, gconstpointer data)
{
  StoreCollectStats stats = collect (self, 0);
  assert_nothing (&stats);
}

/* Two fine-tunes of one base: what they share stays with either. */
static void
test_shared (StorageFixture *self, gconstpointer data)
{
  g_auto (Model) one = { 0 }, two = { 0 };
  put_model (self, "team/m", "one", 1, &one);
  put_model (self, "other/m", "two", 2, &two);
  g_assert_cmpuint (fixture_count (self->fs, CHUNKS), ==, 4); /* header, shared tensor, two others */
  fixture_age (self, "", LONG_AGO);
  remove_model (self, "team/m", "one", &one);
  StoreCollectStats stats = collect (self, 0);
  g_assert_cmpuint (stats.n_blobs, ==, 3);
  g_assert_cmpuint (stats.n_chunks, ==, 1);
  assert_whole (self, &two);
  stats = collect (self, 0);
  assert_nothing (&stats);
}

/* A manifest without a tag, and those that only an index names, keep what they need. */
static void
test_roots (StorageFixture *self, gconstpointer data)
{
  g_auto (Model) untagged = { 0 }, child = { 0 };
  Digest index, outer;
  put_model (self, "team/m", NULL, 1, &untagged);
  put_model (self, "team/m", NULL, 2, &child);
  g_autofree char *child_digest = digest_to_string (&child.manifest);
  g_autofree char *json = g_strdup_printf ("{\"schemaVersion\":2,\"manifests\":[{\"digest\":\"%s\"}]}", child_digest);
  put_manifest (self, "team/m", NULL, json, &index);
  g_autofree char *index_digest = digest_to_string (&index);
  g_autofree char *outer_json = g_strdup_printf (
    "{\"manifests\":[{\"digest\":\"%s\"},{\"digest\":\"sha256:%064d\"}]}", index_digest, 7);
  put_manifest (self, "team/m", "all", outer_json, &outer);
  remove_model (self, "team/m", NULL, &child); /* its link: only the index names it now */
  g_assert_true (manifest_link_remove (NULL, self->objects, "team/m", &index, NULL));
  fixture_age (self, "", LONG_AGO);
  StoreCollectStats stats = collect (self, 0);
  assert_nothing (&stats);
  assert_whole (self, &untagged);
  assert_whole (self, &child);
}

static void
test_sha512 (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GBytes) bytes = fixture_bytes (BYTES_BF16, 3, 2 * MiB);
  g_autoptr (UploadSession) session = upload_session_new (self->blobs, "team/m");
  g_autoptr (GError) error = NULL;
  Digest digest = fixture_digest (bytes, DIGEST_SHA512), manifest;
  fixture_assert_ok (upload_session_write (NULL, session, g_bytes_get_data (bytes, NULL), 2 * MiB, &error), error);
  fixture_assert_ok (upload_session_finish (NULL, session, &digest, &error), error);
  fixture_assert_ok (layer_link_put (NULL, self->objects, "team/m", &digest, &error), error);
  g_autofree char *text = digest_to_string (&digest);
  g_autofree char *json = g_strdup_printf ("{\"layers\":[{\"digest\":\"%s\"}]}", text);
  put_manifest (self, "team/m", "v", json, &manifest);
  fixture_age (self, "", LONG_AGO);
  StoreCollectStats stats = collect (self, 0);
  assert_nothing (&stats);
  fixture_assert_blob (self, &digest, bytes);
  fixture_assert_ok (tag_remove (NULL, self->objects, "team/m", "v", &error), error);
  fixture_assert_ok (manifest_link_remove (NULL, self->objects, "team/m", &manifest, &error), error);
  collect (self, 0);
  g_assert_cmpuint (fixture_count (self->fs, ""), ==, 0);
}

/* What is younger than the grace period stays, chunks without a recipe too. */
static void
test_grace (StorageFixture *self, gconstpointer data)
{
  g_auto (Model) model = { 0 };
  g_autoptr (GError) error = NULL;
  put_model (self, "team/m", "v1", 1, &model);
  remove_model (self, "team/m", "v1", &model);
  fixture_age (self, "docker/registry/v2/repositories/", LONG_AGO);
  StoreCollectStats stats = collect (self, 3600 * 1000);
  g_assert_cmpuint (stats.n_blobs + stats.n_chunks, ==, 0);
  assert_whole (self, &model);
  fixture_age (self, BLOBS, LONG_AGO);
  stats = collect (self, 3600 * 1000);
  g_assert_cmpuint (stats.n_blobs, ==, 3);
  g_assert_cmpuint (stats.n_chunks, ==, 0);
  g_assert_cmpuint (fixture_count (self->fs, CHUNKS), ==, 3);
  fixture_age (self, CHUNKS, LONG_AGO);
  stats = collect (self, 3600 * 1000);
  g_assert_cmpuint (stats.n_chunks, ==, 3);
  g_assert_cmpuint (fixture_count (self->fs, ""), ==, 0);
}

/* A young link keeps an old blob: a push may be about to name it. */
static void
test_young_link (StorageFixture *self, gconstpointer data)
{
  g_auto (Model) model = { 0 };
  put_model (self, "team/m", "v1", 1, &model);
  remove_model (self, "team/m", "v1", &model);
  fixture_age (self, BLOBS, LONG_AGO);
  fixture_age (self, CHUNKS, LONG_AGO);
  fixture_age (self, "docker/registry/v2/repositories/", 23);
  StoreCollectStats stats = collect (self, 0);
  g_assert_cmpuint (stats.n_blobs, ==, 1); /* the manifest */
  g_assert_cmpuint (stats.n_chunks + stats.n_links, ==, 0);
  fixture_assert_blob (self, &model.layer, model.weights);
  fixture_age (self, "docker/registry/v2/repositories/", 2);
  stats = collect (self, 0);
  g_assert_cmpuint (stats.n_links, ==, 2);
  g_assert_cmpuint (fixture_count (self->fs, ""), ==, 0);
}

/* A blob that somebody was told to be there stays for whoever was told, however old its link. */
static void
test_claimed_link (StorageFixture *self, gconstpointer data)
{
  static const guint ages[] = { 0, 11, 13, LONG_AGO };
  for (gsize i = 0; i < G_N_ELEMENTS (ages); i++)
    {
      g_auto (Model) model = { 0 };
      g_autoptr (GError) error = NULL;
      gboolean exists = FALSE;
      put_model (self, "team/m", "v1", 1, &model);
      remove_model (self, "team/m", "v1", &model);
      fixture_age (self, BLOBS, LONG_AGO);
      fixture_age (self, CHUNKS, LONG_AGO);
      fixture_age (self, "docker/registry/v2/repositories/", ages[i]);
      fixture_assert_ok (layer_link_claim (NULL, self->objects, "team/m", &model.layer, &exists, &error), error);
      g_assert_true (exists);
      fixture_age (self, "docker/registry/v2/repositories/", 11);
      collect (self, 0);
      fixture_assert_blob (self, &model.layer, model.weights);
      fixture_age (self, "", LONG_AGO);
      collect (self, 0);
      g_assert_cmpuint (fixture_count (self->fs, ""), ==, 0);
    }
}

/* What a live session stored, or was told as known, stays; it goes on and finishes after collection. */
static void
test_pins (StorageFixture *self, gconstpointer data)
{
  g_auto (Model) model = { 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) other = fixture_bytes (BYTES_RANDOM, 9, 9 * MiB);
  g_autoptr (GString) answers = g_string_new ("");
  put_model (self, "team/m", "v1", 1, &model);
  remove_model (self, "team/m", "v1", &model);
  g_autoptr (Recipe) recipe = blob_store_recipe (NULL, self->blobs, &model.layer, &error);
  const RecipeEntry *known = &g_array_index (recipe->entries, RecipeEntry, 1);
  UploadSession *session = upload_session_new (self->blobs, "team/m");
  fixture_assert_ok (upload_session_write (NULL, session, g_bytes_get_data (other, NULL), 8 * MiB + 5, &error),
                     error);
  fixture_assert_ok (upload_session_save (NULL, session, &error), error);
  g_autofree char *id = g_strdup (upload_session_id (session));
  upload_session_free (session);
  fixture_assert_ok (upload_session_known (NULL, self->blobs, "team/m", id, known->digest, 1, answers, &error),
                     error);
  g_assert_cmpstr (answers->str, ==, "1");
  fixture_age (self, "docker/", LONG_AGO);
  fixture_age (self, CHUNKS, LONG_AGO);
  fixture_age (self, UPLOADS, 23);
  StoreCollectStats stats = collect (self, 0);
  g_assert_cmpuint (stats.n_blobs, ==, 3);
  g_assert_cmpuint (stats.n_chunks, ==, 2); /* of the model's three */
  g_assert_cmpuint (stats.n_sessions, ==, 0);
  g_autofree guint8 *chunk = g_malloc (CHUNK_MAX_BYTES);
  g_assert_cmpint (blob_store_read_chunk (NULL, self->blobs, known->digest, chunk, &error), ==, known->decoded_size);
  session = upload_session_open (NULL, self->blobs, "team/m", id, &error);
  g_assert_no_error (error);
  const guint8 *rest = (const guint8 *) g_bytes_get_data (other, NULL) + 8 * MiB + 5;
  Digest digest = fixture_digest (other, DIGEST_SHA256);
  fixture_assert_ok (upload_session_write (NULL, session, rest, MiB - 5, &error), error);
  fixture_assert_ok (upload_session_finish (NULL, session, &digest, &error), error);
  upload_session_free (session);
  fixture_assert_blob (self, &digest, other);
}

static void
test_dead_session (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) other = fixture_bytes (BYTES_RANDOM, 9, 9 * MiB);
  g_autoptr (GString) answers = g_string_new ("");
  guint8 asked[32] = { 1 };
  UploadSession *session = upload_session_new (self->blobs, "team/m");
  g_autofree char *id = g_strdup (upload_session_id (session));
  fixture_assert_ok (upload_session_write (NULL, session, g_bytes_get_data (other, NULL), 9 * MiB, &error), error);
  fixture_assert_ok (upload_session_save (NULL, session, &error), error);
  fixture_assert_ok (upload_session_known (NULL, self->blobs, "team/m", id, asked, 1, answers, &error), error);
  upload_session_free (session);
  guint n = fixture_count (self->fs, UPLOADS);
  fixture_age (self, "", 25);
  StoreCollectStats stats = collect (self, 0);
  g_assert_cmpuint (n, ==, 3); /* state, tail, pins */
  g_assert_cmpuint (stats.n_sessions, ==, n);
  g_assert_cmpuint (stats.n_chunks, ==, 1);
  g_assert_cmpuint (fixture_count (self->fs, ""), ==, 0);
}

/* Expects an error and that not one object went. */
static void
expect_untouched (const StorageFixture *self, AmErrorCode code, const char *reason, const char *part)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *before = fixture_list (self->fs, "", 1000);
  StoreCollectStats stats = { .n_blobs = 5 };
  g_assert_false (store_collect (NULL, self->blobs, 0, &stats, &error));
  g_assert_cmpuint (stats.n_blobs, ==, 5);
  if (strstr (error->message, part) == NULL)
    g_error ("\"%s\" does not say %s", error->message, part);
  fixture_assert_error (&error, code, reason);
  g_autofree char *after = fixture_list (self->fs, "", 1000);
  g_assert_cmpstr (before, ==, after);
}

/* What is needed is unknown: nothing goes, not even what nobody needs. */
static void
test_unreadable (StorageFixture *self, gconstpointer data)
{
  g_auto (Model) model = { 0 }, gone = { 0 };
  put_model (self, "team/m", "v1", 1, &model);
  put_model (self, "team/m", "v2", 2, &gone);
  remove_model (self, "team/m", "v2", &gone);
  fixture_age (self, "", LONG_AGO);
  g_autofree char *manifest = blob_data_key (&model.manifest), *recipe = blob_recipe_key (&model.layer);
  g_autofree char *manifest_digest = digest_to_string (&model.manifest);
  fixture_flip (self, manifest, 3, 1);
  expect_untouched (self, AM_ERROR_DATA_LOSS, "ManifestUnreadable", manifest_digest);
  fixture_flip (self, manifest, 3, 1);
  fixture_flip (self, recipe, 30, 1);
  expect_untouched (self, AM_ERROR_DATA_LOSS, "RecipeCorrupt", recipe);
  fixture_flip (self, recipe, 30, 1);
  fixture_age (self, "", LONG_AGO); /* flipping wrote the files anew */
  /* A recipe that nobody needs may be as damaged as it likes. */
  g_autofree char *other = blob_recipe_key (&gone.layer);
  fixture_flip (self, other, 30, 1);
  fixture_age (self, "", LONG_AGO);
  StoreCollectStats stats = collect (self, 0);
  g_assert_cmpuint (stats.n_blobs, ==, 3);
  assert_whole (self, &model);
}

static void
test_strange_manifests (StorageFixture *self, gconstpointer data)
{
  static const char *const texts[] = {
    "[]x",
    "{\"config\":{\"digest\":\"md5:1234\"}}",
    "{\"layers\":[{\"digest\":7}]}",
    "{\"layers\":[{}]}",
    "{\"layers\":[\"sha256\"]}",
    "{\"manifests\":[{\"digest\":\"sha256:12\"}]}",
  };
  g_auto (Model) gone = { 0 };
  put_model (self, "team/m", "v2", 2, &gone);
  remove_model (self, "team/m", "v2", &gone);
  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      Digest digest;
      put_manifest (self, "team/m", "odd", texts[i], &digest);
      fixture_age (self, "", LONG_AGO);
      expect_untouched (self, AM_ERROR_DATA_LOSS, "ManifestUnreadable", "nothing was freed");
      g_assert_true (manifest_link_remove (NULL, self->objects, "team/m", &digest, NULL));
    }
  collect (self, 0);
  g_assert_cmpuint (fixture_count (self->fs, CHUNKS), ==, 0);
}

/* Objects that are not the store's own are left alone. */
static void
test_foreign (StorageFixture *self, gconstpointer data)
{
  static const char *const keys[] = {
    BLOBS "sha256/ab/notahex/data",
    BLOBS "md5/ab/abcd/data",
    BLOBS "readme",
    CHUNKS "ab/notes.txt",
    CHUNKS "zz",
    UPLOADS "readme",
    UPLOADS "not-a-uuid/state-1",
    "raw/uid/file",
    "docker/registry/v2/repositories/team/m/_layers/odd/thing/link",
    "docker/registry/v2/repositories/team/m/_manifests/revisions/odd",
  };
  for (gsize i = 0; i < G_N_ELEMENTS (keys); i++)
    fixture_put (self->fs, keys[i], "x");
  fixture_age (self, "", LONG_AGO);
  StoreCollectStats stats = collect (self, 0);
  assert_nothing (&stats);
  g_assert_cmpuint (fixture_count (self->fs, ""), ==, G_N_ELEMENTS (keys));
}

static void
test_busy (StorageFixture *self, gconstpointer data)
{
  g_auto (Model) gone = { 0 };
  g_autoptr (GError) error = NULL;
  put_model (self, "team/m", "v2", 2, &gone);
  remove_model (self, "team/m", "v2", &gone);
  fixture_age (self, "", LONG_AGO);
  ObjectStore *other = object_store_fs_new (self->dir, FALSE, &error);
  g_assert_no_error (error);
  expect_untouched (self, AM_ERROR_UNAVAILABLE, "StoreBusy", "no space was freed");
  object_store_free (other);
  collect (self, 0);
  g_assert_cmpuint (fixture_count (self->fs, ""), ==, 0);
}

/* Every operation fails in turn, for once and for good: the model that is referenced stays whole, and a run without
 * faults ends where it would have ended. */
static void
test_every_fault (StorageFixture *self, gconstpointer data)
{
  for (guint stays_down = 0; stays_down < 2; stays_down++)
    {
      g_auto (Model) kept = { 0 };
      gboolean failed = TRUE;
      put_model (self, "team/m", "kept", 1, &kept);
      guint n_kept = fixture_count (self->fs, "");
      for (guint nth = 1; failed; nth++)
        {
          g_auto (Model) gone = { 0 };
          g_autoptr (GError) error = NULL;
          StoreCollectStats stats;
          put_model (self, "team/m", "gone", 2, &gone);
          remove_model (self, "team/m", "gone", &gone);
          fixture_age (self, "", LONG_AGO);
          object_store_fault_set (self->objects, nth, stays_down);
          failed = !store_collect (NULL, self->blobs, 0, &stats, &error);
          object_store_fault_set (self->objects, 0, FALSE);
          if (failed)
            fixture_assert_error (&error,
                                  error->code == AM_ERROR_DATA_LOSS ? AM_ERROR_DATA_LOSS : AM_ERROR_UNAVAILABLE,
                                  error->code == AM_ERROR_DATA_LOSS ? "ManifestUnreadable" : NULL);
          assert_whole (self, &kept);
          collect (self, 0);
          assert_whole (self, &kept);
          g_assert_cmpuint (fixture_count (self->fs, ""), ==, n_kept);
          g_assert_cmpuint (nth, <, 1000);
        }
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  STORAGE_TEST ("/collect/unreferenced", test_unreferenced);
  STORAGE_TEST ("/collect/empty", test_empty);
  STORAGE_TEST ("/collect/shared", test_shared);
  STORAGE_TEST ("/collect/roots", test_roots);
  STORAGE_TEST ("/collect/sha512", test_sha512);
  STORAGE_TEST ("/collect/grace", test_grace);
  STORAGE_TEST ("/collect/young-link", test_young_link);
  STORAGE_TEST ("/collect/claimed-link", test_claimed_link);
  STORAGE_TEST ("/collect/pins", test_pins);
  STORAGE_TEST ("/collect/dead-session", test_dead_session);
  STORAGE_TEST ("/collect/unreadable", test_unreadable);
  STORAGE_TEST ("/collect/strange-manifests", test_strange_manifests);
  STORAGE_TEST ("/collect/foreign", test_foreign);
  STORAGE_TEST ("/collect/busy", test_busy);
  STORAGE_TEST ("/collect/every-fault", test_every_fault);
  return g_test_run ();
}
