/* The question which chunks need not be sent: asked beside the request that fills the session. */
#include "base/text.h"
#include "storage/blob_private.h"
#include "storage/upload_session.h"
#include "storage/upload_state.h"

/* A session that has ended meanwhile is no harm: what is written for it expires. */
static gboolean
check_session (Ctx *ctx, BlobStore *blobs, const char *repository, const char *id, GError **error)
{
  if (!text_is_uuid (id))
    return am_fail (error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN", "there is no such upload");
  g_autofree char *owner = blob_store_upload_owner (blobs, id);
  if (owner == NULL)
    {
      owner = upload_state_repository (ctx, blob_store_objects (blobs), id, error);
      if (owner == NULL)
        return FALSE;
      blob_store_saw_upload (blobs, id, owner);
    }
  return g_str_equal (owner, repository)
         || am_fail (error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN", "there is no upload %s", id);
}

typedef struct {
  BlobStore *blobs;
  const guint8 *digests;
  const GArray *asked; /* guint: the indexes that the store is asked about */
  char *answers;       /* one for each digest */
} Question;

static gboolean
ask_one (Ctx *ctx, gpointer data, guint index, GError **error)
{
  const Question *self = data;
  guint at = g_array_index (self->asked, guint, index);
  gboolean has = FALSE;
  if (!blob_store_has_chunk (ctx, self->blobs, self->digests + 32 * (gsize) at, &has, error))
    return FALSE;
  self->answers[at] = has ? '1' : '0';
  return TRUE;
}

/* What the store surely lacks needs no question. A listing that fails is no reason not to ask. */
static void
choose (Ctx *ctx, BlobStore *blobs, const guint8 *digests, gsize n, GArray *asked)
{
  ChunkHint *hint = blob_store_hint (blobs);
  g_autoptr (GError) problem = NULL;
  if (hint != NULL && !chunk_hint_refresh (ctx, hint, blob_store_objects (blobs), &problem))
    am_ignore (&problem, "the store is asked about more chunks than it would have been");
  for (guint i = 0; i < n; i++)
    if (hint == NULL || !chunk_hint_surely_lacks (hint, digests + 32 * (gsize) i))
      g_array_append_val (asked, i);
}

static gboolean
pin (Ctx *ctx, const Question *question, const char *id, GError **error)
{
  g_autoptr (GByteArray) pins = g_byte_array_new ();
  for (guint i = 0; i < question->asked->len; i++)
    g_byte_array_append (pins, question->digests + 32 * (gsize) g_array_index (question->asked, guint, i), 32);
  return pins->len == 0
         || upload_pins_put (ctx, blob_store_objects (question->blobs), id, pins->data, pins->len / 32, error);
}

gboolean
upload_session_known (Ctx *ctx, BlobStore *blobs, const char *repository, const char *id, const guint8 *digests,
                      gsize n, GString *out_answers, GError **error)
{
  ObjectStore *objects = blob_store_objects (blobs);
  if (n > UPLOAD_KNOWN_MAX)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "SIZE_INVALID", "at most %u chunks can be asked about at once",
                    UPLOAD_KNOWN_MAX);
  if (!check_session (ctx, blobs, repository, id, error))
    return FALSE;
  g_autoptr (GArray) asked = g_array_new (FALSE, FALSE, sizeof (guint));
  g_autofree char *answers = g_strnfill (n, '0');
  Question question = { blobs, digests, asked, answers };
  choose (ctx, blobs, digests, n, asked);
  /* Pinned first, asked afterwards: what is answered as known cannot be collected in between. */
  if (!pin (ctx, &question, id, error) || !object_store_each (ctx, objects, asked->len, ask_one, &question, error))
    return FALSE;
  g_string_append (out_answers, answers);
  return TRUE;
}
