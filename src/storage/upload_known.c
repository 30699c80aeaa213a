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
  g_autoptr (GString) answers = g_string_sized_new (n + 1);
  for (gsize i = 0; i < n; i++)
    {
      gboolean has = FALSE;
      if (!blob_store_has_chunk (ctx, blobs, digests + 32 * i, &has, error))
        return FALSE;
      g_string_append_c (answers, has ? '1' : '0');
    }
  g_string_append (out_answers, answers->str);
  return TRUE;
}
