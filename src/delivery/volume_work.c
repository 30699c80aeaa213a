#include "delivery/volume_work.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "delivery/growing_dir.h"

#define ALIVE "alive"
#define GONE_PREFIX "gone."
#define SHORT_DIGEST_CHARS 12
#define UUID_CHARS 36
#define NAME_CHARS (SHORT_DIGEST_CHARS + 1 + UUID_CHARS)
#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define MAX_ALIVE_BYTES 64
#define LOG_EVERY_US (30 * G_USEC_PER_SEC)

const VolumeTimes volume_times = { .beat_ms = 2000, .stale_ms = 20000, .poll_ms = 500 };

struct VolumeWork {
  Ctx *ctx;
  VolumeTimes times;
  char *folder;              /* "<volume>/.work" */
  char name[NAME_CHARS + 1]; /* ours */
  char *path, *alive_path;
  int alive_fd; /* locked where that works */
  GMutex lock;
  GCond changed;
  gboolean stopping, is_lost;
  GThread *beat;
};

/* When a holder was first seen as it is now. */
typedef struct {
  struct timespec beaten;
  gint64 since_us;
} Watch;

typedef struct {
  VolumeWork *work;
  GHashTable *watches; /* name -> Watch */
  char boot_id[MAX_ALIVE_BYTES];
  gint64 logged_us;
  char holder[NAME_CHARS + 1]; /* the last one that was seen to live */
  /* Of waiting. */
  char waited_for[NAME_CHARS + 1];
  guint64 held_bytes;
  gint64 since_us, looked_us; /* since it is so, and the last look at the bytes */
  gint64 patience_us;
} Turn;

typedef enum { TURN_FAILED, TURN_BUSY, TURN_OURS } TurnResult;

static gboolean
is_work_name (const char *name)
{
  return strlen (name) == NAME_CHARS && strspn (name, "0123456789abcdef") >= SHORT_DIGEST_CHARS
         && name[SHORT_DIGEST_CHARS] == '.' && text_is_uuid (name + SHORT_DIGEST_CHARS + 1);
}

/* Names in `.work`, of holders or of what is only to be removed. Missing is empty. */
static gboolean
list_folder (const VolumeWork *self, GPtrArray *out_works, GPtrArray *out_gone, GError **error)
{
  g_autoptr (GError) problem = NULL;
  g_autoptr (GPtrArray) names = file_list_dir (self->folder, &problem);
  if (names == NULL && am_error_is (problem, AM_ERROR_NOT_FOUND))
    return TRUE;
  if (names == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  for (guint i = 0; i < names->len; i++)
    {
      const char *name = names->pdata[i];
      if (is_work_name (name) && strcmp (name, self->name) != 0)
        g_ptr_array_add (out_works, g_strdup (name));
      else if (g_str_has_prefix (name, GONE_PREFIX))
        g_ptr_array_add (out_gone, g_strdup (name));
    }
  return TRUE;
}

/* TRUE when the file was written on this machine, whose lock on it is gone: with its process. */
static gboolean
died_here (const Turn *self, int fd)
{
  char text[MAX_ALIVE_BYTES] = "";
  gssize n = pread (fd, text, sizeof text - 1, 0);
  return n > 0 && *self->boot_id != '\0' && strcmp (g_strchomp (text), self->boot_id) == 0
         && flock (fd, LOCK_SH | LOCK_NB) == 0;
}

static gboolean
stood_still (Turn *self, const char *name, const struct stat *info)
{
  Watch *watch = g_hash_table_lookup (self->watches, name);
  gint64 now_us = g_get_monotonic_time ();
  if (watch == NULL || watch->beaten.tv_sec != info->st_mtim.tv_sec || watch->beaten.tv_nsec != info->st_mtim.tv_nsec)
    {
      watch = g_new0 (Watch, 1);
      *watch = (Watch){ info->st_mtim, now_us };
      g_hash_table_replace (self->watches, g_strdup (name), watch);
    }
  return now_us - watch->since_us >= self->work->times.stale_ms * 1000;
}

/* One without `alive` was released, or is just being made: who makes it finds it gone and looks again. */
static gboolean
holder_lives (Turn *self, const char *name, gboolean *out_lives, GError **error)
{
  struct stat info;
  g_autofree char *path = g_build_filename (self->work->folder, name, ALIVE, NULL);
  am_autofd int fd = open (path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  *out_lives = FALSE;
  if (fd < 0 && errno == ENOENT)
    return TRUE;
  if (fd < 0 || fstat (fd, &info) < 0)
    return am_fail_errno (error, errno, "cannot look at %s", path);
  *out_lives = !died_here (self, fd) && !stood_still (self, name, &info);
  return TRUE;
}

static gboolean
anyone_lives (Turn *self, const GPtrArray *works, gboolean *out_lives, GError **error)
{
  *out_lives = FALSE;
  for (guint i = 0; i < works->len && !*out_lives; i++)
    {
      if (!holder_lives (self, works->pdata[i], out_lives, error))
        return FALSE;
      if (*out_lives)
        g_strlcpy (self->holder, works->pdata[i], sizeof self->holder);
    }
  return TRUE;
}

/* Renames a directory of `.work` that nobody holds to a name of those that are only removed, so that one alone removes it. Its path; NULL
 * when it is gone. Caller frees. */
static char *
set_aside (const VolumeWork *self, const char *name)
{
  char uuid[UUID_CHARS + 1];
  g_autofree char *path = g_build_filename (self->folder, name, NULL);
  if (g_str_has_prefix (name, GONE_PREFIX))
    return g_steal_pointer (&path);
  text_uuid (uuid);
  g_autofree char *gone = g_strdup_printf ("%s/" GONE_PREFIX "%s", self->folder, uuid);
  return rename (path, gone) == 0 ? g_steal_pointer (&gone) : NULL;
}

static void
discard (const char *path)
{
  g_autoptr (GError) problem = NULL;
  if (path != NULL)
    file_remove_tree (path, &problem);
  am_ignore (&problem, "a leftover of an earlier run");
}

static void
remove_folder (const VolumeWork *self, const char *name)
{
  g_autofree char *path = set_aside (self, name);
  discard (path);
}

/* That of the same artifact first: it has bytes that are right. */
static const char *
choose (const VolumeWork *self, const GPtrArray *works)
{
  for (guint i = 0; i < works->len; i++)
    if (strncmp (works->pdata[i], self->name, SHORT_DIGEST_CHARS) == 0)
      return works->pdata[i];
  return NULL;
}

/* Makes `.work`. Whatever else others put there in its place, a link too, goes: what it leads to is never looked at. */
static gboolean
make_folder (const VolumeWork *self, GError **error)
{
  struct stat info;
  if (mkdir (self->folder, 0755) == 0)
    return TRUE;
  if (errno != EEXIST)
    return am_fail_errno (error, errno, "cannot create %s", self->folder);
  if (lstat (self->folder, &info) < 0)
    return errno == ENOENT || am_fail_errno (error, errno, "cannot look at %s", self->folder);
  if (S_ISDIR (info.st_mode))
    return TRUE;
  if ((unlink (self->folder) < 0 && errno != ENOENT) || (mkdir (self->folder, 0755) < 0 && errno != EEXIST))
    return am_fail (error, AM_ERROR_FAILED_PRECONDITION, NULL,
                    "%s is not a folder and cannot be replaced (%s): remove it", self->folder, g_strerror (errno));
  return TRUE;
}

static TurnResult
take_directory (VolumeWork *self, const char *from, GError **error)
{
  g_autofree char *old = from != NULL ? g_build_filename (self->folder, from, NULL) : NULL;
  if ((old != NULL ? rename (old, self->path) : mkdir (self->path, 0755)) == 0)
    return TURN_OURS;
  if (errno == ENOENT) /* another was faster, or removed the folder */
    return TURN_BUSY;
  am_fail_errno (error, errno, "cannot take the work on %s", self->folder);
  return TURN_FAILED;
}

/* A new file each time: nobody else has it open. */
static TurnResult
show_life (Turn *turn, GError **error)
{
  VolumeWork *self = turn->work;
  if (unlink (self->alive_path) < 0 && errno != ENOENT)
    {
      am_fail_errno (error, errno, "cannot remove %s", self->alive_path);
      return TURN_FAILED;
    }
  self->alive_fd = open (self->alive_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (self->alive_fd < 0 && (errno == ENOENT || errno == EEXIST))
    return TURN_BUSY;
  if (self->alive_fd < 0)
    {
      am_fail_errno (error, errno, "cannot create %s", self->alive_path);
      return TURN_FAILED;
    }
  /* Only what is locked may be taken for dead by its lock; without these bytes its time alone counts. */
  g_autoptr (GError) problem = NULL;
  if (flock (self->alive_fd, LOCK_EX | LOCK_NB) == 0)
    file_write_all (self->alive_fd, turn->boot_id, strlen (turn->boot_id), &problem);
  am_ignore (&problem, "that a holder died is then told by its time alone");
  return TURN_OURS;
}

/* Back to where others can take it. */
static void
yield (VolumeWork *self)
{
  if (self->alive_fd >= 0)
    unlink (self->alive_path);
  am_autofd_cleanup (&self->alive_fd);
  rmdir (self->path); /* only when nothing is in it */
}

static TurnResult
survey (Turn *turn, GPtrArray *works, GPtrArray *gone, GError **error)
{
  gboolean lives = FALSE;
  if (!list_folder (turn->work, works, gone, error) || !anyone_lives (turn, works, &lives, error))
    return TURN_FAILED;
  return lives ? TURN_BUSY : TURN_OURS;
}

/* Takes what is free, and then looks again: of two that took at once, each sees the other, or the later one does. */
static TurnResult
try_turn (Turn *turn, GError **error)
{
  VolumeWork *self = turn->work;
  g_autoptr (GPtrArray) works = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GPtrArray) others = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GPtrArray) gone = g_ptr_array_new_with_free_func (g_free);
  TurnResult result = make_folder (self, error) ? survey (turn, works, gone, error) : TURN_FAILED;
  if (result == TURN_OURS)
    result = take_directory (self, choose (self, works), error);
  if (result != TURN_OURS)
    return result;
  result = show_life (turn, error);
  g_ptr_array_set_size (gone, 0);
  if (result == TURN_OURS)
    result = survey (turn, others, gone, error);
  if (result != TURN_OURS)
    {
      yield (self);
      return result;
    }
  for (guint i = 0; i < others->len; i++)
    remove_folder (self, others->pdata[i]);
  for (guint i = 0; i < gone->len; i++)
    remove_folder (self, gone->pdata[i]);
  return TURN_OURS;
}

/* FALSE when the same holder brought nothing for too long. */
static gboolean
may_wait (Turn *self, gint64 now_us, GError **error)
{
  const VolumeWork *work = self->work;
  gboolean is_new = self->since_us == 0 || strcmp (self->holder, self->waited_for) != 0;
  if (is_new || now_us - self->looked_us >= MIN (LOG_EVERY_US, self->patience_us / 4))
    {
      guint64 bytes = growing_dir_measure (work->folder);
      is_new = is_new || bytes > self->held_bytes;
      self->held_bytes = bytes;
      self->looked_us = now_us;
    }
  if (is_new)
    self->since_us = now_us;
  g_strlcpy (self->waited_for, self->holder, sizeof self->waited_for);
  if (now_us - self->since_us < self->patience_us)
    return TRUE;
  return am_fail (error, AM_ERROR_UNAVAILABLE, "VolumeBusy",
                  "another process holds the work on this volume (%s/%s) and brought nothing for %" G_GINT64_FORMAT
                  " s",
                  VOLUME_WORK_FOLDER, self->holder, self->patience_us / G_USEC_PER_SEC);
}

static gboolean
wait_turn (Ctx *ctx, Turn *turn, gboolean *out_waited, GError **error)
{
  VolumeWork *self = turn->work;
  for (;;)
    {
      TurnResult result = try_turn (turn, error);
      if (result != TURN_BUSY)
        return result == TURN_OURS;
      *out_waited = TRUE;
      gint64 now_us = g_get_monotonic_time ();
      if (!may_wait (turn, now_us, error))
        return FALSE;
      if (now_us - turn->logged_us >= LOG_EVERY_US)
        am_log_info (ctx, "another process fills this volume; waiting for it", NULL);
      if (now_us - turn->logged_us >= LOG_EVERY_US)
        turn->logged_us = now_us;
      gint32 poll_ms = (gint32) self->times.poll_ms;
      if (!ctx_sleep_ms (ctx, g_random_int_range (poll_ms / 2, poll_ms + 1), error))
        return FALSE;
    }
}

/* Shows that we live. FALSE when the work is lost. Only a missing file proves that: other errors may pass. */
static gboolean
beat_once (VolumeWork *self)
{
  return utimensat (AT_FDCWD, self->alive_path, NULL, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

static gpointer
beat_thread (gpointer data)
{
  VolumeWork *self = data;
  g_mutex_lock (&self->lock);
  while (!self->stopping && !self->is_lost)
    {
      gint64 end_us = g_get_monotonic_time () + self->times.beat_ms * 1000;
      while (!self->stopping && g_cond_wait_until (&self->changed, &self->lock, end_us))
        continue;
      g_mutex_unlock (&self->lock);
      gboolean lives = beat_once (self);
      g_mutex_lock (&self->lock);
      self->is_lost = self->is_lost || (!lives && !self->stopping);
    }
  if (self->is_lost)
    ctx_cancel (self->ctx);
  g_mutex_unlock (&self->lock);
  return NULL;
}

static void
read_boot_id (char *out_text)
{
  g_autofree char *text = NULL;
  if (g_file_get_contents (BOOT_ID, &text, NULL, NULL))
    g_strlcpy (out_text, g_strchomp (text), MAX_ALIVE_BYTES);
}

static VolumeWork *
work_new (Ctx *ctx, const char *volume, const Digest *artifact, const VolumeTimes *times)
{
  char hex[2 * DIGEST_MAX_BYTES + 1], uuid[UUID_CHARS + 1];
  VolumeWork *self = g_new0 (VolumeWork, 1);
  text_uuid (uuid);
  self->ctx = ctx_new_child (ctx, -1);
  self->times = *times;
  self->folder = g_build_filename (volume, VOLUME_WORK_FOLDER, NULL);
  g_snprintf (self->name, sizeof self->name, "%.*s.%s", SHORT_DIGEST_CHARS, digest_hex (artifact, hex), uuid);
  self->path = g_build_filename (self->folder, self->name, NULL);
  self->alive_path = g_build_filename (self->path, ALIVE, NULL);
  self->alive_fd = -1;
  g_mutex_init (&self->lock);
  g_cond_init (&self->changed);
  return self;
}

VolumeWork *
volume_work_take (Ctx *ctx, const char *volume, const Digest *artifact, const VolumeTimes *times, gint64 patience_ms,
                  gboolean *out_waited, GError **error)
{
  gboolean waited = FALSE;
  g_autoptr (VolumeWork) self = work_new (ctx, volume, artifact, times);
  g_autoptr (GHashTable) watches = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  Turn turn = { .work = self, .watches = watches, .patience_us = patience_ms * 1000 };
  read_boot_id (turn.boot_id);
  if (!wait_turn (ctx, &turn, &waited, error))
    return NULL;
  self->beat = g_thread_new ("volume-beat", beat_thread, self);
  *out_waited = waited;
  return g_steal_pointer (&self);
}

static void
stop_beat (VolumeWork *self)
{
  if (self->beat == NULL)
    return;
  g_mutex_lock (&self->lock);
  self->stopping = TRUE;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  g_thread_join (self->beat);
  self->beat = NULL;
}

void
volume_work_free (VolumeWork *self)
{
  if (self == NULL)
    return;
  stop_beat (self);
  yield (self);
  rmdir (self->folder); /* only when nothing is in it */
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->changed);
  ctx_unref (self->ctx);
  g_free (self->folder);
  g_free (self->path);
  g_free (self->alive_path);
  g_free (self);
}

gboolean
volume_work_is_open (const char *volume)
{
  g_autofree char *folder = g_build_filename (volume, VOLUME_WORK_FOLDER, NULL);
  return access (folder, F_OK) == 0;
}

const char *
volume_work_path (const VolumeWork *self)
{
  return self->path;
}

Ctx *
volume_work_ctx (VolumeWork *self)
{
  return self->ctx;
}

gboolean
volume_work_is_lost (VolumeWork *self)
{
  gboolean lives = beat_once (self);
  g_mutex_lock (&self->lock);
  self->is_lost = self->is_lost || !lives;
  gboolean is_lost = self->is_lost;
  g_mutex_unlock (&self->lock);
  return is_lost;
}

void
volume_work_finish (VolumeWork *self)
{
  stop_beat (self);
  g_autofree char *path = set_aside (self, self->name);
  am_autofd_cleanup (&self->alive_fd); /* NFS keeps an open file, under another name, and with it its folder */
  discard (path);
}
