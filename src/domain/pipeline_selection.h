/* The part of file selection that knows Diffusers pipelines: one folder per component, one form and one
 * variant of weights in each (formats-safetensors-diffusers.md 5). Pure; used by file_selection.c. */
#pragma once

#include "domain/file_selection.h"
#include "formats/diffusers_index.h"

/* By names alone: root checkpoints and deeper weights are dropped; in each folder safetensors win over
 * .bin, and the wished variant over the plain weights, or else variants are dropped. Reason
 * PipelineIncomplete when a folder has weights, but none of them in the wanted variant or plain. */
gboolean pipeline_select (FileSelection *selection, GError **error);
/* With model_index.json: folders it does not name are dropped; each part must have its files. Reason
 * PipelineIncomplete lists exactly what is missing. */
gboolean pipeline_refine (FileSelection *selection, const DiffusersIndex *index, GError **error);
