/* What we say about a model: status.resolved, the ModelPack config, `inspect`. Derived by the rules of
 * metadata-profile.md from the facts of its files and the declarations of its source. Pure. */
#pragma once

#include "formats/model_facts.h"

typedef enum {
  CONFIDENCE_NONE,     /* the value is not known */
  CONFIDENCE_EXACT,    /* read from a model file */
  CONFIDENCE_DECLARED, /* stated by the source */
  CONFIDENCE_DERIVED,  /* follows by rule */
  CONFIDENCE_ESTIMATED,
  CONFIDENCE_HINT,
} Confidence;

/* Estimated and Hint values are kept for sizing and never shown in a status. */
gboolean confidence_is_public (Confidence confidence);
const char *confidence_name (Confidence confidence); /* "Exact"; "" for none */

/* What the source and the user say; NULL or 0 where they say nothing. Borrowed for the call. */
typedef struct {
  const char *explicit_task; /* the user's */
  const char *declared_task; /* as task_declared gives it */
  const char *hinted_task;
  const char *const *provider_tasks; /* NULL-terminated; for sourceCapabilities.tasks */
  /* Ollama's config, or another cluster's catalog: */
  const char *family;
  const char *parameter_text; /* "7.2B" */
  guint64 parameter_count;    /* wins over the text */
  const char *quantization;
  guint64 context_tokens;
} ModelDeclaration;

typedef struct {
  ModelFormat format;
  char *task, *architecture, *family, *quantization;
  guint64 parameter_count, context_tokens;
  Confidence task_confidence, architecture_confidence, family_confidence, quantization_confidence;
  Confidence parameter_confidence, context_confidence;
  gboolean is_partial; /* reason ModelMetadataPartial */

  GPtrArray *endpoints;    /* of char *: crds.md's endpoint types; may be empty, never NULL */
  GPtrArray *features;     /* of char *, likewise */
  GPtrArray *source_tasks; /* of char *: provider tasks, lower case, unique, at most 32 */

  char *precision;      /* ModelPack's word for the weights, NULL when unknown */
  char *context_source; /* the key or rule the context came from */
  gboolean has_chat_template, has_reasoning, has_vision, has_audio;
  guint64 parameters_in_all; /* Diffusers: of the whole pipeline; 0 when unknown */

  /* Footprint, for sizing. */
  guint64 weights_bytes, largest_weight_bytes;
  guint n_weight_files;
  guint64 working_set_gib;
  double bytes_per_parameter;

  GPtrArray *warnings; /* of char * */
} ModelProfile;

/* Never NULL. `declaration` may be NULL. */
ModelProfile *model_profile_new (const ModelFacts *facts, const ModelDeclaration *declaration);
void model_profile_free (ModelProfile *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ModelProfile, model_profile_free)

/* "7.2B", "566.70M", "12K" -> a count; 0 when it is none. */
guint64 model_profile_parse_count (const char *text);
