/* Port: where a model's files come from: this machine (source.h), a hub (hub_source.h) or Ollama's registry
 * (ollama_source.h). Used by publish.h.
 * Functions of one source are for one thread; the readers it gives out are independent of one another. */
#pragma once

#include "base/ctx.h"
#include "base/digest.h"
#include "base/reader.h"
#include "domain/file_selection.h"

typedef struct ModelSource ModelSource;

/* An implementation embeds ModelSource as its first member; the functions below tell what each has to do. */
typedef struct {
  gboolean (*prepare) (Ctx *ctx, ModelSource *self, GHashTable *wanted, GError **error); /* NULL: nothing to do */
  Reader *(*open) (ModelSource *self, const char *path, GError **error);
  gboolean (*digest) (const ModelSource *self, const char *path, Digest *out_digest); /* NULL: none is known */
  void (*free) (ModelSource *self); /* `self` too, but not what the fields below hold */
} ModelSourceClass;

struct ModelSource {
  const ModelSourceClass *klass;
  GArray *files; /* SourceFile, whose paths the implementation keeps */
  char *display; /* a path, or "https://huggingface.co/owner/name" */
  /* Its files are to be read one after the other, in the order of `files`: an archive is unpacked again for each step back. */
  gboolean is_sequential;
  /* What a remote source says; all may be NULL. */
  char *within;   /* the folder or file that is meant */
  char *revision; /* the commit; or tag and digest */
  char *task, *license;
  char **index_tasks; /* NULL-terminated */
  char *family, *parameter_text, *quantization;
  guint64 context_tokens; /* 0: it does not say */
};

/* Makes the files named in `wanted` (a set of paths) readable. Blocks. */
gboolean model_source_prepare (Ctx *ctx, ModelSource *self, GHashTable *wanted, GError **error);
/* A file of the list; caller frees before the source. */
Reader *model_source_open (ModelSource *self, const char *path, GError **error);
/* What the source says that the content's SHA-256 is; FALSE when it does not say. */
gboolean model_source_digest (const ModelSource *self, const char *path, Digest *out_digest);
void model_source_free (ModelSource *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ModelSource, model_source_free)
