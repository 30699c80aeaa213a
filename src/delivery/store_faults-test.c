/* Every single operation of the store fails in turn, in every way that stores fail, while a model is pushed into it and
 * pulled from it: the error is clean and names the object, nothing is half visible, nothing that was acknowledged is
 * lost, and the same again without faults succeeds. */
#include <string.h>

#include "base/file.h"
#include "delivery/pull.h"
#include "registry/repository_local.h"
#include "storage/chunk_plan.h"
#include "storage/object_store_fault.h"
#include "storage/storage_fixture.h"

#define REPOSITORY "team/model"
#define BLOBS "docker/registry/v2/blobs/"
#define MAX_OPERATIONS 1000u

typedef struct {
  GBytes *weights, *settings, *config, *manifest;
} Model;

static void
model_clear (Model *self)
{
  g_clear_pointer (&self->weights, g_bytes_unref);
  g_clear_pointer (&self->settings, g_bytes_unref);
  g_clear_pointer (&self->config, g_bytes_unref);
  g_clear_pointer (&self->manifest, g_bytes_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Model, model_clear)

/* Weights of two tensors, of which the first and larger one is the same in all models. */
static void
model_init (Model *self, guint seed)
{
  const gsize sizes[] = { BLOB_WHOLE_MAX_BYTES, 4096 };
  gsize size;
  g_autoptr (GError) error = NULL;
  guint8 *weights = g_bytes_unref_to_data (fixture_safetensors (1, "BF16", 2, sizes, 2, 0), &size);
  g_autofree char *settings = g_strdup_printf ("{\"seed\":%u}", seed);
  fixture_fill (BYTES_BF16, seed, weights + size - sizes[1], sizes[1]);
  self->weights = g_bytes_new_take (weights, size);
  self->settings = g_bytes_new (settings, strlen (settings));
  const ModelpackFile files[] = {
    { "model.safetensors", fixture_digest (self->weights, DIGEST_SHA256), size },
    { "config.json", fixture_digest (self->settings, DIGEST_SHA256), strlen (settings) },
  };
  g_auto (ModelpackFacts) facts = { 0 };
  fixture_assert_ok (modelpack_build (files, 2, &facts, &self->config, &self->manifest, &error), error);
}

static gboolean
push_blob (Repository *repository, GBytes *bytes, gboolean tells_digest, GError **error)
{
  g_autoptr (Reader) content = reader_new_bytes (bytes);
  Digest expected = fixture_digest (bytes, DIGEST_SHA256), actual;
  if (!repository_push_blob (NULL, repository, content, tells_digest ? &expected : NULL, NULL, NULL, NULL, &actual,
                             error))
    return FALSE;
  g_assert_true (digest_equal (&expected, &actual));
  return TRUE;
}

static gboolean
push_model (BlobStore *blobs, const Model *model, const char *tag, gboolean tells_digests, GError **error)
{
  g_autoptr (Repository) repository = repository_local_new (blobs, REPOSITORY, NULL);
  Digest digest;
  return push_blob (repository, model->weights, tells_digests, error)
         && push_blob (repository, model->settings, tells_digests, error)
         && push_blob (repository, model->config, tells_digests, error)
         && repository_put_manifest (NULL, repository, tag, NULL, model->manifest, &digest, error);
}

/* What is seen of a blob through the repository is all of it. */
static void
check_blob (BlobStore *calm, GBytes *bytes, gboolean is_required)
{
  g_autoptr (Repository) repository = repository_local_new (calm, REPOSITORY, NULL);
  g_autoptr (GError) error = NULL;
  Digest digest = fixture_digest (bytes, DIGEST_SHA256);
  guint64 size;
  gboolean exists = repository_blob_exists (NULL, repository, &digest, &size, &error);
  if (!exists)
    {
      g_assert_false (is_required);
      fixture_assert_error (&error, AM_ERROR_NOT_FOUND, "BLOB_UNKNOWN");
      return;
    }
  g_autoptr (GBytes) got = blob_store_get (NULL, calm, &digest, G_MAXSIZE - 1, &error);
  g_assert_no_error (error);
  g_assert_true (g_bytes_equal (got, bytes));
}

static void
check_model (BlobStore *calm, const Model *model, const char *tag, gboolean is_required)
{
  g_autoptr (Repository) repository = repository_local_new (calm, REPOSITORY, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) manifest = repository_get_manifest (NULL, repository, tag, NULL, NULL, &error);
  if (manifest == NULL)
    fixture_assert_error (&error, AM_ERROR_NOT_FOUND, "MANIFEST_UNKNOWN");
  else
    g_assert_true (g_bytes_equal (manifest, model->manifest));
  g_assert_true (manifest != NULL || !is_required);
  check_blob (calm, model->weights, manifest != NULL);
  check_blob (calm, model->settings, manifest != NULL);
  check_blob (calm, model->config, manifest != NULL);
}

/* Whatever has a blob's name is that blob. `checked` remembers what was looked at. */
static void
check_all_blobs (const StorageFixture *self, BlobStore *calm, GHashTable *checked)
{
  g_autofree char *keys = fixture_list (self->fs, BLOBS, 1000);
  g_auto (GStrv) parts = g_strsplit (keys, " ", -1);
  for (guint i = 0; parts[i] != NULL; i++)
    {
      g_autoptr (GError) error = NULL;
      g_auto (GStrv) names = g_strsplit (parts[i] + strlen (BLOBS), "/", -1);
      g_autofree char *text = g_strdup_printf ("%s:%s", names[0], names[2]);
      Digest digest;
      if (!g_hash_table_add (checked, g_strdup (text)))
        continue;
      fixture_assert_ok (digest_parse (text, &digest, &error), error);
      fixture_assert_ok (blob_store_verify (NULL, calm, &digest, NULL, NULL, &error), error);
    }
}

static const struct {
  AmErrorCode code;
  const char *reason;
} expected_errors[N_OBJECT_FAULTS] = {
  [OBJECT_FAULT_DOWN] = { AM_ERROR_UNAVAILABLE, NULL },
  [OBJECT_FAULT_IO] = { AM_ERROR_DATA_LOSS, NULL },
  [OBJECT_FAULT_NO_SPACE] = { AM_ERROR_RESOURCE_EXHAUSTED, "InsufficientStorage" },
  [OBJECT_FAULT_READ_ONLY] = { AM_ERROR_PERMISSION_DENIED, "ReadOnlyStorage" },
  [OBJECT_FAULT_CUT] = { AM_ERROR_DATA_LOSS, NULL },
  [OBJECT_FAULT_FLIP] = { AM_ERROR_DATA_LOSS, NULL },
};

/* By its key, by the digest in it, or as the tag that it is. */
static gboolean
names_object (const char *message, const char *key)
{
  g_auto (GStrv) parts = g_strsplit (key, "/", -1);
  gboolean named = strstr (message, key) != NULL || strstr (message, "tag base of " REPOSITORY) != NULL;
  for (guint i = 0; parts[i] != NULL; i++)
    named = named || (strlen (parts[i]) == 64 && strstr (message, parts[i]) != NULL);
  return named;
}

static void
check_error (const GError *error, ObjectFault kind, const char *struck)
{
  g_assert_nonnull (error);
  g_test_message ("%s: %s", am_error_info_of (error)->name, error->message);
  g_assert_true (error->domain == AM_ERROR);
  g_assert_cmpint (error->code, ==, expected_errors[kind].code);
  if (expected_errors[kind].reason != NULL)
    g_assert_cmpstr (am_error_reason (error), ==, expected_errors[kind].reason);
  if (struck != NULL && !names_object (error->message, struck))
    g_error ("\"%s\" does not name %s", error->message, struck);
}

/* One push whose n-th operation fails. FALSE when it took fewer. */
static gboolean
push_with_fault (StorageFixture *self, BlobStore *calm, ObjectFault kind, guint nth, gboolean stays_down,
                 GHashTable *checked)
{
  g_auto (Model) model;
  g_autoptr (GError) error = NULL;
  g_autofree char *tag = g_strdup_printf ("v%u", nth);
  gboolean tells_digests = nth % 2 == 0;
  model_init (&model, 1000 * (guint) kind + nth);
  object_store_fault_set (self->objects, nth, stays_down);
  gboolean done = push_model (self->blobs, &model, tag, tells_digests, &error);
  gboolean is_struck = object_store_fault_count (self->objects) >= nth;
  g_autofree char *struck = g_strdup (object_store_fault_struck (self->objects));
  object_store_fault_set (self->objects, 0, FALSE);
  if (!done)
    check_error (error, kind, stays_down ? NULL : struck);
  g_assert_true (done || is_struck);
  check_model (calm, &model, tag, done);
  check_all_blobs (self, calm, checked);
  g_clear_error (&error);
  fixture_assert_ok (push_model (self->blobs, &model, tag, tells_digests, &error), error);
  check_model (calm, &model, tag, TRUE);
  return is_struck;
}

typedef struct {
  ObjectFault kind;
  gboolean stays_down, is_late;
  guint at_least; /* operations that a push, and a pull, has for it */
  guint pull_at_least;
  gboolean is_far;
} Way;

static const Way ways[] = {
  { OBJECT_FAULT_DOWN, FALSE, FALSE, 50, 15 },     { OBJECT_FAULT_DOWN, TRUE, FALSE, 50, 15 },
  { OBJECT_FAULT_DOWN, FALSE, TRUE, 50, 0 },       { OBJECT_FAULT_IO, FALSE, FALSE, 50, 15 },
  { OBJECT_FAULT_IO, TRUE, FALSE, 50, 15 },        { OBJECT_FAULT_NO_SPACE, FALSE, FALSE, 30, 0 },
  { OBJECT_FAULT_NO_SPACE, TRUE, FALSE, 30, 0 },   { OBJECT_FAULT_READ_ONLY, FALSE, FALSE, 30, 0 },
  { OBJECT_FAULT_READ_ONLY, TRUE, FALSE, 30, 0 },  { OBJECT_FAULT_CUT, FALSE, FALSE, 4, 4 },
  { OBJECT_FAULT_FLIP, FALSE, FALSE, 4, 8 },       { OBJECT_FAULT_DOWN, FALSE, FALSE, 40, 15, TRUE },
  { OBJECT_FAULT_DOWN, FALSE, TRUE, 40, 0, TRUE },
};

/* Each operation once; where a store goes down, some of the moments do. */
static guint
step (const Way *way, guint nth)
{
  return way->stays_down ? 1 + nth / 4 : 1;
}

static void
test_push (StorageFixture *self, gconstpointer data)
{
  const Way *way = data;
  g_autoptr (BlobStore) calm = blob_store_new (self->fs);
  g_autoptr (GHashTable) checked = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (GError) error = NULL;
  g_auto (Model) base;
  guint nth = 1;
  model_init (&base, 7);
  fixture_assert_ok (push_model (self->blobs, &base, "base", FALSE, &error), error);
  object_store_fault_set_kind (self->objects, way->kind);
  object_store_fault_set_late (self->objects, way->is_late);
  for (; push_with_fault (self, calm, way->kind, nth, way->stays_down, checked); nth += step (way, nth))
    g_assert_cmpuint (nth, <, MAX_OPERATIONS);
  g_assert_cmpuint (nth, >, way->at_least);
  check_model (calm, &base, "base", TRUE);
}

static void
check_file (const char *directory, const char *name, GBytes *wanted)
{
  g_autofree char *path = g_build_filename (directory, name, NULL);
  g_autofree char *content = NULL;
  gsize size;
  g_assert_true (g_file_get_contents (path, &content, &size, NULL));
  g_assert_cmpuint (size, ==, g_bytes_get_size (wanted));
  g_assert_cmpint (memcmp (content, g_bytes_get_data (wanted, NULL), size), ==, 0);
}

static gboolean
pull (BlobStore *blobs, BlobStore *local, const char *directory, GError **error)
{
  g_autoptr (Repository) repository = repository_local_new (blobs, REPOSITORY, NULL);
  g_autoptr (Artifact) artifact = artifact_resolve (NULL, repository, "base", error);
  g_auto (PullResult) result = { 0 };
  PullOptions options = { .directory = directory, .local = local };
  return artifact != NULL && pull_artifact (NULL, repository, artifact, &options, &result, error);
}

/* One pull whose n-th operation fails. FALSE when it took fewer. */
static gboolean
pull_with_fault (StorageFixture *self, const Model *model, const char *folder, const Way *way, guint nth,
                 gboolean with_local)
{
  g_autofree char *directory = g_strdup_printf ("%s/%u", folder, nth);
  g_autoptr (GError) error = NULL;
  BlobStore *local = with_local ? self->blobs : NULL;
  object_store_fault_set (self->objects, nth, way->stays_down);
  gboolean done = pull (self->blobs, local, directory, &error);
  gboolean is_struck = object_store_fault_count (self->objects) >= nth;
  g_autofree char *struck = g_strdup (object_store_fault_struck (self->objects));
  object_store_fault_set (self->objects, 0, FALSE);
  g_assert_true (done || is_struck);
  g_assert_cmpint (g_file_test (directory, G_FILE_TEST_EXISTS), ==, done);
  if (!done && way->kind == OBJECT_FAULT_FLIP)
    g_test_message ("%s: %s", struck, error->message); /* a flip in a link may make it another's */
  else if (!done)
    check_error (error, way->kind, way->stays_down ? NULL : struck);
  g_clear_error (&error);
  fixture_assert_ok (pull (self->blobs, local, directory, &error), error);
  check_file (directory, "model.safetensors", model->weights);
  check_file (directory, "config.json", model->settings);
  return is_struck;
}

static void
test_pull (StorageFixture *self, gconstpointer data)
{
  const Way *way = data;
  g_autoptr (GError) error = NULL;
  g_auto (Model) model;
  model_init (&model, 7);
  fixture_assert_ok (push_model (self->blobs, &model, "base", FALSE, &error), error);
  object_store_fault_set_kind (self->objects, way->kind);
  for (guint with_local = 0; with_local < 2; with_local++)
    {
      g_autofree char *folder = g_dir_make_tmp ("pull-XXXXXX", &error);
      guint nth = 1;
      for (; pull_with_fault (self, &model, folder, way, nth, with_local); nth += step (way, nth))
        g_assert_cmpuint (nth, <, MAX_OPERATIONS);
      g_assert_cmpuint (nth, >, way->pull_at_least);
      fixture_assert_ok (file_remove_tree (folder, &error), error);
    }
}

int
main (int argc, char **argv)
{
  static const char *const names[] = { "down", "io", "no-space", "read-only", "cut", "flip" };
  g_test_init (&argc, &argv, NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (ways); i++)
    {
      g_autofree char *name = g_strdup_printf ("%s%s%s%s", names[ways[i].kind], ways[i].stays_down ? "-for-good" : "",
                                               ways[i].is_late ? "-late" : "", ways[i].is_far ? "-far" : "");
      void (*set_up) (StorageFixture * fixture, gconstpointer data) = ways[i].is_far ? storage_fixture_set_up_far
                                                                                     : storage_fixture_set_up;
      g_autofree char *push = g_strdup_printf ("/store-faults/push/%s", name);
      g_autofree char *pull_name = g_strdup_printf ("/store-faults/pull/%s", name);
      g_test_add (push, StorageFixture, &ways[i], set_up, test_push, storage_fixture_tear_down);
      if (ways[i].pull_at_least > 0)
        g_test_add (pull_name, StorageFixture, &ways[i], set_up, test_pull, storage_fixture_tear_down);
    }
  return g_test_run ();
}
