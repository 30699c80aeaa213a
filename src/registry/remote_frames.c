/* Pushing a blob over the chunk wire (storage.md, "Writing"): a stream of PATCHes with chunk frames, references
 * for what the other side has; after any trouble the server's own count says where to go on. */
#include "registry/remote.h"

#include <string.h>

#include "base/log.h"
#include "oci/media_types.h"
#include "registry/push_pipeline.h"
#include "registry/read_ahead.h"
#include "registry/upload_location.h"

/* Decoded bytes of one PATCH. The server saves the session at its end, and now and then on the way. */
#define PATCH_BYTES (1u << 30)
/* A PATCH that has nothing more to send for so long ends, before the server loses patience. */
#define PATIENCE_MS 5000
/* After a reference that the server could not resolve, so much is sent whole. */
#define WHOLE_AFTER_DAMAGE_BYTES (32u << 20)
#define MAX_SESSIONS 4u

/* Where the blob's hash stood at a chunk's end. */
typedef struct {
  guint64 end_bytes;
  Sha256 hash;
} Mark;

typedef struct {
  Remote *remote;
  Reader *content;
  const char *note; /* or NULL */
  RemoteProgress *progress;
  GMutex lock; /* for `location`, which encoders ask with */
  char *location;
  guint n_sessions;
  Mark acked;             /* what the server surely has */
  const Digest *expected; /* or NULL. If not, only the server hashes the whole: marks' hashes say nothing */
  /* The content before `acked` went in an earlier process and is not read again. */
  gboolean is_blind;
  GArray *sent;        /* Mark of every frame handed over since */
  guint64 whole_until; /* no references before this */
  PushPipeline *pipeline;
  PushFrame frame;
  gsize frame_done;
  gboolean has_frame;
  gboolean is_end; /* the pipeline has no more */
} FramePush;

static char *
current_location (FramePush *self)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  return g_strdup (self->location);
}

static void
take_location (FramePush *self, char *location)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  g_free (self->location);
  self->location = location;
}

static gboolean
ask_known (Ctx *ctx, gpointer data, const guint8 *digests, gsize n, char *answers, GError **error)
{
  FramePush *self = data;
  g_autofree char *location = current_location (self);
  g_autofree char *url = upload_location_below (location, "known");
  g_autoptr (GBytes) body = g_bytes_new_static (digests, n * 32);
  static const char *const headers[] = { "Content-Type: " OCTET_STREAM, NULL };
  HttpCall call = { .method = "POST",
                    .url = url,
                    .headers = headers,
                    .body = body,
                    .idempotent = TRUE,
                    .reply_limit_bytes = WIRE_KNOWN_MAX };
  g_auto (HttpReply) reply = { 0 };
  g_assert (n <= WIRE_KNOWN_MAX);
  if (!registry_client_call (ctx, self->remote->client, REGISTRY_PUSH, &call, &reply, error))
    return FALSE;
  if (reply.body == NULL || g_bytes_get_size (reply.body) != n)
    return am_fail (error, AM_ERROR_FAILED_PRECONDITION, NULL,
                    "%s: the registry answers for another number of chunks than it was asked about",
                    self->remote->base.display);
  memcpy (answers, g_bytes_get_data (reply.body, NULL), n);
  return TRUE;
}

static void
start_pipeline (Ctx *ctx, FramePush *self)
{
  g_clear_pointer (&self->pipeline, push_pipeline_free);
  PushPipelineConfig config = { .offset_bytes = self->acked.end_bytes,
                                .blob_hash = self->acked.hash,
                                .is_unhashed = self->expected != NULL,
                                .whole_until = self->whole_until,
                                .ask = ask_known,
                                .data = self };
  g_array_set_size (self->sent, 0);
  self->has_frame = FALSE;
  self->is_end = FALSE;
  self->pipeline = push_pipeline_new (ctx, self->content, &config);
}

static guint64
sent_up_to (const FramePush *self)
{
  return self->sent->len == 0 ? self->acked.end_bytes
                              : g_array_index (self->sent, Mark, self->sent->len - 1).end_bytes;
}

/* Fetches the next frame unless one is at hand. */
static PushNext
want_frame (FramePush *self, gint64 timeout_ms, GError **error)
{
  if (self->has_frame)
    return PUSH_FRAME;
  if (self->is_end)
    return PUSH_END;
  PushNext next = push_pipeline_next (self->pipeline, timeout_ms, &self->frame, error);
  self->has_frame = next == PUSH_FRAME;
  self->is_end = next == PUSH_END;
  self->frame_done = 0;
  return next;
}

static void
frame_is_sent (FramePush *self)
{
  Mark mark = { self->frame.end_bytes, self->frame.blob_hash };
  g_array_append_val (self->sent, mark);
  remote_progress (self->progress, mark.end_bytes, self->frame.size);
  self->has_frame = FALSE;
}

static gssize
frames_read (Ctx *ctx, gpointer data, guint8 *buffer, gsize size, GError **error)
{
  FramePush *self = data;
  gsize n = 0;
  while (n < size)
    {
      gboolean is_between = !self->has_frame;
      if (is_between && sent_up_to (self) - self->acked.end_bytes >= PATCH_BYTES)
        break;
      PushNext next = want_frame (self, n > 0 ? 0 : PATIENCE_MS, error);
      if (next == PUSH_FAILED)
        return -1;
      if (next != PUSH_FRAME)
        break;
      gsize piece = MIN (size - n, self->frame.size - self->frame_done);
      memcpy (buffer + n, self->frame.bytes + self->frame_done, piece);
      n += piece;
      self->frame_done += piece;
      if (self->frame_done == self->frame.size)
        frame_is_sent (self);
    }
  return (gssize) n;
}

/* Statuses of proxies that know no PATCH, no body without a length, or no such content. */
static gboolean
is_refusal (guint status)
{
  return status == 405 || status == 411 || status == 415 || status == 501;
}

static gboolean
patch (Ctx *ctx, FramePush *self, GError **error)
{
  static const HttpUpload upload = { frames_read, NULL };
  static const char *const headers[] = { "Content-Type: " WIRE_CHUNKS, NULL };
  g_autofree char *url = current_location (self);
  g_autofree char *next = g_strdup (url);
  HttpCall call = { .method = "PATCH",
                    .url = url,
                    .headers = headers,
                    .upload = &upload,
                    .upload_data = self,
                    .upload_size = -1,
                    .no_redirects = TRUE };
  g_auto (HttpReply) reply = { 0 };
  g_autoptr (GError) failure = NULL;
  if (!registry_client_call (ctx, self->remote->client, REGISTRY_PUSH, &call, &reply, &failure))
    {
      if (is_refusal (reply.status))
        return am_fail (error, AM_ERROR_UNIMPLEMENTED, REMOTE_WIRE_REFUSED, "%s", failure->message);
      g_propagate_error (error, g_steal_pointer (&failure));
      return FALSE;
    }
  if (!remote_follow_location (&reply, url, &next, error))
    return FALSE;
  take_location (self, g_steal_pointer (&next));
  const char *offset = http_reply_header (&reply, "x-ai-models-upload-offset");
  guint64 told = offset == NULL ? G_MAXUINT64 : g_ascii_strtoull (offset, NULL, 10);
  if (told != sent_up_to (self))
    return am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "%s: the registry took less than was sent",
                    self->remote->base.display);
  if (self->sent->len > 0)
    self->acked = g_array_index (self->sent, Mark, self->sent->len - 1);
  g_array_set_size (self->sent, 0);
  return TRUE;
}

/* The hash at a place no mark tells of: the content before it is read again. */
static gboolean
rehash (Ctx *ctx, FramePush *self, guint64 offset, GError **error)
{
  g_autoptr (Reader) before = reader_new_slice (self->content, 0, offset);
  g_autoptr (ReadAhead) ahead = read_ahead_new (ctx, before, 0, NULL);
  Mark mark = { .end_bytes = offset };
  const guint8 *block = NULL;
  gssize n;
  sha256_init (&mark.hash);
  while ((n = read_ahead_next (ahead, &block, error)) > 0)
    sha256_update (&mark.hash, block, (gsize) n);
  if (n < 0)
    return FALSE;
  self->acked = mark;
  remote_progress (self->progress, offset, 0);
  return TRUE;
}

static gboolean
go_on_at (Ctx *ctx, FramePush *self, guint64 offset, GError **error)
{
  if (offset == self->acked.end_bytes)
    return TRUE;
  for (guint i = 0; i < self->sent->len; i++)
    if (g_array_index (self->sent, Mark, i).end_bytes == offset)
      {
        self->acked = g_array_index (self->sent, Mark, i);
        return TRUE;
      }
  if (offset > self->content->size_bytes)
    return am_fail (error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN",
                    "%s: the upload holds more bytes than the content has", self->remote->base.display);
  if (self->expected == NULL || offset == 0)
    return rehash (ctx, self, offset, error);
  self->is_blind = self->is_blind || offset > self->acked.end_bytes;
  self->acked.end_bytes = offset;
  remote_progress (self->progress, offset, 0);
  return TRUE;
}

/* A new session, from the start: what is stored already is then simply known. */
static gboolean
start_over (Ctx *ctx, FramePush *self, GError **error)
{
  push_note_remove (ctx, self->remote->notes, self->note);
  if (++self->n_sessions > MAX_SESSIONS)
    return am_fail (error, AM_ERROR_UNAVAILABLE, "BLOB_UPLOAD_UNKNOWN",
                    "%s: the registry forgets uploads again and again", self->remote->base.display);
  char *location = remote_start_upload (ctx, self->remote, NULL, error);
  if (location == NULL)
    return FALSE;
  push_note_save (ctx, self->remote->notes, self->note, location);
  take_location (self, location);
  self->acked.end_bytes = 0;
  self->is_blind = FALSE;
  sha256_init (&self->acked.hash);
  return TRUE;
}

static gboolean
is_forgotten (const GError *failure)
{
  return am_error_is (failure, AM_ERROR_NOT_FOUND) || am_error_has_reason (failure, "BLOB_UPLOAD_UNKNOWN");
}

/* Asks the server where it stands and goes on there, or in a new session when it has forgotten this one. */
static gboolean
resynchronize (Ctx *ctx, FramePush *self, GError **error)
{
  guint64 offset = 0;
  g_autoptr (GError) failure = NULL;
  char *location = current_location (self);
  gboolean done = remote_upload_offset (ctx, self->remote, &location, &offset, &failure);
  take_location (self, location);
  if (done && go_on_at (ctx, self, offset, &failure))
    return TRUE;
  if (is_forgotten (failure))
    return start_over (ctx, self, error);
  g_propagate_error (error, g_steal_pointer (&failure));
  return FALSE;
}

/* After `failure`: waits, finds out where to go on, and starts the pipeline there. FALSE when it is final. */
static gboolean
recover (Ctx *ctx, FramePush *self, Retry *retry, const GError *failure, GError **error)
{
  gboolean is_damage = am_error_has_reason (failure, "CHUNK_UNKNOWN");
  am_log_debug (ctx, "push interrupted", "repository", self->remote->base.display, "err", failure->message, NULL);
  g_clear_pointer (&self->pipeline, push_pipeline_free);
  if (is_forgotten (failure))
    {
      if (!start_over (ctx, self, error))
        return FALSE;
    }
  else
    {
      g_autoptr (GError) problem = g_error_copy (failure);
      do
        {
          if (!retry_wait (ctx, retry, problem, error))
            return FALSE;
          g_clear_error (&problem);
        }
      while (!resynchronize (ctx, self, &problem));
    }
  retry_reached (retry, self->acked.end_bytes);
  if (is_damage)
    self->whole_until = self->acked.end_bytes + WHOLE_AFTER_DAMAGE_BYTES;
  start_pipeline (ctx, self);
  return TRUE;
}

/* Sends everything from where the session stands. */
static gboolean
send_all (Ctx *ctx, FramePush *self, Retry *retry, GError **error)
{
  while (TRUE)
    {
      g_autoptr (GError) failure = NULL;
      PushNext next = want_frame (self, -1, &failure);
      if (next == PUSH_END)
        return TRUE;
      if (next == PUSH_FRAME && patch (ctx, self, &failure))
        {
          retry_reached (retry, self->acked.end_bytes);
          continue;
        }
      if (!recover (ctx, self, retry, failure, error))
        return FALSE;
    }
}

/* Sends and closes. A session begun by an earlier process may hold other content than this one: then its digest
 * does not fit, and one fresh session is tried. */
static gboolean
run (Ctx *ctx, FramePush *self, gboolean is_resumed, Digest *out_digest, GError **error)
{
  Retry retry = { .base_ms = self->remote->retry_base_ms };
  start_pipeline (ctx, self);
  while (TRUE)
    {
      g_autoptr (GError) failure = NULL;
      if (!send_all (ctx, self, &retry, error))
        return FALSE;
      if (self->expected != NULL)
        *out_digest = *self->expected;
      else
        push_pipeline_digest (self->pipeline, out_digest);
      g_autofree char *location = current_location (self);
      if (remote_close_upload (ctx, self->remote, location, out_digest, &failure))
        {
          push_note_remove (ctx, self->remote->notes, self->note);
          return TRUE;
        }
      gboolean is_other = am_error_has_reason (failure, "DIGEST_INVALID");
      if (is_other)
        push_note_remove (ctx, self->remote->notes, self->note);
      if (is_other && (is_resumed || self->is_blind))
        {
          is_resumed = FALSE;
          if (!start_over (ctx, self, error))
            return FALSE;
          start_pipeline (ctx, self);
        }
      else if (!recover (ctx, self, &retry, failure, error))
        return FALSE;
    }
}

gboolean
remote_push_frames (Ctx *ctx, Remote *remote, Reader *content, const Digest *expected, char *location,
                    gboolean is_resumed, const char *note, RemoteProgress *progress, Digest *out_digest,
                    GError **error)
{
  FramePush self = { .remote = remote,
                     .content = content,
                     .note = note,
                     .progress = progress,
                     .location = location,
                     .expected = expected,
                     .n_sessions = 1 };
  self.sent = g_array_new (FALSE, FALSE, sizeof (Mark));
  sha256_init (&self.acked.hash);
  g_mutex_init (&self.lock);
  g_autoptr (GError) failure = NULL;
  gboolean done = (!is_resumed || resynchronize (ctx, &self, &failure))
                  && run (ctx, &self, is_resumed, out_digest, &failure);
  if (am_error_has_reason (failure, REMOTE_WIRE_REFUSED))
    remote_cancel_upload (ctx, remote, self.location);
  if (failure != NULL)
    g_propagate_error (error, g_steal_pointer (&failure));
  g_clear_pointer (&self.pipeline, push_pipeline_free);
  g_array_unref (self.sent);
  g_mutex_clear (&self.lock);
  g_free (self.location);
  return done;
}
