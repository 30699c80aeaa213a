/* The header of a GGUF file -> facts (formats-gguf.md 3.2, 4). Pure; used by the inspector. */
#pragma once

#include "formats/gguf.h"
#include "formats/model_facts.h"

/* Projectors (mmproj), LoRA adapters, vocabularies and the like serve a model, they are none. */
typedef enum { GGUF_KIND_MODEL, GGUF_KIND_PROJECTOR, GGUF_KIND_ADAPTER, GGUF_KIND_OTHER } GgufKind;

GgufKind gguf_kind (const GgufHeader *header);
/* Everything but the tensors: from the part that has the metadata. */
void gguf_facts_read (const GgufHeader *header, ModelFacts *facts);
/* Adds a part's elements to `facts->n_parameters` and to the histogram (elements of each tensor type id
 * below GGUF_FACTS_N_TYPES; the last slot is for all others). */
#define GGUF_FACTS_N_TYPES 64
void gguf_facts_count (const GgufHeader *header, ModelFacts *facts, guint64 histogram[GGUF_FACTS_N_TYPES]);
/* Quantization label and precision: general.file_type, else the dominant type among matrices. */
void gguf_facts_quantization (const GgufHeader *header, const guint64 histogram[GGUF_FACTS_N_TYPES],
                              ModelFacts *facts);
