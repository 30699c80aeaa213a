#include "sources/remote_file.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "net/http_range.h"
#include "sources/endpoint.h"

/* So often somebody hears of it. */
#define ARRIVAL_BYTES (256u << 10)
#define MAX_HOPS 12u    /* Ollama follows ten before one that leads elsewhere */
#define MAX_FAILURES 6u /* without a byte between them */
#define MAX_REFUSALS 2u /* of an address that the hub gave; likewise */
#define MAX_BACKOFF_MS 8000
/* Read and thrown away at most, where a server sends a file from its start whatever is asked. */
#define MAX_SKIP_BYTES (64u << 20)

struct RemoteFile {
  const RemoteFileClass *klass;
  gpointer data;
  HttpClient *client;
  FetchGate *gate;
  char *url, *origin, *name;
  guint64 size_bytes;
  gint64 retry_base_ms;
  GMutex lock;
  char *location; /* where the bytes are; NULL: not known */
};

RemoteFile *
remote_file_new (const RemoteFileClass *klass, gpointer data, const RemoteFileConfig *config)
{
  RemoteFile *self = g_new0 (RemoteFile, 1);
  g_mutex_init (&self->lock);
  self->klass = klass;
  self->data = data;
  self->client = config->client;
  self->gate = config->gate;
  self->url = g_strdup (config->url);
  self->origin = g_strdup (config->origin);
  self->name = g_strdup (config->name);
  self->size_bytes = config->size_bytes;
  self->retry_base_ms = config->retry_base_ms;
  return self;
}

void
remote_file_free (RemoteFile *self)
{
  if (self == NULL)
    return;
  self->klass->free (self->data);
  g_mutex_clear (&self->lock);
  g_free (self->url);
  g_free (self->origin);
  g_free (self->name);
  g_free (self->location);
  g_free (self);
}

guint64
remote_file_size (const RemoteFile *self)
{
  return self->size_bytes;
}

FetchGate *
remote_file_gate (const RemoteFile *self)
{
  return self->gate;
}

gboolean
remote_file_fail_changed (const char *who, const char *what, const char *seen, GError **error)
{
  return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "SourceChanged",
                  "%s no longer has what it listed: its %s is now %.100s; push again", who, what, seen);
}

gboolean
remote_file_is_page (const char *content_type)
{
  return content_type != NULL && g_ascii_strncasecmp (content_type, "text/html", strlen ("text/html")) == 0;
}

gboolean
remote_file_fail_page (GError **error)
{
  return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "HubAnswer",
                  "a web page came instead of the file: does a proxy want a login?");
}

/* Follows the hub's own redirects; stops before the first that leads elsewhere, because what is said about the file is
 * said before it. */
static gboolean
resolve (Ctx *ctx, RemoteFile *self, char **out_location, GError **error)
{
  g_autofree char *url = g_strdup (self->url);
  for (guint i = 0; i < MAX_HOPS; i++)
    {
      g_auto (HttpReply) reply = { 0 };
      if (!self->klass->ask (ctx, self->data, url, &reply, error))
        return FALSE;
      gboolean moves = http_status_is_redirect (reply.status);
      const char *target = http_reply_header (&reply, "location");
      g_autofree char *next = moves && target != NULL
                                ? g_uri_resolve_relative (url, target, G_URI_FLAGS_ENCODED, NULL)
                                : NULL;
      g_autofree char *origin = next != NULL ? endpoint_origin (next) : NULL;
      if (moves && (origin == NULL || (g_str_has_prefix (url, "https://") && !g_str_has_prefix (next, "https://"))))
        return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "HubAnswer", "%s redirects to no https URL",
                        self->klass->who);
      if (!moves || strcmp (origin, self->origin) != 0)
        {
          *out_location = g_strdup (moves ? next : url);
          return TRUE;
        }
      g_free (url);
      url = g_steal_pointer (&next);
    }
  return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "HubAnswer", "%s redirects without end", self->klass->who);
}

/* A piece of the file on its way into the caller's buffer. */
typedef struct {
  const RemoteFile *remote;
  guint64 offset_bytes;
  guint8 *buffer;
  gsize size, done;
  guint64 skip_bytes;    /* of an answer that starts before what is wanted */
  RemoteArrived arrived; /* or NULL */
  gpointer data;
} Take;

static gboolean
start_part (Take *take, GHashTable *headers, GError **error)
{
  guint64 first, last, total, wanted = take->offset_bytes + take->done;
  if (!http_content_range_parse (g_hash_table_lookup (headers, "content-range"), &first, &last, &total, error))
    return FALSE;
  if (total != G_MAXUINT64 && total != take->remote->size_bytes)
    return am_fail (error, AM_ERROR_DATA_LOSS, "SourceCorrupt",
                    "%s lists %" G_GUINT64_FORMAT " bytes, but %" G_GUINT64_FORMAT
                    " are there: the source is damaged",
                    take->remote->klass->who, take->remote->size_bytes, total);
  if (first != wanted || last >= take->offset_bytes + take->size)
    return am_fail (error, AM_ERROR_UNAVAILABLE, "WrongRange",
                    "bytes from %" G_GUINT64_FORMAT " were asked for, from %" G_GUINT64_FORMAT " came", wanted,
                    first);
  return TRUE;
}

/* The server sends all of the file. */
static gboolean
start_whole (Take *take, GHashTable *headers, GError **error)
{
  const char *length = g_hash_table_lookup (headers, "content-length");
  guint64 size;
  take->skip_bytes = take->offset_bytes + take->done;
  if (length != NULL && text_parse_u64 (length, &size) && size != take->remote->size_bytes)
    return remote_file_is_page (g_hash_table_lookup (headers, "content-type"))
             ? remote_file_fail_page (error)
             : am_fail (error, AM_ERROR_DATA_LOSS, "SourceCorrupt",
                        "%s lists %" G_GUINT64_FORMAT " bytes, but %" G_GUINT64_FORMAT " come: the source is damaged",
                        take->remote->klass->who, take->remote->size_bytes, size);
  if (take->skip_bytes > MAX_SKIP_BYTES)
    return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "WrongRange",
                    "the source cannot send a part of a file, which a "
                    "file of this size needs");
  return TRUE;
}

static gboolean
on_start (Ctx *ctx, gpointer data, guint status, GHashTable *headers, GError **error)
{
  Take *take = data;
  const char *encoding = g_hash_table_lookup (headers, "content-encoding");
  take->skip_bytes = 0;
  if (encoding != NULL && g_ascii_strcasecmp (encoding, "identity") != 0)
    return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "HubAnswer",
                    "the source compresses it (%.40s) though it was asked not to", encoding);
  return status == 206 ? start_part (take, headers, error) : start_whole (take, headers, error);
}

static gboolean
on_write (Ctx *ctx, gpointer data, gconstpointer bytes, gsize size, GError **error)
{
  Take *take = data;
  gsize skipped = (gsize) MIN (take->skip_bytes, size);
  gsize n = MIN (size - skipped, take->size - take->done);
  take->skip_bytes -= skipped;
  memcpy (take->buffer + take->done, (const guint8 *) bytes + skipped, n);
  gsize before = take->done;
  take->done += n;
  fetch_gate_received (take->remote->gate, n);
  if (take->arrived != NULL && before / ARRIVAL_BYTES != take->done / ARRIVAL_BYTES)
    take->arrived (take->data, take->done);
  /* All that was wanted is here: the rest need not come. */
  return skipped + n == size || am_fail (error, AM_ERROR_CANCELLED, "Enough", "enough was read");
}

static gboolean
fetch_once (Ctx *ctx, RemoteFile *self, const char *location, Take *take, guint *out_status, GError **error)
{
  static const HttpDownload download = { on_start, on_write, NULL };
  g_autofree char *range = g_strdup_printf ("Range: bytes=%" G_GUINT64_FORMAT "-%" G_GUINT64_FORMAT,
                                            take->offset_bytes + take->done, take->offset_bytes + take->size - 1);
  const char *headers[] = { range, NULL };
  HttpCall call = {
    .method = "GET", .url = location, .headers = headers, .download = &download, .download_data = take
  };
  g_auto (HttpReply) reply = { 0 };
  g_autoptr (GError) failure = NULL;
  gboolean done = http_client_call (ctx, self->client, &call, &reply, &failure);
  *out_status = reply.status;
  if (take->done == take->size)
    return TRUE;
  if (done)
    return am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "the answer ended %" G_GSIZE_FORMAT " bytes early",
                    take->size - take->done);
  g_propagate_error (error, g_steal_pointer (&failure));
  return FALSE;
}

static gboolean
find_location (Ctx *ctx, RemoteFile *self, char **out_location, GError **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  if (self->location == NULL && !resolve (ctx, self, &self->location, error))
    return FALSE;
  *out_location = g_strdup (self->location);
  return TRUE;
}

/* Unless another thread has a newer one already. */
static void
forget_location (RemoteFile *self, const char *location)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  if (g_strcmp0 (self->location, location) == 0)
    g_clear_pointer (&self->location, g_free);
}

/* An address that was good once may have expired. */
static gboolean
is_refusal (guint status)
{
  return status == 400 || status == 401 || status == 403 || status == 404 || status == 410;
}

static gboolean
wait_to_retry (Ctx *ctx, const RemoteFile *self, guint n_failures, const GError *failure, GError **error)
{
  gint64 wished_ms = am_error_retry_after_ms (failure);
  gint64 ceiling_ms = MIN (self->retry_base_ms << MIN (n_failures, 10), MAX_BACKOFF_MS);
  gint64 delay_ms = wished_ms > 0 ? wished_ms : (gint64) g_random_double_range (0, (double) ceiling_ms + 1);
  am_log (ctx, AM_LOG_PAUSE (delay_ms), "reading a remote file failed, going on after a pause", "path", self->name,
          "err", failure->message, "delay_ms", AM_U64 ((guint64) delay_ms), NULL);
  return ctx_sleep_ms (ctx, delay_ms, error);
}

/* How often reading failed since the last byte came. */
typedef struct {
  guint n_failures, n_refusals;
} Patience;

/* What to do about `failure`: TRUE to try again. */
static gboolean
handle (Ctx *ctx, RemoteFile *self, const char *location, guint status, Patience *patience, GError *failure,
        GError **error)
{
  if (location != NULL && is_refusal (status) && ++patience->n_refusals < MAX_REFUSALS)
    {
      forget_location (self, location);
      return TRUE;
    }
  /* A hub that limits requests was waited for already, as long as it wished. */
  patience->n_failures += am_error_has_reason (failure, "HubRateLimited") ? MAX_FAILURES / 2 : 1;
  if ((am_error_retryable (failure) || status == 429) && patience->n_failures < MAX_FAILURES)
    {
      fetch_gate_trouble (self->gate);
      return wait_to_retry (ctx, self, patience->n_failures, failure, error);
    }
  if (location != NULL && is_refusal (status))
    return am_fail (error, AM_ERROR_PERMISSION_DENIED, "HubForbidden",
                    "where %s keeps the file, access is refused, with a new address too: %s", self->klass->who,
                    failure->message);
  if (status == 416)
    return remote_file_fail_changed (self->klass->who, "size", "smaller", error);
  g_propagate_error (error, g_error_copy (failure));
  return FALSE;
}

gboolean
remote_file_read (Ctx *ctx, RemoteFile *self, guint64 offset_bytes, guint8 *buffer, gsize size, GError **error)
{
  return remote_file_stream (ctx, self, offset_bytes, buffer, size, NULL, NULL, error);
}

gboolean
remote_file_stream (Ctx *ctx, RemoteFile *self, guint64 offset_bytes, guint8 *buffer, gsize size,
                    RemoteArrived arrived, gpointer data, GError **error)
{
  Take take = {
    .remote = self, .offset_bytes = offset_bytes, .buffer = buffer, .size = size, .arrived = arrived, .data = data
  };
  Patience patience = { 0 };
  while (take.done < take.size)
    {
      g_autoptr (GError) failure = NULL;
      g_autofree char *location = NULL;
      guint status = 0;
      gsize before = take.done;
      if (find_location (ctx, self, &location, &failure)
          && fetch_once (ctx, self, location, &take, &status, &failure))
        break;
      if (take.done > before)
        patience = (Patience){ 0 };
      if (!ctx_check (ctx, error) || !handle (ctx, self, location, status, &patience, failure, error))
        return FALSE;
    }
  return TRUE;
}
