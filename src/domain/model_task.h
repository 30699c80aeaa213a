/* Tasks: what a source declares, what an architecture implies, and what a task means for the API
 * (metadata-profile.md "Task resolution" and "Task to endpoint types and features",
 * formats-config-facts.md 9). Tables only; pure. */
#pragma once

#include "formats/model_facts.h"

typedef struct {
  const char *task;
  const char *endpoints; /* words separated by spaces, "" for none */
  const char *features;
} TaskMeaning;

/* NULL for an unknown task. `task` is normalised. */
const TaskMeaning *task_meaning (const char *task);
/* Lower case, '_' and space as '-', synonyms resolved; NULL when the task is unknown. Owned by the table. */
const char *task_normalise (const char *text);
/* The task that Hugging Face declares: the one all `model_index_tasks` (NULL-terminated, may be NULL)
 * agree on, else the pipeline tag. NULL when there is none that is known. */
const char *task_declared (const char *const *model_index_tasks, const char *pipeline_tag);
/* By rule from what the files say; NULL when nothing follows. */
const char *task_of_safetensors (const ModelFacts *facts);
const char *task_of_gguf (const ModelFacts *facts);
const char *task_of_pipeline (const char *class_name);
/* "stable-diffusion" and the like, NULL when unknown. */
const char *family_of_pipeline (const char *class_name);
/* A copy of the architecture without "ForCausalLM" and the like, in lower case. */
char *family_of_architecture (const char *architecture);
