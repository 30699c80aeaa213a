/* What a chat template (Jinja text) tells about a model: metadata-profile.md, formats-config-facts.md 8.
 * It is searched, never run. Pure. */
#pragma once

#include "base/json.h"

#include "formats/model_facts.h"

/* Where a template stands; a higher one hides the lower ones. */
typedef enum {
  CHAT_TEMPLATE_NONE,
  CHAT_TEMPLATE_PROCESSOR, /* processor_config.json */
  CHAT_TEMPLATE_TOKENIZER, /* tokenizer_config.json, or the GGUF header */
  CHAT_TEMPLATE_JSON,      /* chat_template.json */
  CHAT_TEMPLATE_JINJA,     /* chat_template.jinja */
} ChatTemplateSource;

typedef struct {
  ChatTemplateSource source;
  gboolean has_tools, has_reasoning;
} ChatTemplate;

/* Takes the text into account; a template of a lower place than what is known is ignored. */
void chat_template_add_text (ChatTemplate *self, ChatTemplateSource source, const char *text, gsize size);
/* The member `chat_template` of a document: a string, or a list of {name, template}. */
void chat_template_add_json (ChatTemplate *self, ChatTemplateSource source, yyjson_val *root);
void chat_template_apply (const ChatTemplate *self, ModelFacts *facts);
