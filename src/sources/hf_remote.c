#include "sources/hf_remote.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "net/http_range.h"

#define MAX_HOPS 6u
#define MAX_FAILURES 6u /* without a byte between them */
#define MAX_REFUSALS 2u /* of an address that the hub gave; likewise */
#define MAX_BACKOFF_MS 8000
/* Read and thrown away at most, where a server sends a file from its start whatever is asked. */
#define MAX_SKIP_BYTES (64u << 20)

struct HfRemote {
  HfHub *hub;
  char *repository, *commit, *path;
  char *hash; /* LFS or blob id; NULL: not stated */
  guint64 size_bytes;
  char *url; /* of the hub */
  GMutex lock;
  char *location; /* where the bytes are; NULL: not known */
};

HfRemote *
hf_remote_new (HfHub *hub, const HfInfo *info, const HfFile *file)
{
  HfRemote *self = g_new0 (HfRemote, 1);
  g_autofree char *revision = hf_escape (info->commit, FALSE), *path = hf_escape (file->path, TRUE);
  g_mutex_init (&self->lock);
  self->hub = hub;
  self->repository = g_strdup (info->id);
  self->commit = g_strdup (info->commit);
  self->path = g_strdup (file->path);
  self->hash = g_strdup (file->sha256 != NULL ? file->sha256 : file->blob_id);
  self->size_bytes = file->size_bytes;
  self->url = g_strdup_printf ("%s/%s/resolve/%s/%s", hub->endpoint, info->id, revision, path);
  return self;
}

void
hf_remote_free (HfRemote *self)
{
  if (self == NULL)
    return;
  g_mutex_clear (&self->lock);
  g_free (self->repository);
  g_free (self->commit);
  g_free (self->path);
  g_free (self->hash);
  g_free (self->url);
  g_free (self->location);
  g_free (self);
}

static gboolean
fail_changed (const HfRemote *self, const char *what, const char *seen, GError **error)
{
  return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "SourceChanged",
                  "the hub no longer has what it listed: its %s is now %.100s; push again", what, seen);
}

/* `W/"abc"` -> `abc`; caller frees. */
static char *
bare_etag (const char *etag)
{
  g_autofree char *text = g_strdup (g_str_has_prefix (etag, "W/") ? etag + 2 : etag);
  gsize size = strlen (text);
  return size >= 2 && text[0] == '"' && text[size - 1] == '"' ? g_strndup (text + 1, size - 2)
                                                              : g_steal_pointer (&text);
}

static gboolean
is_hash (const char *text)
{
  gsize size = strlen (text);
  return (size == 40 || size == 64) && strspn (text, "0123456789abcdef") == size;
}

/* What the hub itself says about the file must be what it listed. A redirect's own length and a compressed answer's
 * length say nothing about the file. */
static gboolean
check_metadata (const HfRemote *self, const HttpReply *reply, GError **error)
{
  const char *commit = http_reply_header (reply, "x-repo-commit");
  const char *size_text = http_reply_header (reply, "x-linked-size");
  const char *etag = http_reply_header (reply, "x-linked-etag");
  guint64 size;
  gboolean is_file = reply->status >= 200 && reply->status < 300;
  if (size_text == NULL && is_file && http_reply_header (reply, "content-encoding") == NULL)
    size_text = http_reply_header (reply, "content-length");
  if (etag == NULL && is_file)
    etag = http_reply_header (reply, "etag");
  if (commit != NULL && strcmp (commit, self->commit) != 0)
    return fail_changed (self, "commit", commit, error);
  if (size_text != NULL && text_parse_u64 (size_text, &size) && size != self->size_bytes)
    return fail_changed (self, "size", size_text, error);
  g_autofree char *hash = etag != NULL ? bare_etag (etag) : NULL;
  if (hash != NULL && self->hash != NULL && is_hash (hash) && strlen (hash) == strlen (self->hash)
      && strcmp (hash, self->hash) != 0)
    return fail_changed (self, "hash", hash, error);
  return TRUE;
}

/* Not every mirror answers HEAD. */
static gboolean
ask_metadata (Ctx *ctx, HfRemote *self, const char *url, HttpReply *out_reply, GError **error)
{
  static const char *const one_byte[] = { "Range: bytes=0-0", NULL };
  HttpCall call = { .method = "HEAD", .url = url, .no_redirects = TRUE };
  g_autoptr (GError) failure = NULL;
  if (http_client_call (ctx, self->hub->api, &call, out_reply, &failure))
    return TRUE;
  if (out_reply->status != 405 && out_reply->status != 501)
    {
      g_propagate_error (error, g_steal_pointer (&failure));
      return FALSE;
    }
  http_reply_clear (out_reply);
  call.method = "GET";
  call.headers = one_byte;
  call.reply_limit_bytes = MAX_SKIP_BYTES;
  return http_client_call (ctx, self->hub->api, &call, out_reply, error);
}

static gboolean
is_redirect (guint status)
{
  return status >= 300 && status <= 399 && status != 304;
}

/* Follows the hub's own redirects; stops before the first that leads elsewhere, because what is said about the file is
 * said before it. */
static gboolean
resolve (Ctx *ctx, HfRemote *self, char **out_location, GError **error)
{
  HfAsked asked = { self->repository, self->commit, self->path };
  g_autofree char *url = g_strdup (self->url);
  for (guint i = 0; i < MAX_HOPS; i++)
    {
      g_auto (HttpReply) reply = { 0 };
      if (!ask_metadata (ctx, self, url, &reply, error))
        return hf_explain (self->hub, &asked, &reply, error);
      gboolean moves = is_redirect (reply.status);
      const char *target = http_reply_header (&reply, "location");
      g_autofree char *next = moves && target != NULL
                                ? g_uri_resolve_relative (url, target, G_URI_FLAGS_ENCODED, NULL)
                                : NULL;
      g_autofree char *origin = next != NULL ? hf_origin (next) : NULL;
      if (reply.status != 206 && !check_metadata (self, &reply, error))
        return FALSE;
      if (moves && (origin == NULL || (g_str_has_prefix (url, "https://") && !g_str_has_prefix (next, "https://"))))
        return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "HubAnswer", "the hub redirects to no https URL");
      if (!moves || strcmp (origin, self->hub->origin) != 0)
        {
          *out_location = g_strdup (moves ? next : url);
          return TRUE;
        }
      g_free (url);
      url = g_steal_pointer (&next);
    }
  return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "HubAnswer", "the hub redirects without end");
}

/* A piece of the file on its way into the caller's buffer. */
typedef struct {
  const HfRemote *remote;
  guint64 offset_bytes;
  guint8 *buffer;
  gsize size, done;
  guint64 skip_bytes; /* of an answer that starts before what is wanted */
} Take;

static gboolean
start_part (Take *take, GHashTable *headers, GError **error)
{
  guint64 first, last, total, wanted = take->offset_bytes + take->done;
  if (!http_content_range_parse (g_hash_table_lookup (headers, "content-range"), &first, &last, &total, error))
    return FALSE;
  if (total != G_MAXUINT64 && total != take->remote->size_bytes)
    return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "SourceCorrupt",
                    "the hub lists %" G_GUINT64_FORMAT " bytes, but %" G_GUINT64_FORMAT
                    " are there: the source is damaged",
                    take->remote->size_bytes, total);
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
  const char *encoding = g_hash_table_lookup (headers, "content-encoding");
  const char *length = g_hash_table_lookup (headers, "content-length");
  guint64 size;
  take->skip_bytes = take->offset_bytes + take->done;
  if (encoding != NULL && g_ascii_strcasecmp (encoding, "identity") != 0)
    return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "SourceCorrupt",
                    "the source compresses it (%.40s) though it was "
                    "asked not to",
                    encoding);
  if (length != NULL && text_parse_u64 (length, &size) && size != take->remote->size_bytes)
    return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "SourceCorrupt",
                    "the hub lists %" G_GUINT64_FORMAT " bytes, but %" G_GUINT64_FORMAT
                    " come: the source is damaged",
                    take->remote->size_bytes, size);
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
  take->skip_bytes = 0;
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
  take->done += n;
  /* All that was wanted is here: the rest need not come. */
  return skipped + n == size || am_fail (error, AM_ERROR_CANCELLED, "Enough", "enough was read");
}

static gboolean
fetch_once (Ctx *ctx, HfRemote *self, const char *location, Take *take, guint *out_status, GError **error)
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
  gboolean done = http_client_call (ctx, self->hub->data, &call, &reply, &failure);
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
find_location (Ctx *ctx, HfRemote *self, char **out_location, GError **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  if (self->location == NULL && !resolve (ctx, self, &self->location, error))
    return FALSE;
  *out_location = g_strdup (self->location);
  return TRUE;
}

/* Unless another thread has a newer one already. */
static void
forget_location (HfRemote *self, const char *location)
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
wait_to_retry (Ctx *ctx, const HfRemote *self, guint n_failures, const GError *failure, GError **error)
{
  gint64 wished_ms = am_error_retry_after_ms (failure);
  gint64 ceiling_ms = MIN (self->hub->retry_base_ms << MIN (n_failures, 10), MAX_BACKOFF_MS);
  gint64 delay_ms = wished_ms > 0 ? wished_ms : (gint64) g_random_double_range (0, (double) ceiling_ms + 1);
  am_log_debug (ctx, "reading a file of the hub failed, going on", "path", self->path, "err", failure->message,
                "delay_ms", AM_U64 ((guint64) delay_ms), NULL);
  return ctx_sleep_ms (ctx, delay_ms, error);
}

/* How often reading failed since the last byte came. */
typedef struct {
  guint n_failures, n_refusals;
} Patience;

/* What to do about `failure`: TRUE to try again. */
static gboolean
handle (Ctx *ctx, HfRemote *self, const char *location, guint status, Patience *patience, GError *failure,
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
    return wait_to_retry (ctx, self, patience->n_failures, failure, error);
  if (location != NULL && is_refusal (status))
    return am_fail (error, AM_ERROR_PERMISSION_DENIED, "HubForbidden",
                    "where the hub keeps the file, access is refused, with a new address too: %s", failure->message);
  if (status == 416)
    return fail_changed (self, "size", "smaller", error);
  g_propagate_error (error, g_error_copy (failure));
  return FALSE;
}

gboolean
hf_remote_read (Ctx *ctx, HfRemote *self, guint64 offset_bytes, guint8 *buffer, gsize size, GError **error)
{
  Take take = { .remote = self, .offset_bytes = offset_bytes, .buffer = buffer, .size = size };
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
