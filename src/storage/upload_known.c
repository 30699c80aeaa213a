/* The question which chunks need not be sent: asked beside the request that fills the session. */
#include "base/text.h"
#include "storage/upload_session.h"
#include "storage/upload_state.h"

static gboolean
check_session (Ctx *ctx, ObjectStore *objects, const char *repository, const char *id, GError **error)
{
  if (!text_is_uuid (id))
    return am_fail (error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN", "there is no such upload");
  g_autofree char *owner = upload_state_repository (ctx, objects, id, error);
  if (owner == NULL)
    return FALSE;
  return g_str_equal (owner, repository)
         || am_fail (error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN", "there is no upload %s", id);
}

typedef struct {
  BlobStore *blobs;
  const guint8 *digests;
  char *answers; /* one for each */
} Question;

static gboolean
ask_one (Ctx *ctx, gpointer data, guint index, GError **error)
{
  const Question *self = data;
  gboolean has = FALSE;
  if (!blob_store_has_chunk (ctx, self->blobs, self->digests + 32 * (gsize) index, &has, error))
    return FALSE;
  self->answers[index] = has ? '1' : '0';
  return TRUE;
}

gboolean
upload_session_known (Ctx *ctx, BlobStore *blobs, const char *repository, const char *id, const guint8 *digests,
                      gsize n, GString *out_answers, GError **error)
{
  ObjectStore *objects = blob_store_objects (blobs);
  char uuid[37];
  if (n > UPLOAD_KNOWN_MAX)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "SIZE_INVALID", "at most %u chunks can be asked about at once",
                    UPLOAD_KNOWN_MAX);
  if (!check_session (ctx, objects, repository, id, error))
    return FALSE;
  /* Pinned first, asked afterwards: what is answered as known cannot be collected in between. */
  text_uuid (uuid);
  g_autofree char *key = g_strdup_printf (UPLOADS_PREFIX "%s/pins-%s", id, uuid);
  if (!object_store_put (ctx, objects, key, digests, n * 32, OBJECT_COMMIT_LAZY, error))
    return FALSE;
  g_autofree char *answers = g_malloc0 (n + 1);
  Question question = { blobs, digests, answers };
  if (!object_store_each (ctx, objects, (guint) n, ask_one, &question, error))
    return FALSE;
  g_string_append (out_answers, answers);
  return TRUE;
}
