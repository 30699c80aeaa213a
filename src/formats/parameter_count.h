/* Exact parameter counts from tensor tables: containers of quantized weights are unpacked, scales and the
 * like are not counted (formats-safetensors-diffusers.md 3). Pure; used by the inspector. */
#pragma once

#include "formats/config_quantization.h"
#include "formats/safetensors.h"

typedef struct {
  guint64 n_parameters;
  gboolean is_exact; /* FALSE: elements as stored, how they are packed is not known */
  guint64 bytes_of[SAFETENSORS_N_DTYPES];
} ParameterCount;

/* `tensors` (of const SafetensorsTensor *) are all of one model, sorted by parameter_count_sort. Sums
 * that would overflow stay at G_MAXUINT64 and are not exact. */
void parameter_count (const GPtrArray *tensors, const Quantization *quantization, ParameterCount *out_count);
void parameter_count_sort (GPtrArray *tensors);
/* The float type with the most bytes, else any type; SAFETENSORS_N_DTYPES when there are no tensors. */
SafetensorsDtype parameter_count_dominant (const ParameterCount *count);
