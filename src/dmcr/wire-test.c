/* The remote Repository (registry/) against the real server, in one process: the chunk wire both ways. */
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "dmcr/dmcr.h"
#include "oci/media_types.h"
#include "registry/registry_fixture.h"
#include "registry/repository_remote.h"
#include "storage/object_store_fault.h"

#define MIB (1024u * 1024u)

typedef struct {
  StoreFixture store;
  ObjectStore *faulty;
  BlobStore *faulty_blobs;
  Ctx *ctx;
  Dmcr *dmcr;
  char *host;
  char *resume_dir;
} Fixture;

static void
start_server (Fixture *self, guint16 port)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *address = g_strdup_printf ("127.0.0.1:%u", port);
  DmcrConfig config = { .listen_address = address, .anonymous_read = TRUE, .anonymous_write = TRUE };
  self->dmcr = dmcr_start (self->ctx, &config, self->faulty_blobs, &error);
  g_assert_no_error (error);
}

static void
set_up (Fixture *self, gconstpointer data)
{
  store_fixture_init (&self->store);
  self->faulty = object_store_fault_new (self->store.objects);
  self->faulty_blobs = blob_store_new (self->faulty);
  self->ctx = ctx_new ();
  start_server (self, 0);
  self->host = g_strdup_printf ("127.0.0.1:%u", dmcr_port (self->dmcr));
  self->resume_dir = g_dir_make_tmp ("resume-XXXXXX", NULL);
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  dmcr_free (self->dmcr);
  blob_store_free (self->faulty_blobs);
  object_store_free (self->faulty);
  store_fixture_clear (&self->store);
  g_assert_true (file_remove_tree (self->resume_dir, NULL));
  g_free (self->resume_dir);
  g_free (self->host);
  ctx_unref (self->ctx);
}

static Repository *
connect_to (Fixture *self, const char *name, gboolean plain_oci)
{
  g_autoptr (GError) error = NULL;
  RegistryConfig config = {
    .host = self->host, .plain_http = TRUE, .resume_dir = self->resume_dir, .plain_oci = plain_oci
  };
  Repository *repository = repository_remote_new (&config, name, &error);
  g_assert_no_error (error);
  return repository;
}

static void
push (Fixture *self, Repository *repository, GBytes *bytes, gboolean tell_digest, FixtureProgress *progress)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (Reader) content = reader_new_bytes (bytes);
  Digest expected, actual;
  fixture_digest (bytes, &expected);
  *progress = (FixtureProgress){ 0 };
  repository_push_blob (self->ctx, repository, content, tell_digest ? &expected : NULL, "key", fixture_progress,
                        progress, &actual, &error);
  g_assert_no_error (error);
  g_assert_true (digest_equal (&expected, &actual));
  g_assert_cmpuint (progress->logical, ==, g_bytes_get_size (bytes));
  guint64 size = 0;
  g_assert_true (repository_blob_exists (self->ctx, repository, &expected, &size, &error));
  g_assert_cmpuint (size, ==, g_bytes_get_size (bytes));
  g_autoptr (GDir) notes = g_dir_open (self->resume_dir, 0, NULL);
  g_assert_null (g_dir_read_name (notes));
}

static void
assert_stored (Fixture *self, GBytes *bytes)
{
  g_autoptr (GError) error = NULL;
  Digest digest;
  fixture_digest (bytes, &digest);
  blob_store_verify (self->ctx, self->store.blobs, &digest, NULL, NULL, &error);
  g_assert_no_error (error);
}

static void
read_back (Fixture *self, Repository *repository, GBytes *bytes)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GByteArray) got = g_byte_array_new ();
  Digest digest;
  fixture_digest (bytes, &digest);
  repository_read_blob (self->ctx, repository, &digest, 0, g_bytes_get_size (bytes), fixture_append, got, &error);
  g_assert_no_error (error);
  g_assert_cmpmem (got->data, got->len, g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
}

static void
test_push_and_pull (Fixture *self, gconstpointer data)
{
  static const gsize sizes[] = { 0, 1, 1000, MIB, MIB + 1, 9 * MIB + 5, 30 * MIB };
  for (guint plain = 0; plain < 2; plain++)
    for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
      {
        g_autoptr (Repository) repository = connect_to (self, "team/model", plain == 1);
        g_autoptr (GBytes) bytes = fixture_noise (sizes[i], 7 * plain + i % 2);
        FixtureProgress progress;
        push (self, repository, bytes, i % 2 == 0, &progress);
        assert_stored (self, bytes);
        read_back (self, repository, bytes);
        push (self, repository, bytes, TRUE, &progress);
        g_assert_cmpuint (progress.moved, ==, 0);
      }
}

/* The second of two models that share tensors sends only what differs. */
static void
test_second_push_moves_references (Fixture *self, gconstpointer data)
{
  g_autoptr (Repository) repository = connect_to (self, "m", FALSE);
  g_autoptr (GBytes) base = fixture_model (12, 4 * MIB, 1, 0);
  g_autoptr (GBytes) tuned = fixture_model (12, 4 * MIB, 1, 1 << 5);
  FixtureProgress progress;
  push (self, repository, base, FALSE, &progress);
  g_assert_cmpuint (progress.moved, <, 46 * MIB); /* bf16 shrinks */
  push (self, repository, tuned, FALSE, &progress);
  g_assert_cmpuint (progress.moved, <, 4 * MIB);
  assert_stored (self, tuned);
  /* In another repository, where the blob itself must not be found, all of it is known too. */
  g_autoptr (Repository) other = connect_to (self, "n", FALSE);
  push (self, other, base, TRUE, &progress);
  g_assert_cmpuint (progress.moved, <, 10000);
}

static void
fetch_chunks (Fixture *self, Repository *repository, GBytes *bytes, guint every)
{
  g_autoptr (GError) error = NULL;
  Digest digest;
  fixture_digest (bytes, &digest);
  g_autoptr (Recipe) recipe = repository_get_recipe (self->ctx, repository, &digest, &error);
  g_assert_no_error (error);
  guint n = recipe->entries->len;
  g_autofree guint8 *wanted = g_malloc0 (n);
  guint n_wanted = 0;
  for (guint i = 0; i < n; i++)
    n_wanted += wanted[i] = i % every == 0;
  ChunkCollector collector;
  chunk_collector_init (&collector, g_bytes_get_size (bytes));
  repository_read_chunks (self->ctx, repository, recipe, wanted, chunk_collector_take, NULL, &collector, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (collector.n_chunks, ==, n_wanted);
  g_assert_cmpuint (collector.n_again, ==, 0);
  if (every == 1)
    g_assert_cmpmem (collector.bytes->data, collector.bytes->len, g_bytes_get_data (bytes, NULL),
                     g_bytes_get_size (bytes));
  chunk_collector_clear (&collector);
}

static void
test_pull_chunks (Fixture *self, gconstpointer data)
{
  g_autoptr (Repository) repository = connect_to (self, "m", FALSE);
  g_autoptr (GBytes) model = fixture_model (20, 5 * MIB, 2, 0);
  FixtureProgress progress;
  push (self, repository, model, FALSE, &progress);
  fetch_chunks (self, repository, model, 1);
  fetch_chunks (self, repository, model, 2);
  fetch_chunks (self, repository, model, 1000);
  /* Small blobs have no recipe, and plain clients do not ask. */
  g_autoptr (GBytes) small = fixture_noise (1000, 3);
  g_autoptr (GError) error = NULL;
  Digest digest;
  push (self, repository, small, FALSE, &progress);
  fixture_digest (small, &digest);
  g_assert_null (repository_get_recipe (self->ctx, repository, &digest, &error));
  g_assert_no_error (error);
  g_autoptr (Repository) plain = connect_to (self, "m", TRUE);
  fixture_digest (model, &digest);
  g_assert_null (repository_get_recipe (self->ctx, plain, &digest, &error));
  g_assert_no_error (error);
  Digest unknown = { 0 };
  g_assert_null (repository_get_recipe (self->ctx, repository, &unknown, &error));
  g_assert_true (am_error_has_reason (error, "BLOB_UNKNOWN"));
}

typedef struct {
  Fixture *fixture;
  guint64 at_bytes;
  gint n_left; /* of the mischief */
  guint n_reads_from_start;
  void (*mischief) (Fixture *fixture);
  gboolean then_fail;
} Trap;

static gboolean
spring (guint64 offset_bytes, gpointer data, GError **error)
{
  Trap *self = data;
  if (offset_bytes == 0)
    self->n_reads_from_start++;
  if (offset_bytes < self->at_bytes || self->n_left == 0)
    return TRUE;
  self->n_left--;
  if (self->mischief != NULL)
    self->mischief (self->fixture);
  return !self->then_fail || am_fail (error, AM_ERROR_INTERNAL, NULL, "trap");
}

/* Content is read far ahead of what is sent: until the server has some of it, there is nothing to go on with. */
static void
wait_for_chunks (Fixture *self)
{
  gint64 until_us = g_get_monotonic_time () + 60 * G_USEC_PER_SEC;
  while (store_fixture_count (&self->store, "_ai_models/chunks/") < 2)
    {
      g_assert_cmpint (g_get_monotonic_time (), <, until_us);
      g_usleep (2000);
    }
}

/* The process ends in the middle (here: its content cannot be read on); a later one goes on. */
static void
test_resume_in_later_process (Fixture *self, gconstpointer data)
{
  g_autoptr (GBytes) model = fixture_noise (80 * MIB, 5);
  Trap trap = { .fixture = self, .at_bytes = 60 * MIB, .n_left = 1, .mischief = wait_for_chunks, .then_fail = TRUE };
  g_autoptr (Reader) content = fixture_watched_reader (model, spring, &trap);
  FixtureProgress progress = { 0 };
  g_autoptr (GError) error = NULL;
  {
    g_autoptr (Repository) repository = connect_to (self, "m", FALSE);
    g_assert_false (
      repository_push_blob (self->ctx, repository, content, NULL, "key", fixture_progress, &progress, NULL, &error));
    g_assert_true (am_error_is (error, AM_ERROR_INTERNAL));
  }
  g_clear_error (&error);
  g_autoptr (GDir) notes = g_dir_open (self->resume_dir, 0, NULL);
  g_assert_nonnull (g_dir_read_name (notes));
  /* Another key is another push. */
  g_autoptr (Repository) repository = connect_to (self, "m", FALSE);
  push (self, repository, model, FALSE, &progress);
  g_assert_cmpuint (progress.moved, <, 73 * MIB);
  assert_stored (self, model);
}

/* What was remembered belongs to other content now, or to a session that is gone. */
static void
test_resume_stale (Fixture *self, gconstpointer data)
{
  g_autoptr (GBytes) first = fixture_noise (60 * MIB, 5);
  g_autoptr (GBytes) second = fixture_noise (60 * MIB, 6);
  for (guint gone = 0; gone < 2; gone++)
    {
      Trap trap = { .fixture = self, .at_bytes = 50 * MIB, .n_left = 1, .then_fail = TRUE };
      g_autoptr (Reader) content = fixture_watched_reader (first, spring, &trap);
      FixtureProgress progress = { 0 };
      g_autoptr (Repository) repository = connect_to (self, "m", FALSE);
      g_assert_false (
        repository_push_blob (self->ctx, repository, content, NULL, "key", fixture_progress, &progress, NULL, NULL));
      if (gone == 1)
        g_assert_true (object_store_remove_prefix (NULL, self->store.objects, "_ai_models/uploads/", NULL));
      push (self, repository, gone == 1 ? first : second, FALSE, &progress);
      assert_stored (self, gone == 1 ? first : second);
    }
}

static void
restart_server (Fixture *self)
{
  guint16 port = dmcr_port (self->dmcr);
  dmcr_free (self->dmcr);
  start_server (self, port);
}

static void
break_store_once (Fixture *self)
{
  object_store_fault_set (self->faulty, 3, FALSE);
}

static void
forget_sessions (Fixture *self)
{
  g_assert_true (object_store_remove_prefix (NULL, self->store.objects, "_ai_models/uploads/", NULL));
}

static const struct {
  const char *name;
  void (*mischief) (Fixture *self);
  gint n;
} mischiefs[] = {
  { "restart", restart_server, 2 },
  { "broken store", break_store_once, 3 },
  { "forgotten session", forget_sessions, 1 },
};

static void
test_survives (Fixture *self, gconstpointer data)
{
  for (guint i = 0; i < G_N_ELEMENTS (mischiefs); i++)
    {
      g_autoptr (GBytes) model = fixture_noise (70 * MIB + 3, 20 + i);
      Trap trap = {
        .fixture = self, .at_bytes = 30 * MIB, .n_left = mischiefs[i].n, .mischief = mischiefs[i].mischief
      };
      g_autoptr (Reader) content = fixture_watched_reader (model, spring, &trap);
      g_autoptr (Repository) repository = connect_to (self, "m", FALSE);
      FixtureProgress progress = { 0 };
      g_autoptr (GError) error = NULL;
      Digest digest, expected;
      g_test_message ("%s", mischiefs[i].name);
      repository_push_blob (self->ctx, repository, content, NULL, "key", fixture_progress, &progress, &digest,
                            &error);
      g_assert_no_error (error);
      fixture_digest (model, &expected);
      g_assert_true (digest_equal (&digest, &expected));
      g_assert_cmpuint (progress.logical, ==, g_bytes_get_size (model));
      assert_stored (self, model);
    }
}

/* A chunk that the server is sure to have is damaged: the push finds out and sends it whole. */
static void
test_damaged_chunk_is_sent_again (Fixture *self, gconstpointer data)
{
  g_autoptr (Repository) repository = connect_to (self, "m", FALSE);
  g_autoptr (GBytes) model = fixture_noise (40 * MIB, 40);
  FixtureProgress progress;
  Digest digest;
  g_autoptr (GError) error = NULL;
  push (self, repository, model, FALSE, &progress);
  fixture_digest (model, &digest);
  g_autoptr (Recipe) recipe = blob_store_recipe (self->ctx, self->store.blobs, &digest, &error);
  g_autofree char *key = chunk_key (g_array_index (recipe->entries, RecipeEntry, 2).digest);
  g_autofree char *path = g_build_filename (self->store.root, key, NULL);
  g_autofree char *bytes = NULL;
  gsize size = 0;
  g_assert_true (g_file_get_contents (path, &bytes, &size, NULL));
  bytes[size / 2] ^= 1;
  g_assert_true (g_file_set_contents (path, bytes, (gssize) size, NULL));
  /* Pulling tells; nothing damaged is delivered. */
  g_autofree guint8 *wanted = g_malloc (recipe->entries->len);
  memset (wanted, 1, recipe->entries->len);
  ChunkCollector collector;
  chunk_collector_init (&collector, g_bytes_get_size (model));
  g_assert_false (
    repository_read_chunks (self->ctx, repository, recipe, wanted, chunk_collector_take, NULL, &collector, &error));
  g_test_message ("%s", error->message);
  g_assert_null (g_hash_table_lookup (collector.seen, &recipe->starts[2]));
  chunk_collector_clear (&collector);
  /* Pushing mends. */
  g_autoptr (Repository) other = connect_to (self, "n", FALSE);
  push (self, other, model, TRUE, &progress);
  g_assert_cmpuint (progress.moved, >, 8 * MIB);
  assert_stored (self, model);
}

static void
test_wrong_content (Fixture *self, gconstpointer data)
{
  g_autoptr (Repository) repository = connect_to (self, "m", FALSE);
  g_autoptr (GBytes) model = fixture_noise (12 * MIB, 50);
  g_autoptr (Reader) content = reader_new_bytes (model);
  g_autoptr (GError) error = NULL;
  Digest other;
  digest_of (DIGEST_SHA256, "x", 1, &other);
  g_assert_false (repository_push_blob (self->ctx, repository, content, &other, "key", NULL, NULL, NULL, &error));
  g_assert_true (am_error_has_reason (error, "DIGEST_INVALID"));
  g_assert_cmpuint (store_fixture_count (&self->store, "_ai_models/uploads/"), ==, 0);
}

static void
test_manifests_and_tags (Fixture *self, gconstpointer data)
{
  g_autoptr (Repository) repository = connect_to (self, "m", FALSE);
  g_autoptr (GBytes) config = g_bytes_new ("{}", 2);
  g_autoptr (GBytes) manifest = fixture_manifest (config, NULL, NULL, NULL);
  g_autoptr (GError) error = NULL;
  FixtureProgress progress;
  Digest digest, got;
  g_assert_false (repository_put_manifest (self->ctx, repository, "t", OCI_MANIFEST, manifest, NULL, &error));
  g_assert_true (am_error_has_reason (error, "MANIFEST_BLOB_UNKNOWN"));
  g_clear_error (&error);
  push (self, repository, config, FALSE, &progress);
  repository_put_manifest (self->ctx, repository, "v2", OCI_MANIFEST, manifest, &digest, &error);
  g_assert_no_error (error);
  g_assert_true (repository_put_manifest (self->ctx, repository, "v1", NULL, manifest, NULL, NULL));
  g_autofree char *type = NULL;
  g_autoptr (GBytes) back = repository_get_manifest (self->ctx, repository, "v1", &type, &got, &error);
  g_assert_no_error (error);
  g_assert_true (g_bytes_equal (back, manifest));
  g_assert_true (digest_equal (&digest, &got));
  g_assert_cmpstr (type, ==, OCI_MANIFEST);
  g_autoptr (GPtrArray) tags = repository_list_tags (self->ctx, repository, &error);
  g_assert_cmpuint (tags->len, ==, 2);
  g_assert_cmpstr (g_ptr_array_index (tags, 0), ==, "v1");
  g_assert_true (repository_remove_manifest (self->ctx, repository, "v1", &error));
  g_assert_null (repository_get_manifest (self->ctx, repository, "v1", NULL, NULL, &error));
  g_assert_true (am_error_has_reason (error, "MANIFEST_UNKNOWN"));
  g_clear_error (&error);
  g_autofree char *by_digest = digest_to_string (&digest);
  g_assert_true (repository_remove_manifest (self->ctx, repository, by_digest, &error));
  g_assert_null (repository_get_manifest (self->ctx, repository, "v2", NULL, NULL, &error));
}

static void
test_mount (Fixture *self, gconstpointer data)
{
  g_autoptr (Repository) from = connect_to (self, "from", FALSE);
  g_autoptr (Repository) to = connect_to (self, "to", FALSE);
  g_autoptr (GBytes) blob = fixture_noise (5 * MIB, 60);
  g_autoptr (GError) error = NULL;
  FixtureProgress progress;
  Digest digest, unknown = { 0 };
  gboolean mounted = FALSE;
  push (self, from, blob, FALSE, &progress);
  fixture_digest (blob, &digest);
  g_assert_true (repository_mount_blob (self->ctx, to, &digest, "from", &mounted, &error));
  g_assert_true (mounted);
  read_back (self, to, blob);
  g_assert_true (repository_mount_blob (self->ctx, to, &unknown, "from", &mounted, &error));
  g_assert_false (mounted);
  g_assert_cmpuint (store_fixture_count (&self->store, "_ai_models/uploads/"), ==, 0);
}

int
main (int argc, char **argv)
{
  g_setenv ("no_proxy", "*", TRUE);
  am_log_init (AM_LOG_ERROR, AM_LOG_FORMAT_TEXT, NULL);
  g_test_init (&argc, &argv, NULL);
#define ADD(name, func) g_test_add ("/wire/" name, Fixture, NULL, set_up, func, tear_down)
  ADD ("push-and-pull", test_push_and_pull);
  ADD ("second-push-moves-references", test_second_push_moves_references);
  ADD ("pull-chunks", test_pull_chunks);
  ADD ("resume-in-later-process", test_resume_in_later_process);
  ADD ("resume-stale", test_resume_stale);
  ADD ("survives", test_survives);
  ADD ("damaged-chunk-is-sent-again", test_damaged_chunk_is_sent_again);
  ADD ("wrong-content", test_wrong_content);
  ADD ("manifests-and-tags", test_manifests_and_tags);
  ADD ("mount", test_mount);
  return g_test_run ();
}
