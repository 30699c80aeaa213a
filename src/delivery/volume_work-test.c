/* Several holders of one volume: one at a time, and no harm where two believe to be it. */
#include "delivery/volume_work.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "delivery/materialize_fixture.h"

#define N_AT_ONCE 4
#define PATIENCE_MS 10000

static const VolumeTimes quick = { .beat_ms = 20, .stale_ms = 2000, .poll_ms = 10 };

static VolumeWork *
take (MaterializeFixture *self, const VolumeTimes *times, gboolean *out_waited)
{
  g_autoptr (Ctx) ctx = ctx_new_child (NULL, 10000);
  g_autoptr (GError) error = NULL;
  Digest digest;
  g_assert_true (digest_parse (self->digest, &digest, NULL));
  VolumeWork *work = volume_work_take (ctx, self->volume, &digest, times, PATIENCE_MS, out_waited, &error);
  g_assert_no_error (error);
  return work;
}

static void
put_file (const VolumeWork *work, const char *name)
{
  g_autofree char *path = g_build_filename (volume_work_path (work), name, NULL);
  g_assert_true (g_file_set_contents (path, "x", 1, NULL));
}

static gboolean
has_file (const VolumeWork *work, const char *name)
{
  g_autofree char *path = g_build_filename (volume_work_path (work), name, NULL);
  return g_file_test (path, G_FILE_TEST_EXISTS);
}

static gboolean
has_folder (MaterializeFixture *self)
{
  g_autofree char *path = g_build_filename (self->volume, VOLUME_WORK_FOLDER, NULL);
  return g_file_test (path, G_FILE_TEST_EXISTS);
}

static void
test_goes_on (MaterializeFixture *self, gconstpointer data)
{
  gboolean waited = TRUE;
  VolumeWork *work = take (self, &quick, &waited);
  g_assert_false (waited);
  put_file (work, "files");
  volume_work_free (work);
  work = take (self, &quick, &waited);
  g_assert_false (waited);
  g_assert_true (has_file (work, "files"));
  g_assert_false (volume_work_is_lost (work));
  volume_work_finish (work);
  volume_work_free (work);
  g_assert_false (has_folder (self));
}

static void
test_of_another_artifact_goes (MaterializeFixture *self, gconstpointer data)
{
  gboolean waited;
  g_autofree char *folder = g_build_filename (self->volume, VOLUME_WORK_FOLDER, NULL);
  g_autofree char *other = g_build_filename (folder, "000000000000.0b7a2a3c-7d35-4f0e-9d6a-0123456789ab", NULL);
  g_autofree char *gone = g_build_filename (folder, "gone.0b7a2a3c-7d35-4f0e-9d6a-0123456789ab", NULL);
  g_autofree char *mine = g_build_filename (folder, "mine", NULL);
  g_assert_cmpint (g_mkdir_with_parents (other, 0755) + g_mkdir (gone, 0755) + g_mkdir (mine, 0755), ==, 0);
  g_autoptr (VolumeWork) work = take (self, &quick, &waited);
  g_assert_false (g_file_test (other, G_FILE_TEST_EXISTS));
  g_assert_false (g_file_test (gone, G_FILE_TEST_EXISTS));
  g_assert_true (g_file_test (mine, G_FILE_TEST_EXISTS));
}

typedef struct {
  MaterializeFixture *fixture;
  gint *n_inside; /* atomic */
} Taker;

static gpointer
take_in_thread (gpointer data)
{
  Taker *self = data;
  gboolean waited;
  g_autoptr (VolumeWork) work = take (self->fixture, self->fixture->order.times, &waited);
  g_assert_cmpint (g_atomic_int_add (self->n_inside, 1), ==, 0);
  g_usleep (20000);
  g_assert_cmpint (g_atomic_int_add (self->n_inside, -1), ==, 1);
  g_assert_false (volume_work_is_lost (work));
  return NULL;
}

static void
test_one_at_a_time (MaterializeFixture *self, gconstpointer data)
{
  gint n_inside = 0;
  Taker taker = { self, &n_inside };
  GThread *threads[N_AT_ONCE];
  for (guint i = 0; i < N_AT_ONCE; i++)
    threads[i] = g_thread_new ("taker", take_in_thread, &taker);
  for (guint i = 0; i < N_AT_ONCE; i++)
    g_thread_join (threads[i]);
}

/* A machine that is frozen, or a process that hangs: its lock is held, and says nothing. */
static void
test_who_is_silent_loses (MaterializeFixture *self, gconstpointer data)
{
  static const VolumeTimes never = { .beat_ms = 60000, .stale_ms = 300, .poll_ms = 10 };
  gboolean waited = FALSE;
  VolumeWork *silent = take (self, &never, &waited);
  put_file (silent, "files");
  g_autoptr (VolumeWork) second = take (self, &quick, &waited);
  g_assert_true (waited);
  g_assert_true (has_file (second, "files"));
  g_assert_true (volume_work_is_lost (silent));
  volume_work_finish (silent); /* takes nothing away */
  volume_work_free (silent);
  g_assert_true (has_file (second, "files"));
  g_assert_false (volume_work_is_lost (second));
}

static void
test_the_beat_tells_that_it_is_lost (MaterializeFixture *self, gconstpointer data)
{
  gboolean waited;
  g_autoptr (VolumeWork) work = take (self, &quick, &waited);
  g_autoptr (GError) error = NULL;
  g_autofree char *other = g_strconcat (volume_work_path (work), "x", NULL);
  g_assert_cmpint (g_rename (volume_work_path (work), other), ==, 0);
  g_assert_false (ctx_sleep_ms (volume_work_ctx (work), 5000, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_CANCELLED);
}

static void
test_waiting_can_be_cancelled (MaterializeFixture *self, gconstpointer data)
{
  gboolean waited;
  g_autoptr (VolumeWork) work = take (self, &quick, &waited);
  g_autoptr (Ctx) ctx = ctx_new_child (NULL, 100);
  g_autoptr (GError) error = NULL;
  Digest digest;
  g_assert_true (digest_parse (self->digest, &digest, NULL));
  g_assert_null (volume_work_take (ctx, self->volume, &digest, &quick, PATIENCE_MS, &waited, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_DEADLINE_EXCEEDED);
  g_assert_false (volume_work_is_lost (work));
}

/* What a user of the volume may put there. */
static void
test_what_is_no_folder_goes (MaterializeFixture *self, gconstpointer data)
{
  g_autofree char *folder = g_build_filename (self->volume, VOLUME_WORK_FOLDER, NULL);
  static const char *const targets[] = { "nowhere", ".", VOLUME_WORK_FOLDER, NULL };
  for (guint i = 0; i < G_N_ELEMENTS (targets); i++)
    {
      gboolean waited = FALSE;
      if (targets[i] != NULL)
        g_assert_cmpint (symlink (targets[i], folder), ==, 0);
      else
        g_assert_true (g_file_set_contents (folder, "x", 1, NULL));
      g_autoptr (VolumeWork) work = take (self, &quick, &waited);
      g_assert_false (waited);
      g_assert_false (volume_work_is_lost (work));
    }
}

typedef struct {
  const VolumeWork *work;
  gint64 until_us;
} Grower;

static gpointer
grow_in_thread (gpointer data)
{
  Grower *self = data;
  g_autofree char *path = g_build_filename (volume_work_path (self->work), "files", NULL);
  am_autofd int fd = open (path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  g_autofree char *block = g_malloc0 (1 << 16);
  while (g_get_monotonic_time () < self->until_us)
    {
      g_assert_true (file_write_all (fd, block, 1 << 16, NULL));
      g_usleep (20000);
    }
  return NULL;
}

/* One that lives and does nothing is waited for as long as patience lasts, and one that brings bytes for longer. */
static void
test_waiting_ends (MaterializeFixture *self, gconstpointer data)
{
  gboolean waited;
  Digest digest;
  g_autoptr (VolumeWork) work = take (self, &quick, &waited);
  g_autoptr (Ctx) ctx = ctx_new_child (NULL, 10000);
  g_autoptr (GError) error = NULL;
  g_assert_true (digest_parse (self->digest, &digest, NULL));
  gint64 began_us = g_get_monotonic_time ();
  Grower grower = { work, began_us + G_USEC_PER_SEC };
  GThread *thread = g_thread_new ("grower", grow_in_thread, &grower);
  g_assert_null (volume_work_take (ctx, self->volume, &digest, &quick, 400, &waited, &error));
  gint64 took_us = g_get_monotonic_time () - began_us;
  g_thread_join (thread);
  g_assert_error (error, AM_ERROR, AM_ERROR_UNAVAILABLE);
  g_assert_true (am_error_has_reason (error, "VolumeBusy"));
  g_assert_cmpint (took_us, >=, 1300 * 1000);
  g_assert_false (volume_work_is_lost (work));
}

static gpointer
materialize_in_thread (gpointer data)
{
  MaterializeFixture *self = data;
  MaterializeResult result;
  g_autoptr (Ctx) ctx = ctx_new ();
  g_autoptr (GError) error = NULL;
  materialize (ctx, &self->order, &result, &error);
  g_assert_no_error (error);
  return NULL;
}

static void
run_together (MaterializeFixture *self, guint n)
{
  GThread *threads[N_AT_ONCE];
  for (guint i = 0; i < n; i++)
    threads[i] = g_thread_new ("job", materialize_in_thread, self);
  for (guint i = 0; i < n; i++)
    g_thread_join (threads[i]);
  materialize_fixture_check (self, TRUE);
}

static void
test_jobs_at_once (MaterializeFixture *self, gconstpointer data)
{
  run_together (self, N_AT_ONCE);
  g_assert_false (has_folder (self));
  g_assert_cmpint (self->n_chunks_sent, ==, 3); /* the others waited */
}

/* Each takes every other for dead nearly at once: they take the work from one another all the time, and all end well. */
static void
test_jobs_that_do_not_wait (MaterializeFixture *self, gconstpointer data)
{
  static const VolumeTimes hasty = { .beat_ms = 1000, .stale_ms = 5, .poll_ms = 5 };
  self->order.times = &hasty;
  for (guint round = 0; round < 4; round++)
    {
      run_together (self, N_AT_ONCE);
      run_together (self, 1); /* what two left that both had it goes with the next */
      g_assert_false (has_folder (self));
      g_assert_true (file_remove_tree (self->volume, NULL));
      g_assert_cmpint (g_mkdir (self->volume, 0755), ==, 0);
    }
}

#define ADD(name, func)                                                                                  \
  g_test_add ("/delivery/volume_work/" name, MaterializeFixture, NULL, materialize_fixture_set_up, func, \
              materialize_fixture_tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("goes-on", test_goes_on);
  ADD ("of-another-artifact-goes", test_of_another_artifact_goes);
  ADD ("one-at-a-time", test_one_at_a_time);
  ADD ("who-is-silent-loses", test_who_is_silent_loses);
  ADD ("the-beat-tells-that-it-is-lost", test_the_beat_tells_that_it_is_lost);
  ADD ("waiting-can-be-cancelled", test_waiting_can_be_cancelled);
  ADD ("what-is-no-folder-goes", test_what_is_no_folder_goes);
  ADD ("waiting-ends", test_waiting_ends);
  ADD ("jobs-at-once", test_jobs_at_once);
  ADD ("jobs-that-do-not-wait", test_jobs_that_do_not_wait);
  return g_test_run ();
}
