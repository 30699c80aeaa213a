/* Looks into the files of a model: every weight file and index is checked strictly, and what the files say
 * about the model is gathered. Give it each kept file of a selection, in any order; the readers are used
 * during the call only, and only headers and small files are read. Used by publish/, by `inspect` and
 * `verify`. Not thread-safe. */
#pragma once

#include "base/reader.h"
#include "formats/model_facts.h"

typedef struct ModelInspector ModelInspector;

ModelInspector *model_inspector_new (ModelFormat format);
void model_inspector_free (ModelInspector *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ModelInspector, model_inspector_free)

/* `path` is relative to the model's root (a selection's target). INVALID_ARGUMENT names the file and its
 * fault, reasons FormatInvalid, LfsPointer, PickleRejected; RESOURCE_EXHAUSTED above a limit; the
 * reader's errors. Blocks as the reader does. */
gboolean model_inspector_add_file (Ctx *ctx, ModelInspector *self, const char *path, Reader *reader, GError **error);
/* Checks the files against each other (reasons ShardMissing, ShardMismatch, StaleIndex,
 * PipelineIncomplete) and gives the facts, which the caller frees. Call once. */
ModelFacts *model_inspector_finish (ModelInspector *self, GError **error);
