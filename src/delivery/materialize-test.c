/* Every single file operation of a materialization fails in turn, in every way that volumes fail, and the process dies at every
 * single one: nothing half-written is ever shown, the error is the right one, and the same again without faults succeeds from what
 * is there. */
#include "delivery/materialize.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "delivery/io_faults.h"
#include "delivery/materialize_fixture.h"
#include "domain/materialize_failure.h"

#define MAX_OPERATIONS 500u

static gboolean
run (MaterializeFixture *self, MaterializeResult *out_result, GError **error)
{
  g_autoptr (Ctx) ctx = ctx_new ();
  return materialize (ctx, &self->order, out_result, error);
}

static MaterializeResult
run_well (MaterializeFixture *self)
{
  MaterializeResult result = { 0 };
  g_autoptr (GError) error = NULL;
  run (self, &result, &error);
  g_assert_no_error (error);
  materialize_fixture_check (self, TRUE);
  return result;
}

static void
clear_volume (MaterializeFixture *self)
{
  g_assert_true (file_remove_tree (self->volume, NULL));
  g_assert_true (file_make_dirs (self->volume, NULL, NULL));
}

static void
damage (MaterializeFixture *self)
{
  g_autofree char *path = g_build_filename (self->volume, "model", "model.safetensors", NULL);
  g_autofree char *content = NULL;
  gsize size;
  g_assert_true (g_file_get_contents (path, &content, &size, NULL));
  content[FIXTURE_CHUNK_BYTES + 5] ^= 1;
  g_assert_true (g_file_set_contents (path, content, (gssize) size, NULL));
}

static void
test_whole (MaterializeFixture *self, gconstpointer data)
{
  MaterializeResult result = run_well (self);
  g_assert_cmpuint (result.n_files, ==, FIXTURE_N_FILES);
  g_assert_cmpuint (result.kept_bytes, ==, 0);
  g_assert_false (result.was_there);
  result = run_well (self);
  g_assert_true (result.was_there);
  g_assert_cmpuint (result.moved_bytes, ==, 0);
  damage (self);
  result = run_well (self);
  g_assert_false (result.was_there);
  g_assert_cmpuint (result.moved_bytes, ==, FIXTURE_CHUNK_BYTES);
}

static void
test_registry_away (MaterializeFixture *self, gconstpointer data)
{
  self->fails_after = 2;
  self->failure = AM_ERROR_UNAVAILABLE;
  MaterializeResult result = run_well (self);
  g_assert_cmpint (self->n_opened, ==, 2);
  g_assert_cmpint (self->n_chunks_sent, ==, 3);
  g_assert_cmpuint (result.moved_bytes, >=, FIXTURE_WEIGHTS_BYTES);
}

static void
test_patience_ends (MaterializeFixture *self, gconstpointer data)
{
  MaterializeResult result;
  g_autoptr (GError) error = NULL;
  self->order.patience_ms = 0;
  self->fails_after = 1;
  self->failure = AM_ERROR_UNAVAILABLE;
  g_assert_false (run (self, &result, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_UNAVAILABLE);
  g_assert_true (g_str_has_prefix (error->message, "no progress for 0 s: "));
  materialize_fixture_check (self, FALSE);
}

/* It begins with the first failure, however long what is there was verified before. */
static void
test_patience_begins_with_a_failure (MaterializeFixture *self, gconstpointer data)
{
  self->order.patience_ms = 300;
  self->verify_ms = 500;
  self->n_chunks_sent = 1;
  self->fails_after = 1;
  self->failure = AM_ERROR_UNAVAILABLE;
  run_well (self);
  g_assert_cmpint (self->n_opened, ==, 2);
}

/* Taking the work anew is no progress. */
static void
test_patience_ends_though_the_work_is_taken (MaterializeFixture *self, gconstpointer data)
{
  MaterializeResult result;
  g_autoptr (GError) error = NULL;
  g_autoptr (Ctx) ctx = ctx_new_child (NULL, 20000);
  self->order.patience_ms = 500;
  self->fails_after = 1;
  self->stays_away = TRUE;
  self->failure = AM_ERROR_UNAVAILABLE;
  g_assert_false (materialize (ctx, &self->order, &result, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_UNAVAILABLE);
  g_assert_cmpint (self->n_opened, ==, 2);
}

/* Once more with the grant that may have come in the meantime, and not a third time without progress. */
static void
test_grant_renewed (MaterializeFixture *self, gconstpointer data)
{
  self->fails_after = 1;
  self->failure = AM_ERROR_UNAUTHENTICATED;
  run_well (self);
  g_assert_cmpint (self->n_opened, ==, 2);
}

/* An SMB share with file_mode and dir_mode of another owner. */
static void
test_modes_of_the_mount (MaterializeFixture *self, gconstpointer data)
{
  io_faults_mount (IO_MOUNT_OWNS_MODES);
  run_well (self);
  damage (self);
  run_well (self);
  io_faults_mount (0);
}

/* What the file system does not say is no reason to refuse. */
static void
test_space_unknown (MaterializeFixture *self, gconstpointer data)
{
  io_faults_mount (GPOINTER_TO_UINT (data));
  run_well (self);
  io_faults_mount (0);
}

static void
test_present_without_blocks (MaterializeFixture *self, gconstpointer data)
{
  run_well (self);
  damage (self);
  io_faults_mount (IO_MOUNT_NO_BLOCKS);
  run_well (self);
  io_faults_mount (0);
}

static void
test_cancelled (MaterializeFixture *self, gconstpointer data)
{
  MaterializeResult result;
  g_autoptr (GError) error = NULL;
  g_autoptr (Ctx) ctx = ctx_new ();
  ctx_cancel (ctx);
  g_assert_false (materialize (ctx, &self->order, &result, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_CANCELLED);
}

static void
mend_first (gpointer data)
{
  run_well (data);
}

/* Of two that saw the same damage, the second leaves what the first mended as it is. */
static void
test_mended_by_another (MaterializeFixture *self, gconstpointer data)
{
  run_well (self);
  damage (self);
  io_faults_before_mkdir (self->volume, mend_first, self);
  MaterializeResult result = run_well (self);
  g_assert_cmpuint (result.moved_bytes, ==, 0);
  g_assert_cmpuint (result.kept_bytes, ==, 0); /* it filled nothing */
}

static void
test_filled_by_another (MaterializeFixture *self, gconstpointer data)
{
  io_faults_before_mkdir (self->volume, mend_first, self);
  MaterializeResult result = run_well (self);
  g_assert_cmpuint (result.moved_bytes, ==, 0);
}

static const struct {
  int number;
  const char *reason;
} ways[] = {
  { EIO, "VolumeFault" },    { ENOSPC, "VolumeFull" },    { EDQUOT, "VolumeFull" },
  { ESTALE, "VolumeStale" }, { EROFS, "VolumeReadOnly" },
};

/* What a volume is like before the run. */
static void
begin_empty (MaterializeFixture *self)
{
}

static void
begin_damaged (MaterializeFixture *self)
{
  run_well (self);
  damage (self);
}

static void
begin_unmarked (MaterializeFixture *self)
{
  g_autofree char *marker = g_build_filename (self->volume, ".ai-models-materialized.json", NULL);
  run_well (self);
  g_assert_cmpint (unlink (marker), ==, 0);
}

typedef void (*Begin) (MaterializeFixture *self);
static const Begin begins[] = { begin_empty, begin_damaged, begin_unmarked };

/* What was damaged before the run may be shown as it was, until it is taken back. */
static gboolean
is_as_damaged (MaterializeFixture *self)
{
  g_autofree char *path = g_build_filename (self->volume, "model", "model.safetensors", NULL), *content = NULL;
  gsize size;
  return g_file_get_contents (path, &content, &size, NULL) && size == FIXTURE_WEIGHTS_BYTES
         && (guint8) content[FIXTURE_CHUNK_BYTES + 5] != self->weights[FIXTURE_CHUNK_BYTES + 5];
}

static void
check_nothing_half (MaterializeFixture *self, Begin begin)
{
  if (begin != begin_damaged || !is_as_damaged (self))
    materialize_fixture_check (self, FALSE);
}

/* FALSE when there are fewer operations of that kind. */
static gboolean
run_with_fault (MaterializeFixture *self, Begin begin, IoKind kind, guint nth, guint way)
{
  MaterializeResult result;
  guint counts[N_IO_KINDS];
  g_autoptr (GError) error = NULL;
  clear_volume (self);
  begin (self);
  io_faults_arm (self->volume, kind, nth, ways[way].number);
  gboolean done = run (self, &result, &error);
  io_faults_disarm (counts);
  if (done)
    materialize_fixture_check (self, TRUE); /* what failed did not matter */
  else
    {
      g_test_message ("%u: %s", nth, error->message);
      g_assert_cmpstr (materialize_judge (error).reason, ==, ways[way].reason);
      check_nothing_half (self, begin);
    }
  gint n_before = g_atomic_int_get (&self->n_chunks_sent);
  run_well (self);
  /* After a failed sync nothing of the file is believed. */
  g_assert_cmpint (self->n_chunks_sent - n_before, <=, 3);
  return counts[kind] >= nth;
}

static void
test_faults (MaterializeFixture *self, gconstpointer data)
{
  static const guint at_least[N_IO_KINDS] = {
    [IO_OPEN] = 10,    [IO_MKDIR] = 5, [IO_READ] = 3,   [IO_WRITE] = 4,
    [IO_TRUNCATE] = 3, [IO_SYNC] = 8,  [IO_RENAME] = 3, [IO_REMOVE] = 3,
  };
  guint way = GPOINTER_TO_UINT (data);
  for (guint kind = 0; kind < N_IO_KINDS; kind++)
    for (guint i = 0; i < (way == 0 ? G_N_ELEMENTS (begins) : 1); i++)
      {
        guint nth = 1;
        while (nth < MAX_OPERATIONS && run_with_fault (self, begins[i], (IoKind) kind, nth, way))
          nth++;
        g_test_message ("kind %u: %u operations", kind, nth - 1);
        g_assert_cmpuint (nth, <, MAX_OPERATIONS);
        g_assert_true (i > 0 || nth > at_least[kind]);
      }
}

/* The process dies in place of its n-th operation. FALSE when it had fewer. */
static gboolean
run_with_death (MaterializeFixture *self, Begin begin, guint nth)
{
  int status = 0;
  clear_volume (self);
  begin (self);
  pid_t child = fork ();
  if (child == 0)
    {
      MaterializeResult result;
      io_faults_arm_death (self->volume, nth);
      _exit (run (self, &result, NULL) ? 0 : 1);
    }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_true (WIFEXITED (status));
  check_nothing_half (self, begin);
  run_well (self);
  g_assert_true (WEXITSTATUS (status) == 9 || WEXITSTATUS (status) == 0);
  return WEXITSTATUS (status) == 9;
}

static void
test_deaths (MaterializeFixture *self, gconstpointer data)
{
  for (guint i = 0; i < G_N_ELEMENTS (begins); i++)
    {
      guint nth = 1;
      while (nth < MAX_OPERATIONS && run_with_death (self, begins[i], nth))
        nth++;
      g_test_message ("%u deaths", nth - 1);
      g_assert_cmpuint (nth, <, MAX_OPERATIONS);
      g_assert_cmpuint (nth, >, i == 0 ? 40 : 10);
    }
}

#define ADD(name, data, func)                                                             \
  g_test_add ("/delivery/materialize/" name, MaterializeFixture, GUINT_TO_POINTER (data), \
              materialize_fixture_set_up, func, materialize_fixture_tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("whole", 0, test_whole);
  ADD ("registry-away", 0, test_registry_away);
  ADD ("patience-ends", 0, test_patience_ends);
  ADD ("patience-begins-with-a-failure", 0, test_patience_begins_with_a_failure);
  ADD ("patience-ends-though-the-work-is-taken", 0, test_patience_ends_though_the_work_is_taken);
  ADD ("grant-renewed", 0, test_grant_renewed);
  ADD ("modes-of-the-mount", 0, test_modes_of_the_mount);
  ADD ("mended-by-another", 0, test_mended_by_another);
  ADD ("filled-by-another", 0, test_filled_by_another);
  ADD ("space/not-told", IO_MOUNT_NO_SPACE, test_space_unknown);
  ADD ("space/vast", IO_MOUNT_VAST, test_space_unknown);
  ADD ("space/present-without-blocks", 0, test_present_without_blocks);
  ADD ("cancelled", 0, test_cancelled);
  ADD ("faults/io", 0, test_faults);
  ADD ("faults/no-space", 1, test_faults);
  ADD ("faults/quota", 2, test_faults);
  ADD ("faults/stale", 3, test_faults);
  ADD ("faults/read-only", 4, test_faults);
  ADD ("deaths", 0, test_deaths);
  return g_test_run ();
}
