#include "net/http_loop.h"

/* Beyond the streams of one connection, and for servers without HTTP/2. */
#define MAX_CONNECTIONS 4L
#define MAX_STREAMS 100L /* of one connection: what API servers commonly allow */
#define IDLE_POLL_MS 10000
#define BUSY_POLL_MS 250 /* how late a stall may be noticed */

struct HttpLoop {
  CURLM *multi;
  GThread *thread;
  GMutex lock;
  GCond changed;      /* a job is done or was removed */
  GPtrArray *added;   /* HttpLoopJob: not yet with libcurl */
  GPtrArray *running; /* HttpLoopJob: only the thread adds and takes */
  GPtrArray *leaving; /* HttpLoopJob: to be removed */
  gboolean stopping;
};

static void
finish_locked (HttpLoop *self, HttpLoopJob *job, CURLcode code)
{
  curl_multi_remove_handle (self->multi, job->easy);
  g_ptr_array_remove_fast (self->running, job);
  job->code = code;
  job->done = TRUE;
  g_cond_broadcast (&self->changed);
}

static void
take_changes_locked (HttpLoop *self)
{
  for (guint i = 0; i < self->added->len; i++)
    {
      HttpLoopJob *job = self->added->pdata[i];
      job->last_us = g_get_monotonic_time ();
      g_ptr_array_add (self->running, job);
      if (curl_multi_add_handle (self->multi, job->easy) != CURLM_OK)
        finish_locked (self, job, CURLE_FAILED_INIT);
    }
  g_ptr_array_set_size (self->added, 0);
  for (guint i = 0; i < self->leaving->len; i++)
    {
      HttpLoopJob *job = self->leaving->pdata[i];
      if (!job->done)
        finish_locked (self, job, CURLE_ABORTED_BY_CALLBACK);
    }
  g_ptr_array_set_size (self->leaving, 0);
}

static HttpLoopJob *
find_running (HttpLoop *self, const CURL *easy)
{
  for (guint i = 0; i < self->running->len; i++)
    {
      HttpLoopJob *job = self->running->pdata[i];
      if (job->easy == easy)
        return job;
    }
  return NULL;
}

static void
take_results_locked (HttpLoop *self)
{
  int n_left = 0;
  for (CURLMsg *message = curl_multi_info_read (self->multi, &n_left); message != NULL;
       message = curl_multi_info_read (self->multi, &n_left))
    {
      HttpLoopJob *job = find_running (self, message->easy_handle);
      if (job != NULL)
        finish_locked (self, job, message->data.result); /* `message` is void after this */
    }
}

static void
end_stalled_locked (HttpLoop *self)
{
  gint64 now_us = g_get_monotonic_time ();
  for (guint i = self->running->len; i > 0; i--)
    {
      HttpLoopJob *job = self->running->pdata[i - 1];
      if (*job->moved != job->last_moved)
        {
          job->last_moved = *job->moved;
          job->last_us = now_us;
        }
      else if (now_us - job->last_us > job->no_progress_timeout_ms * 1000)
        {
          job->stalled = TRUE;
          finish_locked (self, job, CURLE_OPERATION_TIMEDOUT);
        }
    }
}

static gpointer
run_loop (gpointer data)
{
  HttpLoop *self = data;
  int n_running = 0;
  g_mutex_lock (&self->lock);
  while (!self->stopping)
    {
      take_changes_locked (self);
      g_mutex_unlock (&self->lock);
      curl_multi_perform (self->multi, &n_running);
      g_mutex_lock (&self->lock);
      take_results_locked (self);
      end_stalled_locked (self);
      gboolean is_idle = self->running->len == 0;
      g_mutex_unlock (&self->lock);
      curl_multi_poll (self->multi, NULL, 0, is_idle ? IDLE_POLL_MS : BUSY_POLL_MS, NULL);
      g_mutex_lock (&self->lock);
    }
  g_mutex_unlock (&self->lock);
  return NULL;
}

HttpLoop *
http_loop_new (void)
{
  HttpLoop *self = g_new0 (HttpLoop, 1);
  self->multi = curl_multi_init ();
  g_assert (self->multi != NULL); /* only without memory */
  curl_multi_setopt (self->multi, CURLMOPT_PIPELINING, (long) CURLPIPE_MULTIPLEX);
  curl_multi_setopt (self->multi, CURLMOPT_MAX_HOST_CONNECTIONS, MAX_CONNECTIONS);
  curl_multi_setopt (self->multi, CURLMOPT_MAX_CONCURRENT_STREAMS, MAX_STREAMS);
  g_mutex_init (&self->lock);
  g_cond_init (&self->changed);
  self->added = g_ptr_array_new ();
  self->running = g_ptr_array_new ();
  self->leaving = g_ptr_array_new ();
  self->thread = g_thread_new ("http-loop", run_loop, self);
  return self;
}

void
http_loop_free (HttpLoop *self)
{
  if (self == NULL)
    return;
  g_mutex_lock (&self->lock);
  self->stopping = TRUE;
  g_mutex_unlock (&self->lock);
  curl_multi_wakeup (self->multi);
  g_thread_join (self->thread);
  g_assert (self->running->len == 0 && self->added->len == 0);
  curl_multi_cleanup (self->multi);
  g_ptr_array_unref (self->added);
  g_ptr_array_unref (self->running);
  g_ptr_array_unref (self->leaving);
  g_cond_clear (&self->changed);
  g_mutex_clear (&self->lock);
  g_free (self);
}

void
http_loop_add (HttpLoop *self, HttpLoopJob *job)
{
  g_mutex_lock (&self->lock);
  g_ptr_array_add (self->added, job);
  g_mutex_unlock (&self->lock);
  curl_multi_wakeup (self->multi);
}

gboolean
http_loop_wait (HttpLoop *self, HttpLoopJob *job, gint64 timeout_ms)
{
  gint64 end_us = g_get_monotonic_time () + timeout_ms * 1000;
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  while (!job->done && g_cond_wait_until (&self->changed, &self->lock, end_us))
    ;
  return job->done;
}

void
http_loop_remove (HttpLoop *self, HttpLoopJob *job)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  g_ptr_array_add (self->leaving, job);
  curl_multi_wakeup (self->multi);
  while (!job->done)
    g_cond_wait (&self->changed, &self->lock);
  g_ptr_array_remove_fast (self->leaving, job); /* when it ended by itself meanwhile */
}
