#include "storage/commit_window.h"

/* Of one commit, its repetitions included. */
#define COMMIT_TIMEOUT_MS 120000
/* How often somebody who waits looks whether he still may. */
#define LOOK_EVERY_US 50000

typedef struct {
  CommitWindow *window;
  GThread *thread;
  ObjectWriter *writer;
  gsize size;
  char *key;
  ObjectCommitFlags flags;
  gboolean is_done; /* under the window's lock, as the error */
  GError *error;
} Commit;

struct CommitWindow {
  guint max_under_way;
  gsize max_bytes, n_bytes;
  Ctx *ctx;       /* of the commits: they outlive the request that made them, not the window */
  GQueue commits; /* Commit, oldest first */
  guint64 n_stored;
  GError *error; /* of the first that failed */
  GMutex lock;
  GCond done;
};

CommitWindow *
commit_window_new (guint max_under_way, gsize max_bytes)
{
  CommitWindow *self = g_new0 (CommitWindow, 1);
  self->max_under_way = max_under_way;
  self->max_bytes = max_bytes;
  self->ctx = ctx_new ();
  g_queue_init (&self->commits);
  g_mutex_init (&self->lock);
  g_cond_init (&self->done);
  return self;
}

static gpointer
commit_thread (gpointer data)
{
  Commit *self = data;
  CommitWindow *window = self->window;
  g_autoptr (Ctx) ctx = ctx_new_child (window->ctx, COMMIT_TIMEOUT_MS);
  GError *error = NULL;
  object_writer_commit (ctx, self->writer, self->key, self->flags, &error);
  g_clear_pointer (&self->writer, object_writer_free); /* the memory, before another one begins */
  g_mutex_lock (&window->lock);
  self->error = error;
  self->is_done = TRUE;
  g_cond_broadcast (&window->done);
  g_mutex_unlock (&window->lock);
  return NULL;
}

/* Takes the oldest commit out, whose thread is at its end or told to come to it. */
static void
reap (CommitWindow *self)
{
  Commit *commit = g_queue_pop_head (&self->commits);
  g_thread_join (commit->thread);
  self->n_bytes -= commit->size;
  if (self->error == NULL && commit->error == NULL)
    self->n_stored++;
  else if (self->error == NULL)
    self->error = g_steal_pointer (&commit->error);
  g_clear_error (&commit->error);
  g_free (commit->key);
  g_free (commit);
}

void
commit_window_free (CommitWindow *self)
{
  if (self == NULL)
    return;
  ctx_cancel (self->ctx);
  while (!g_queue_is_empty (&self->commits))
    reap (self);
  ctx_unref (self->ctx);
  g_clear_error (&self->error);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->done);
  g_free (self);
}

/* Until the oldest commit has ended, or the context. */
static gboolean
wait_for_oldest (Ctx *ctx, CommitWindow *self, GError **error)
{
  const Commit *oldest = g_queue_peek_head (&self->commits);
  gboolean goes_on = TRUE;
  g_mutex_lock (&self->lock);
  while (!oldest->is_done && (goes_on = ctx_check (ctx, error)))
    g_cond_wait_until (&self->done, &self->lock, g_get_monotonic_time () + LOOK_EVERY_US);
  g_mutex_unlock (&self->lock);
  if (goes_on)
    reap (self);
  return goes_on;
}

static gboolean
has_room (const CommitWindow *self, gsize size)
{
  return g_queue_is_empty ((GQueue *) &self->commits)
         || (self->commits.length < self->max_under_way && self->n_bytes + size <= self->max_bytes);
}

static gboolean
check (const CommitWindow *self, GError **error)
{
  if (self->error != NULL)
    g_propagate_error (error, g_error_copy (self->error));
  return self->error == NULL;
}

gboolean
commit_window_add (Ctx *ctx, CommitWindow *self, ObjectWriter *writer, gsize size, const char *key,
                   ObjectCommitFlags flags, GError **error)
{
  g_autoptr (ObjectWriter) owned = writer;
  while (!has_room (self, size))
    if (!wait_for_oldest (ctx, self, error))
      return FALSE;
  if (!check (self, error))
    return FALSE;
  Commit *commit = g_new0 (Commit, 1);
  *commit = (Commit){
    .window = self, .writer = g_steal_pointer (&owned), .size = size, .key = g_strdup (key), .flags = flags
  };
  self->n_bytes += size;
  g_queue_push_tail (&self->commits, commit);
  commit->thread = g_thread_new ("commit", commit_thread, commit);
  return TRUE;
}

guint64
commit_window_n_stored (CommitWindow *self)
{
  for (gboolean is_done = TRUE; is_done && !g_queue_is_empty (&self->commits);)
    {
      const Commit *oldest = g_queue_peek_head (&self->commits);
      g_mutex_lock (&self->lock);
      is_done = oldest->is_done;
      g_mutex_unlock (&self->lock);
      if (is_done)
        reap (self);
    }
  return self->n_stored;
}

gboolean
commit_window_drain (Ctx *ctx, CommitWindow *self, GError **error)
{
  while (!g_queue_is_empty (&self->commits))
    if (!wait_for_oldest (ctx, self, error))
      return FALSE;
  return check (self, error);
}
