#include "net/http_connection.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "net/metrics.h"

#define SECOND_US G_TIME_SPAN_SECOND
#define MIN_TICK_US (20 * G_TIME_SPAN_MILLISECOND)
#define DISPLACE_AFTER_US G_TIME_SPAN_SECOND /* a request that is on its way has come by then */

struct HttpConnection {
  HttpConnections *all;
  GList link; /* in all->list */
  int fd;
  char *peer;

  GMutex lock; /* the rest */
  HttpConnectionState state;
  gboolean cut;
  Ctx *ctx;
  gint64 since_us;       /* when the state was entered */
  guint64 moved;         /* bytes in this state, by our own count */
  gint64 work_since_us;  /* 0 when the peer is on turn */
  gint64 work_us;        /* finished work in this state */
  guint64 idle_received; /* the socket's count when the connection became idle */

  /* Where the peer was last seen to have advanced; starts over with each state. */
  gboolean marked;
  gint64 mark_us, mark_work_us;
  guint64 mark_moved, mark_wire;
};

struct HttpConnections {
  HttpConnectionLimits limits;
  void (*each_second) (gpointer data);
  gpointer data;
  GThread *watchdog;

  GMutex lock;
  GCond wake;
  gboolean stopping;
  GQueue list;
  GHashTable *peers; /* address -> number of connections */
  Metric *open, *refused, *displaced, *timed_out;
};

static const char *const state_names[] = { "head", "body", "handling", "response", "idle" };

/* Payload bytes the kernel has received from the peer, and those the peer has acknowledged. Unlike
 * counts of our own these see through buffers: a reader that stalls acknowledges nothing more. */
static void
wire_counts (int fd, guint64 *out_received, guint64 *out_acked)
{
  struct tcp_info info = { 0 };
  socklen_t size = sizeof info;
  *out_received = *out_acked = 0;
  if (getsockopt (fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
    return;
  *out_received = info.tcpi_bytes_received;
  *out_acked = info.tcpi_bytes_acked;
}

static void
enter_locked (HttpConnection *self, HttpConnectionState state)
{
  self->state = state;
  self->since_us = g_get_monotonic_time ();
  self->moved = 0;
  self->work_since_us = self->work_us = 0;
  self->marked = FALSE;
}

void
http_connection_enter (HttpConnection *self, HttpConnectionState state)
{
  guint64 acked;
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  enter_locked (self, state);
  if (state == HTTP_CONNECTION_IDLE)
    wire_counts (self->fd, &self->idle_received, &acked);
}

void
http_connection_work_begin (HttpConnection *self)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  self->work_since_us = g_get_monotonic_time ();
}

void
http_connection_work_end (HttpConnection *self, gsize moved_bytes)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  self->work_us += g_get_monotonic_time () - self->work_since_us;
  self->work_since_us = 0;
  self->moved += moved_bytes;
}

void
http_connection_set_ctx (HttpConnection *self, Ctx *ctx)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  g_autoptr (Ctx) old G_GNUC_UNUSED = self->ctx;
  self->ctx = ctx != NULL ? ctx_ref (ctx) : NULL;
  if (self->cut && ctx != NULL)
    ctx_cancel (ctx);
}

static void
cut_locked (HttpConnection *self)
{
  self->cut = TRUE;
  shutdown (self->fd, SHUT_RDWR);
  if (self->ctx != NULL)
    ctx_cancel (self->ctx);
}

void
http_connection_cut (HttpConnection *self)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  cut_locked (self);
}

gboolean
http_connection_was_cut (HttpConnection *self)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  return self->cut;
}

const char *
http_connection_peer (HttpConnection *self)
{
  return self->peer;
}

gpointer
http_connection_owner (HttpConnection *self)
{
  return self->all->data;
}

int
http_connection_fd (HttpConnection *self)
{
  return self->fd;
}

/* A client that is gone wants no answer: its request's context is cancelled. The end of its stream tells
 * that while a handler works, as it does in other servers. While a body arrives it may stand behind bytes
 * we have not read yet, and while a response leaves sending finds out: there only an error counts. */
static void
cancel_if_vanished_locked (HttpConnection *self)
{
  struct pollfd fd = { .fd = self->fd, .events = self->state == HTTP_CONNECTION_HANDLING ? POLLRDHUP : 0 };
  if (self->ctx != NULL && poll (&fd, 1, 0) > 0 && (fd.revents & (POLLERR | POLLHUP | POLLRDHUP)) != 0)
    ctx_cancel (self->ctx);
}

/* TRUE when the peer has had its time without moving progress_bytes. */
static gboolean
is_stalled_locked (HttpConnection *self, gint64 now_us)
{
  const HttpConnectionLimits *limits = &self->all->limits;
  guint64 received, acked;
  wire_counts (self->fd, &received, &acked);
  guint64 wire = self->state == HTTP_CONNECTION_BODY ? received : acked;
  gboolean advanced = self->marked
                      && (self->moved - self->mark_moved >= limits->progress_bytes
                          || wire - self->mark_wire >= limits->progress_bytes);
  if (!self->marked || advanced)
    {
      self->mark_us = self->marked ? now_us : self->since_us;
      self->mark_work_us = self->marked ? self->work_us : 0;
      self->mark_moved = self->marked ? self->moved : 0;
      self->mark_wire = wire;
      self->marked = TRUE;
    }
  return now_us - self->mark_us - (self->work_us - self->mark_work_us) > limits->progress_timeout_us;
}

/* The first bytes of a next request end the idle time; its head is then limited as a whole. */
static void
notice_next_head_locked (HttpConnection *self)
{
  guint64 received, acked;
  wire_counts (self->fd, &received, &acked);
  if (received != self->idle_received)
    enter_locked (self, HTTP_CONNECTION_HEAD);
}

static gboolean
is_overdue_locked (HttpConnection *self, gint64 now_us)
{
  const HttpConnectionLimits *limits = &self->all->limits;
  if (self->state == HTTP_CONNECTION_IDLE)
    notice_next_head_locked (self);
  switch (self->state)
    {
    case HTTP_CONNECTION_HEAD: return now_us - self->since_us > limits->header_timeout_us;
    case HTTP_CONNECTION_IDLE: return now_us - self->since_us > limits->idle_timeout_us;
    case HTTP_CONNECTION_HANDLING: cancel_if_vanished_locked (self); return FALSE;
    case HTTP_CONNECTION_BODY:
    case HTTP_CONNECTION_RESPONSE: break;
    }
  if (self->work_since_us == 0)
    return is_stalled_locked (self, now_us);
  cancel_if_vanished_locked (self);
  return FALSE;
}

/* Holding the list's lock keeps each descriptor open: removal waits for it. */
static void
check_all_locked (HttpConnections *self)
{
  gint64 now_us = g_get_monotonic_time ();
  for (GList *each = self->list.head; each != NULL; each = each->next)
    {
      HttpConnection *connection = each->data;
      g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&connection->lock);
      if (connection->cut || !is_overdue_locked (connection, now_us))
        continue;
      metric_add (self->timed_out, 1, state_names[connection->state], NULL);
      cut_locked (connection);
    }
}

static gint64
tick_us (const HttpConnectionLimits *limits)
{
  gint64 shortest = MIN (limits->header_timeout_us, MIN (limits->progress_timeout_us, limits->idle_timeout_us));
  return CLAMP (shortest / 10, MIN_TICK_US, SECOND_US);
}

/* Until a look is due. While there are no connections only what each second brings is; the first one wakes. */
static void
await_tick_locked (HttpConnections *self)
{
  gboolean was_empty = self->list.length == 0;
  gint64 until_us = g_get_monotonic_time () + (was_empty ? SECOND_US : tick_us (&self->limits));
  while (!self->stopping && (!was_empty || self->list.length == 0)
         && g_cond_wait_until (&self->wake, &self->lock, until_us))
    ;
}

static gpointer
watchdog_main (gpointer data)
{
  HttpConnections *self = data;
  gint64 next_second_us = g_get_monotonic_time () + SECOND_US;
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  while (!self->stopping)
    {
      await_tick_locked (self);
      if (self->stopping)
        break;
      check_all_locked (self);
      if (self->each_second == NULL || g_get_monotonic_time () < next_second_us)
        continue;
      next_second_us = g_get_monotonic_time () + SECOND_US;
      g_mutex_unlock (&self->lock);
      self->each_second (self->data);
      g_mutex_lock (&self->lock);
    }
  return NULL;
}

HttpConnections *
http_connections_new (const HttpConnectionLimits *limits, void (*each_second) (gpointer data), gpointer data)
{
  HttpConnections *self = g_new0 (HttpConnections, 1);
  self->limits = *limits;
  self->each_second = each_second;
  self->data = data;
  g_mutex_init (&self->lock);
  g_cond_init (&self->wake);
  g_queue_init (&self->list);
  self->peers = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->open = metric_declare ("http_connections", METRIC_GAUGE, "Open connections of the HTTP servers.", NULL);
  self->refused = metric_declare ("http_connections_refused_total", METRIC_COUNTER,
                                  "Connections closed at once because a limit was reached.",
                                  (const char *[]){ "limit", NULL });
  self->displaced = metric_declare ("http_connections_displaced_total", METRIC_COUNTER,
                                    "Connections without a request cut for a new one because a limit was reached.",
                                    (const char *[]){ "limit", NULL });
  self->timed_out = metric_declare ("http_connections_timed_out_total", METRIC_COUNTER,
                                    "Connections cut because the peer made no progress.",
                                    (const char *[]){ "state", NULL });
  self->watchdog = g_thread_new ("http-watchdog", watchdog_main, self);
  return self;
}

void
http_connections_free (HttpConnections *self)
{
  if (self == NULL)
    return;
  g_mutex_lock (&self->lock);
  self->stopping = TRUE;
  g_cond_signal (&self->wake);
  g_mutex_unlock (&self->lock);
  g_thread_join (self->watchdog);
  g_assert (self->list.length == 0);
  g_hash_table_unref (self->peers);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->wake);
  g_free (self);
}

/* Since when no request has been under way on it; G_MAXINT64 when one is, or it ends already. */
static gint64
waiting_since_us (HttpConnection *self)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  if (self->state == HTTP_CONNECTION_IDLE)
    notice_next_head_locked (self);
  gboolean waits = self->state == HTTP_CONNECTION_HEAD || self->state == HTTP_CONNECTION_IDLE;
  return waits && !self->cut ? self->since_us : G_MAXINT64;
}

/* Cuts the connection that has been without a request longest, of one peer or (NULL) of all: whoever only holds
 * places keeps nobody out. FALSE when each works or is new. */
static gboolean
displace_locked (HttpConnections *self, const char *peer)
{
  HttpConnection *oldest = NULL;
  gint64 oldest_us = g_get_monotonic_time () - DISPLACE_AFTER_US;
  for (GList *each = self->list.head; each != NULL; each = each->next)
    {
      HttpConnection *connection = each->data;
      if (peer != NULL && strcmp (peer, connection->peer) != 0)
        continue;
      gint64 since_us = waiting_since_us (connection);
      if (since_us < oldest_us)
        {
          oldest = connection;
          oldest_us = since_us;
        }
    }
  if (oldest != NULL)
    http_connection_cut (oldest);
  return oldest != NULL;
}

gboolean
http_connections_admit (HttpConnections *self, const char *peer)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  gboolean peer_is_full = GPOINTER_TO_UINT (g_hash_table_lookup (self->peers, peer)) >= self->limits.max_per_peer;
  if (!peer_is_full && self->list.length < self->limits.max_connections)
    return TRUE;
  gboolean has_room = self->list.length < self->limits.max_connections + HTTP_ENDING_CONNECTIONS
                      && displace_locked (self, peer_is_full ? peer : NULL);
  metric_add (has_room ? self->displaced : self->refused, 1, peer_is_full ? "peer" : "total", NULL);
  return has_room;
}

static void
count_peer_locked (HttpConnections *self, const char *peer, int change)
{
  guint count = GPOINTER_TO_UINT (g_hash_table_lookup (self->peers, peer)) + (guint) change;
  if (count == 0)
    g_hash_table_remove (self->peers, peer);
  else
    g_hash_table_insert (self->peers, g_strdup (peer), GUINT_TO_POINTER (count));
}

HttpConnection *
http_connections_add (HttpConnections *self, int fd, const char *peer)
{
  HttpConnection *connection = g_new0 (HttpConnection, 1);
  connection->all = self;
  connection->link.data = connection;
  connection->fd = fd;
  connection->peer = g_strdup (peer);
  g_mutex_init (&connection->lock);
  enter_locked (connection, HTTP_CONNECTION_HEAD);
  metric_add (self->open, 1, NULL);
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  g_queue_push_tail_link (&self->list, &connection->link);
  if (self->list.length == 1)
    g_cond_signal (&self->wake);
  count_peer_locked (self, peer, 1);
  return connection;
}

void
http_connection_remove (HttpConnection *self)
{
  HttpConnections *all = self->all;
  g_mutex_lock (&all->lock);
  g_queue_unlink (&all->list, &self->link);
  count_peer_locked (all, self->peer, -1);
  g_mutex_unlock (&all->lock);
  metric_add (all->open, -1, NULL);
  ctx_unref (self->ctx);
  g_mutex_clear (&self->lock);
  g_free (self->peer);
  g_free (self);
}

static void
cut_where (HttpConnections *self, gboolean idle_only)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  for (GList *each = self->list.head; each != NULL; each = each->next)
    {
      HttpConnection *connection = each->data;
      guint64 received, acked;
      g_autoptr (GMutexLocker) connection_locker G_GNUC_UNUSED = g_mutex_locker_new (&connection->lock);
      wire_counts (connection->fd, &received, &acked);
      gboolean idle = (connection->state == HTTP_CONNECTION_IDLE && received == connection->idle_received)
                      || (connection->state == HTTP_CONNECTION_HEAD && received == 0);
      if (!connection->cut && (idle || !idle_only))
        cut_locked (connection);
    }
}

void
http_connections_cut_idle (HttpConnections *self)
{
  cut_where (self, TRUE);
}

void
http_connections_cut_all (HttpConnections *self)
{
  cut_where (self, FALSE);
}
