#include "publish/source_reader.h"

#include "base/error.h"

typedef struct {
  Reader base;
  Reader *inner;
  GError *problem;
} SourceReader;

static gboolean
source_read_at (Ctx *ctx, Reader *base, guint64 offset_bytes, gpointer buffer, gsize size, GError **error)
{
  SourceReader *self = (SourceReader *) base;
  g_clear_error (&self->problem);
  if (reader_read_at (ctx, self->inner, offset_bytes, buffer, size, &self->problem))
    return TRUE;
  if (error != NULL)
    *error = g_error_copy (self->problem);
  return FALSE;
}

static void
source_reader_free (Reader *base)
{
  SourceReader *self = (SourceReader *) base;
  reader_free (self->inner);
  g_clear_error (&self->problem);
  g_free (self);
}

Reader *
source_reader_new (Reader *inner)
{
  static const ReaderClass klass = { source_read_at, source_reader_free };
  if (inner == NULL)
    return NULL;
  SourceReader *self = g_new0 (SourceReader, 1);
  self->base = (Reader){ &klass, inner->size_bytes };
  self->inner = inner;
  return &self->base;
}

const GError *
source_reader_problem (const Reader *base)
{
  const SourceReader *self = (const SourceReader *) base;
  return am_error_is (self->problem, AM_ERROR_CANCELLED) ? NULL : self->problem;
}
