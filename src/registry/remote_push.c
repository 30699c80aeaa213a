/* Pushing a blob: over the chunk wire where it is spoken and worth it, otherwise as any OCI client does, by one
 * streaming PUT, or in small PATCHes where a registry or a proxy before it refuses large bodies
 * (formats-oci-modelpack.md 4.1). */
#include "registry/remote.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "oci/media_types.h"
#include "registry/read_ahead.h"
#include "registry/upload_location.h"
#include "storage/chunk_plan.h"

/* Some registries take no larger PATCH (GHCR: 4 MiB), others want a least size. */
#define PIECE_BYTES (4u << 20)
#define PIECE_MAX_BYTES (64u << 20)

/* The content on its way as one body. */
typedef struct {
  Reader *content;
  RemoteProgress *progress;
  ReadAhead *ahead;
  const guint8 *block;
  gsize left; /* of the block */
  guint64 position_bytes;
} Body;

static gssize
body_read (Ctx *ctx, gpointer data, guint8 *buffer, gsize size, GError **error)
{
  Body *self = data;
  if (self->left == 0)
    {
      gssize n = read_ahead_next (self->ahead, &self->block, error);
      if (n <= 0)
        return n;
      self->left = (gsize) n;
    }
  gsize n = MIN (size, self->left);
  memcpy (buffer, self->block, n);
  self->block += n;
  self->left -= n;
  self->position_bytes += n;
  remote_progress (self->progress, self->position_bytes, n);
  return (gssize) n;
}

/* PUT <location>?digest= with the whole content. `*out_status` is 0 when there was no answer. */
static gboolean
put_whole (Ctx *ctx, Remote *self, Reader *content, const char *location, const Digest *digest,
           RemoteProgress *progress, guint *out_status, GError **error)
{
  static const HttpUpload upload = { body_read, NULL };
  static const char *const headers[] = { "Content-Type: " OCTET_STREAM, NULL };
  char text[DIGEST_STRING_SIZE];
  g_autofree char *url = http_url_with (location, "digest", digest_format (digest, text));
  g_autoptr (ReadAhead) ahead = read_ahead_new (ctx, content, 0, NULL);
  Body body = { .content = content, .progress = progress, .ahead = ahead };
  HttpCall call = { .method = "PUT",
                    .url = url,
                    .headers = headers,
                    .upload = &upload,
                    .upload_data = &body,
                    .upload_size = (gint64) content->size_bytes,
                    .no_redirects = TRUE };
  g_auto (HttpReply) reply = { 0 };
  gboolean done = registry_client_call (ctx, self->client, REGISTRY_PUSH, &call, &reply, error);
  *out_status = reply.status;
  return done && remote_check_stored (self, &reply, digest, error);
}

/* One PATCH of [offset, offset + size). */
static gboolean
patch_piece (Ctx *ctx, Remote *self, Reader *content, char **location, guint64 offset, gsize size, GError **error)
{
  g_autofree guint8 *bytes = g_malloc (size);
  if (!reader_read_at (ctx, content, offset, bytes, size, error))
    return FALSE;
  g_autoptr (GBytes) body = g_bytes_new_take (g_steal_pointer (&bytes), size);
  g_autofree char *range = g_strdup_printf ("Content-Range: %" G_GUINT64_FORMAT "-%" G_GUINT64_FORMAT, offset,
                                            offset + size - 1);
  const char *headers[] = { "Content-Type: " OCTET_STREAM, range, NULL };
  g_autofree char *url = g_strdup (*location);
  HttpCall call = { .method = "PATCH", .url = url, .headers = headers, .body = body, .no_redirects = TRUE };
  g_auto (HttpReply) reply = { 0 };
  return registry_client_call (ctx, self->client, REGISTRY_PUSH, &call, &reply, error)
         && remote_follow_location (&reply, url, location, error);
}

/* In pieces, each confirmed; after trouble the registry's own count says where to go on. */
static gboolean
push_in_pieces (Ctx *ctx, Remote *self, Reader *content, const Digest *digest, RemoteProgress *progress,
                GError **error)
{
  Retry retry = { .base_ms = self->retry_base_ms };
  guint64 least = 0;
  guint64 total = content->size_bytes;
  g_autofree char *location = remote_start_upload (ctx, self, &least, error);
  if (location == NULL)
    return FALSE;
  gsize piece = (gsize) CLAMP (least, PIECE_BYTES, PIECE_MAX_BYTES);
  for (guint64 offset = 0; offset < total;)
    {
      gsize size = (gsize) MIN (total - offset, piece);
      g_autoptr (GError) failure = NULL;
      if (patch_piece (ctx, self, content, &location, offset, size, &failure))
        {
          offset += size;
          retry_reached (&retry, offset);
          remote_progress (progress, offset, size);
          continue;
        }
      gboolean is_out_of_step = am_error_is (failure, AM_ERROR_OUT_OF_RANGE)
                                && retry.n_failures++ < RETRY_MAX_FAILURES;
      if (!is_out_of_step && !retry_wait (ctx, &retry, failure, error))
        return FALSE;
      if (!remote_upload_offset (ctx, self, &location, &offset, error))
        return FALSE;
      if (offset > total)
        return am_fail (error, AM_ERROR_DATA_LOSS, "BLOB_UPLOAD_INVALID",
                        "%s: the registry says that it has more than was sent", self->base.display);
    }
  return remote_close_upload (ctx, self, location, digest, error);
}

static gboolean
wants_pieces (guint status)
{
  return status == 413 || status == 502;
}

/* As any OCI client. `location` is an open session or NULL. */
static gboolean
push_plain (Ctx *ctx, Remote *self, Reader *content, const Digest *digest, const char *location,
            RemoteProgress *progress, GError **error)
{
  Retry retry = { .base_ms = self->retry_base_ms };
  g_autofree char *session = g_strdup (location);
  while (TRUE)
    {
      g_autoptr (GError) failure = NULL;
      guint status = 0;
      gboolean has = FALSE;
      if (session == NULL)
        session = remote_start_upload (ctx, self, NULL, error);
      if (session == NULL)
        return FALSE;
      if (put_whole (ctx, self, content, session, digest, progress, &status, &failure))
        return TRUE;
      remote_cancel_upload (ctx, self, session);
      if (wants_pieces (status) && content->size_bytes > PIECE_BYTES)
        return push_in_pieces (ctx, self, content, digest, progress, error);
      retry_reached (&retry, progress->told_bytes);
      if (!retry_wait (ctx, &retry, failure, error))
        return FALSE;
      /* The answer may have been lost after all was done. */
      if (!remote_has_blob (ctx, self, digest, &has, error) || has)
        return has;
      g_clear_pointer (&session, g_free);
    }
}

static gboolean
digest_content (Ctx *ctx, Reader *content, DigestAlgorithm algorithm, Digest *out_digest, GError **error)
{
  g_autoptr (Hasher) hasher = hasher_new (algorithm);
  g_autoptr (ReadAhead) ahead = read_ahead_new (ctx, content, 0, hasher);
  const guint8 *block = NULL;
  gssize n;
  while ((n = read_ahead_next (ahead, &block, error)) > 0)
    ;
  if (n == 0)
    hasher_finish (hasher, out_digest);
  return n == 0;
}

/* Content that is small, or goes to a registry that does not speak the wire. */
static gboolean
push_whole (Ctx *ctx, Remote *self, Reader *content, const Digest *expected, const char *location,
            RemoteProgress *progress, Digest *out_digest, GError **error)
{
  gboolean has = FALSE;
  if (expected != NULL)
    *out_digest = *expected;
  else if (!digest_content (ctx, content, DIGEST_SHA256, out_digest, error)
           || !remote_has_blob (ctx, self, out_digest, &has, error))
    return FALSE;
  if (!has)
    return push_plain (ctx, self, content, out_digest, location, progress, error);
  if (location != NULL)
    remote_cancel_upload (ctx, self, location);
  remote_progress (progress, content->size_bytes, 0);
  return TRUE;
}

/* The session that an earlier process left, if the registry still has it. */
static gboolean
find_session (Ctx *ctx, Remote *self, const char *note, char **out_location, GError **error)
{
  g_autofree char *path = push_note_load (self->notes, note);
  if (path == NULL)
    return TRUE;
  g_autofree char *here = registry_client_url (self->client, "blobs/uploads/");
  g_autofree char *location = upload_location_resolve (here, path, NULL);
  g_autoptr (GError) failure = NULL;
  guint64 offset = 0;
  if (location != NULL && remote_upload_offset (ctx, self, &location, &offset, &failure))
    {
      am_log_info (ctx, "an upload goes on where it stopped", "bytes", AM_U64 (offset), NULL);
      *out_location = g_steal_pointer (&location);
      return TRUE;
    }
  if (failure == NULL || am_error_is (failure, AM_ERROR_NOT_FOUND)
      || am_error_is (failure, AM_ERROR_FAILED_PRECONDITION))
    {
      am_ignore (&failure, "the interrupted push is too old; it starts anew");
      push_note_remove (ctx, self->notes, note);
      return TRUE;
    }
  g_propagate_error (error, g_steal_pointer (&failure));
  return FALSE;
}

static gboolean
push_large (Ctx *ctx, Remote *self, Reader *content, const Digest *expected, const char *resume_key,
            RemoteProgress *progress, Digest *out_digest, GError **error)
{
  g_autofree char *note = push_note_name (registry_client_host (self->client), self->base.name, resume_key);
  g_autofree char *location = NULL;
  if (!find_session (ctx, self, note, &location, error))
    return FALSE;
  gboolean is_resumed = location != NULL;
  if (location == NULL)
    location = remote_start_upload (ctx, self, NULL, error);
  if (location == NULL)
    return FALSE;
  if (registry_client_wire (self->client) != WIRE_SPOKEN)
    return push_whole (ctx, self, content, expected, location, progress, out_digest, error);
  if (!is_resumed)
    push_note_save (ctx, self->notes, note, location);
  g_autoptr (GError) failure = NULL;
  if (remote_push_frames (ctx, self, content, expected, g_steal_pointer (&location), is_resumed, note, progress,
                          out_digest, &failure))
    return TRUE;
  if (am_error_has_reason (failure, REMOTE_WIRE_REFUSED))
    {
      registry_client_refuse_wire (self->client);
      push_note_remove (ctx, self->notes, note);
      return push_whole (ctx, self, content, expected, NULL, progress, out_digest, error);
    }
  g_propagate_error (error, g_steal_pointer (&failure));
  return FALSE;
}

gboolean
remote_push_blob (Ctx *ctx, Repository *base, Reader *content, const Digest *expected, const char *resume_key,
                  TransferProgress report, gpointer data, Digest *out_digest, GError **error)
{
  Remote *self = (Remote *) base;
  RemoteProgress progress = { .report = report, .data = data };
  gboolean has = FALSE;
  if (expected != NULL && !remote_has_blob (ctx, self, expected, &has, error))
    return FALSE;
  if (has)
    {
      *out_digest = *expected;
      remote_progress (&progress, content->size_bytes, 0);
      return TRUE;
    }
  /* The wire hashes with SHA-256 only, and a small blob is one piece anyway. */
  gboolean is_plain = registry_client_wire (self->client) == WIRE_NOT_SPOKEN
                      || content->size_bytes <= BLOB_WHOLE_MAX_BYTES
                      || (expected != NULL && expected->algorithm != DIGEST_SHA256);
  return is_plain ? push_whole (ctx, self, content, expected, NULL, &progress, out_digest, error)
                  : push_large (ctx, self, content, expected, resume_key, &progress, out_digest, error);
}
