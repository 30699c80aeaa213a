/* What a Model's status says of the model itself: status.resolved of crds/model.yaml, and nothing that its schema would
 * refuse. Made by the worker from a profile, carried by its result (worker_result.h), written into the status by the
 * controller. Pure; values belong to one thread. */
#pragma once

#include "base/error.h"
#include "base/json.h"
#include "domain/model_profile.h"

#define RESOLVED_MODEL_MAX_WORDS 16u
#define RESOLVED_MODEL_MAX_SOURCE_WORDS 32u

/* Texts and lists are NULL, numbers 0, where nothing is known. */
typedef struct {
  char *format, *family, *architecture, *quantization;
  guint64 parameter_count, context_window_tokens;
  GPtrArray *endpoint_types, *features; /* of char *: words of the schema, each once */
  char *provider;                       /* "HuggingFace" */
  GPtrArray *source_tasks, *source_features;
} ResolvedModel;

/* Only what may be shown (confidence_is_public). `provider` is status.source.resolvedType. */
void resolved_model_of_profile (const ModelProfile *profile, const char *provider, ResolvedModel *out_model);
/* Of a JSON object from outside; words that the schema does not have, duplicates and what is too long or too much are
 * left out. INVALID_ARGUMENT for members of another type, and without a format. */
gboolean resolved_model_parse (yyjson_val *object, ResolvedModel *out_model, GError **error);
/* Its members, into an object. */
void resolved_model_add (const ResolvedModel *self, yyjson_mut_doc *doc, yyjson_mut_val *object);
/* Lets go of what can best be missed, for a place that is too small; FALSE when nothing is left to go. */
gboolean resolved_model_shorten (ResolvedModel *self);
/* TRUE for a word of status.source.resolvedType. */
gboolean resolved_model_has_provider (const char *provider);
void resolved_model_clear (ResolvedModel *self);
