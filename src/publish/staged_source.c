#include "publish/staged_source.h"

#include <string.h>

#include "formats/archive.h"
#include "formats/sniff.h"
#include "publish/archive_source.h"

/* A single file behind one Reader. */
typedef struct {
  ModelSource base;
  Reader *content;
  char *path;
} StagedSource;

static Reader *
staged_open (ModelSource *base, const char *path, GError **error)
{
  StagedSource *self = (StagedSource *) base;
  return reader_new_slice (self->content, 0, self->content->size_bytes);
}

static void
staged_free (ModelSource *base)
{
  StagedSource *self = (StagedSource *) base;
  reader_free (self->content);
  g_free (self->path);
  g_free (self);
}

/* Takes `content` over. */
static ModelSource *
single_file (Reader *content, const char *name, gboolean is_gguf)
{
  static const ModelSourceClass klass = { NULL, staged_open, NULL, staged_free };
  StagedSource *self = g_new0 (StagedSource, 1);
  self->content = content;
  self->path = g_strdup (name);
  self->base.klass = &klass;
  self->base.display = g_strdup (name);
  self->base.files = g_array_new (FALSE, FALSE, sizeof (SourceFile));
  self->base.is_sequential = TRUE; /* its readers share one */
  SourceFile file = { self->path, content->size_bytes, is_gguf, NULL };
  g_array_append_val (self->base.files, file);
  return &self->base;
}

ModelSource *
staged_source_open (Ctx *ctx, ObjectStore *store, const char *key, const char *name, GError **error)
{
  guint8 head[SNIFF_BYTES];
  ArchiveKind kind;
  g_autoptr (Reader) content = object_store_open (ctx, store, key, error);
  if (content == NULL)
    {
      if (error != NULL && am_error_is (*error, AM_ERROR_NOT_FOUND))
        {
          g_clear_error (error);
          am_fail (error, AM_ERROR_NOT_FOUND, "UploadGone",
                   "the uploaded file %s is gone: delete the object and upload it anew", name);
        }
      return NULL;
    }
  gsize size = (gsize) MIN (content->size_bytes, sizeof head);
  if (!reader_read_at (ctx, content, 0, head, size, error))
    return NULL;
  if (archive_detect (head, size, &kind))
    return archive_source_open (ctx, g_steal_pointer (&content), name, error);
  return single_file (g_steal_pointer (&content), name, size >= 4 && memcmp (head, "GGUF", 4) == 0);
}
